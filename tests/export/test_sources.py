"""What an export writes for a reader's functions, and what it rejects, without TensorFlow."""

from __future__ import annotations

import ast
import functools
import linecache
import math
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.cluster.base import Cluster
from helpers.course.lazy_defaults import input_fn, model_fn
from helpers.errors import ConfigError
from helpers.export import writer
from helpers.export.requirements import tensorflow_version
from helpers.export.targets import TARGETS, Tasks
from helpers.strategies import MIRRORED, MULTI_WORKER, PARAMETER_SERVER
from helpers.system.keras_version import LAST_TF_WITH_ESTIMATOR

Cell = Callable[[str], dict[str, Any]]
TWO = Tasks(workers=2, ps=0, evaluator=False)
SETUP = """
import functools
import json as js
import numpy as np
import os.path
from collections import OrderedDict
from pathlib import Path
from helpers.export.values import DATASETS_DIR as DATA_DIR

RATE = 0.5
"""


@pytest.fixture
def cell() -> Iterator[Cell]:
    """Runs cells in one namespace, as a notebook, which knows the source of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    files: list[str] = []

    def run(text: str) -> dict[str, Any]:
        files.append(f"<cell {len(files)}>")
        linecache.cache[files[-1]] = (len(text), None, text.splitlines(True), files[-1])
        exec(compile(text, files[-1], "exec"), names)
        return names

    run(SETUP)
    yield run
    for file in files:
        linecache.cache.pop(file)


def write(folder: Path, function: Any, *args: Any, target: str = "script", **options: Any) -> Path:
    job = writer.make_job(MULTI_WORKER, "AUTO", function, args, options)
    return writer.write(folder / "program", job, TWO, target)


def names_of(program: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names in the module `train` of a program that does not use TensorFlow."""
    monkeypatch.setenv("TASK_ADDRESSES", "localhost:1 localhost:2")
    monkeypatch.setenv("TASK_NUMBER", "1")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    monkeypatch.setattr(sys, "path", [str(program), *sys.path])
    before = set(sys.modules)
    try:
        return runpy.run_path(str(program / "train.py"))
    finally:
        for name in set(sys.modules) - before:
            if str(program) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def imports_of(program: Path) -> set[str]:
    """The top-level names of the modules that the files of a program import."""
    files = list(program.rglob("*.py"))
    assert program / "train.py" in files
    found = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name for one in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module or "")
    return {name.partition(".")[0] for name in found}


def test_a_function_is_written_with_all_that_it_uses(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell(
        "TABLE = np.arange(6).reshape(2, 3)\n"
        "UNUSED = object()\n"
        "places = {'a': (1,), 'b': [None, float('inf'), b'x'], 'c': {3}, 'd': Path('/x')}\n"
        "square = lambda x: x * x\n"
        "@functools.lru_cache\ndef cached(x):\n    return x + int(TABLE.sum())\n"
        "class Base:\n    def add(self, x):\n        return x + RATE\n"
        "class Adder(Base):\n    name: str = os.path.basename('/a/b')\n"
    )
    function = cell(
        "def scale_by(factor):\n"
        "    def scaled(x, more=RATE):\n"
        "        text = js.dumps(OrderedDict(a=1))\n"
        "        return factor * cached(square(Adder().add(x))) + more, places, text, DATA_DIR\n"
        "    return scaled\n"
        "train = scale_by(3)\n"
    )["train"]
    expected, places, text, _folder = function(1)
    program = write(tmp_path, function, 1)
    train = names_of(program, monkeypatch)
    found = train["scaled"](1)
    assert found == (expected, places, text, program / "datasets")
    assert math.isinf(found[1]["b"][1])
    assert "UNUSED" not in train and "scale_by" not in train
    source = (program / "train.py").read_text("utf-8")
    assert "square = lambda x: x * x\n" in source and "import json as js\n" in source
    assert "scaled(1)" in source
    assert train["cluster_config"].ROLE == "worker" and train["cluster_config"].INDEX == 1
    assert "numpy==" in (program / "requirements.txt").read_text("utf-8")


def test_a_partial_function_and_its_arguments_are_written(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = cell("def add(a, b, c):\n    return a + b + c * RATE\n")["add"]
    partial = functools.partial(add, 1)
    program = write(tmp_path, partial, 2, c=4)
    assert "functools.partial(add, 1)(2, c=4)" in (program / "train.py").read_text("utf-8")
    assert names_of(program, monkeypatch)["add"](1, 2, 4) == 5


def test_modules_of_the_reader_are_copied_with_the_modules_that_they_import(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(
        "from pack.inner import VALUE\ndef get():\n    return VALUE\n"
    )
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text("VALUE = 7\n")
    (tmp_path / "pack" / "words.txt").write_text("words")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    function = cell("from mine import get\ndef train():\n    return get()\n")["train"]
    program = write(tmp_path, function)
    assert (program / "mine.py").is_file() and (program / "pack" / "inner.py").is_file()
    assert (program / "pack" / "words.txt").read_text() == "words"
    for name in ("mine", "pack", "pack.inner"):
        sys.modules.pop(name)
    assert names_of(program, monkeypatch)["train"]() == 7
    assert "`mine.py`" in (program / "README.md").read_text("utf-8")


@pytest.mark.parametrize("target", TARGETS)
def test_no_file_of_an_export_imports_this_package(cell: Cell, tmp_path: Path, target: str) -> None:
    function = cell(
        "def train():\n"
        "    import keras\n"
        "    import helpers.keras_3 as fix; import os\n"
        "    from helpers.keras_3.sidecar import SidecarEvaluator\n"
        "    from helpers.course.model import (\n        make_network as make,\n    )\n"
        "    from helpers import input_fn\n"
        "    return SidecarEvaluator, make, input_fn\n"
    )["train"]
    program = write(tmp_path, function, target=target, keras=3)
    assert "helpers" not in imports_of(program)
    source = (program / "train.py").read_text("utf-8")
    assert "\n    from lesson_functions.model import make_network as make\n" in source
    assert "\n    import keras_3_multi_worker as fix; import os\n" in source
    assert (program / "datasets" / "mnist").is_dir()
    if tensorflow_version() > LAST_TF_WITH_ESTIMATOR:
        assert (program / "keras_3_multi_worker" / "step.py").is_file()
        assert "import keras_3_multi_worker" in source
    for file in (program / "keras_3_multi_worker").glob("*.py"):
        assert "helpers." not in file.read_text("utf-8"), file


@pytest.mark.skipif(tensorflow_version() <= LAST_TF_WITH_ESTIMATOR, reason="has no Keras 3")
@pytest.mark.parametrize(("line", "fixed"), [("import keras", True), ("import tf_keras", False)])
def test_a_program_that_imports_keras_gets_the_fixes_of_keras_3(
    cell: Cell, tmp_path: Path, line: str, fixed: bool
) -> None:
    function = cell(f"def train():\n    {line}\n")["train"]
    program = write(tmp_path, function, keras=2)
    assert (program / "keras_3_multi_worker").is_dir() == fixed
    assert 'LEGACY_KERAS: str | None = "1"\n' in (program / "cluster_config.py").read_text()


@pytest.mark.parametrize("target", TARGETS)
def test_the_functions_of_the_course_are_exported_for_estimator(
    tmp_path: Path, target: str
) -> None:
    program = write(tmp_path, model_fn, input_fn, epochs=2, params={"seed": 4}, target=target)
    assert "helpers" not in imports_of(program)
    source = (program / "train.py").read_text("utf-8")
    assert "epochs=2" in source and 'params={"seed": 4}' in source.replace("'", '"')
    if tensorflow_version() > LAST_TF_WITH_ESTIMATOR:
        shim = (program / "estimator_on_new_tensorflow.py").read_text("utf-8")
        for name in ("_install_estimator_training", "_register_api_name", "_stub_package_init"):
            assert f"def {name}()" in shim
        wanted = (program / "requirements.txt").read_text("utf-8")
        assert "tensorflow-estimator==2.15.0\n" in wanted and "tf-keras==" in wanted


REJECTED = {
    "a lock": ("lock = threading.Lock()", "return lock", "uses lock, .*lock.*inside the function"),
    "a file": ("log = open(os.devnull)", "return log", "uses log, .*TextIOWrapper"),
    "a dataset": ("", "return dataset", "uses dataset, a dataset, which cannot be written"),
    "a strategy": ("", "return strategy", "uses strategy, a strategy"),
    "functions in a list": ("ways = [lambda x: x]", "return ways", "uses ways, which contains"),
    "objects in an array": ("a = np.array([None])", "return a", "uses a, .*ndarray"),
    "a long list": (
        "numbers = list(range(50_000))",
        "return numbers",
        r"numbers, which needs .*MB",
    ),
    "a name of the program": ("run_task = 1", "return run_task", "itself uses the name run_task"),
    "tr": ("from helpers import print_tr", "print_tr('x')", "print instead of print_tr"),
    "a helper": (
        "",
        "from helpers.in_process import x",
        "uses helpers.in_process.x, which belongs",
    ),
    "an attribute": ("import helpers.keras_3", "helpers.compare()", "uses helpers.compare, which"),
    "exec": ("exec('def made():\\n    pass')", "made()", "source of made .*is unknown"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_what_cannot_be_written_is_rejected_by_name(cell: Cell, tmp_path: Path, name: str) -> None:
    before, body, message = REJECTED[name]
    names = cell(f"import threading\n{before}\n")
    for kind, base in (("dataset", "DatasetV2"), ("strategy", "StrategyBase")):
        names[kind] = type(base, (), {"__module__": "tensorflow.python"})()
    function = cell(f"def train():\n    {body}\n")["train"]
    with pytest.raises(ConfigError, match=message):
        write(tmp_path, function)
    assert not (tmp_path / "program").exists()


def test_functions_that_are_no_definitions_are_rejected(cell: Cell, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no name or no source"):
        write(tmp_path, lambda: 1)
    with pytest.raises(ConfigError, match="has no name or no source"):
        write(tmp_path, threading.Event)
    with_context = cell("def train(context):\n    return context\n")["train"]
    with pytest.raises(ConfigError, match="train takes the context of the course's cluster"):
        write(tmp_path, with_context)


def test_two_values_of_one_name_are_rejected(cell: Cell, tmp_path: Path) -> None:
    names = cell(
        "def outer():\n"
        "    RATE = 9\n"
        "    def inner():\n        return RATE\n"
        "    return inner\n"
        "inner = outer()\n"
        "def train():\n    return inner() + RATE\n"
    )
    with pytest.raises(ConfigError, match="different values under the name RATE"):
        write(tmp_path, names["train"])


def test_a_folder_with_files_an_unknown_target_and_a_single_process_are_rejected(
    cell: Cell, tmp_path: Path
) -> None:
    train = cell("def train():\n    return RATE\n")["train"]
    (tmp_path / "program").mkdir()
    program = write(tmp_path, train)  # an empty folder is fine
    with pytest.raises(ConfigError, match=r"exists and is not empty. Choose a new folder"):
        write(tmp_path, train)
    with pytest.raises(ConfigError, match=r"target='docker' is unknown. Choose one of script, sl"):
        write(program / "other", train, target="docker")
    job = writer.make_job(MIRRORED, "AUTO", model_fn, (input_fn,), {})
    with pytest.raises(ConfigError, match="MirroredStrategy needs no cluster"):
        writer.write(program / "other", job, TWO)
    job = writer.make_job(PARAMETER_SERVER, "AUTO", model_fn, (input_fn,), {})
    with pytest.raises(ConfigError, match='target="ray" is not possible with parameter servers'):
        writer.write(program / "other", job, Tasks(2, 1, False), "ray")
    with pytest.raises(ConfigError, match="cannot be written: Not a directory"):
        write(program / "train.py", train)
    with pytest.raises(ConfigError, match="epochs=0"):
        write(tmp_path, model_fn, input_fn, epochs=0)


def test_a_cluster_exports_its_own_tasks(cell: Cell, tmp_path: Path) -> None:
    train = cell("def train(rate):\n    return rate\n")["train"]
    evaluate = cell("def evaluate():\n    return RATE\n")["evaluate"]
    cluster: Any = SimpleNamespace(workers=3, ps=1, strategy=PARAMETER_SERVER, collective="AUTO")
    program = Cluster.export(cluster, tmp_path / "a", train, 0.1, evaluator_fn=evaluate)
    assert program == tmp_path / "a"
    assert "\ntasks=6\n" in (program / "launch.sh").read_text("utf-8")  # with a chief
    source = (program / "train.py").read_text("utf-8")
    assert "train(0.1)" in source and "evaluate()" in source and "parameter_servers.serve" in source
    cluster = SimpleNamespace(
        workers=2, ps=0, strategy=MULTI_WORKER, collective="RING"
    )  # as on Ray
    program = Cluster.export(cluster, tmp_path / "b", model_fn, input_fn, evaluate="sidecar")
    assert "\ntasks=3\n" in (program / "launch.sh").read_text("utf-8")
    assert "CommunicationImplementation.RING" in (program / "train.py").read_text("utf-8")
