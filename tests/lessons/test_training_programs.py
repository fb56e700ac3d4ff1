"""The training cells of the lessons on Keras, as plain programs under the current TensorFlow.

Cells with the tag `trains` are one program, together with the imports of the set-up cell. It must
run as a file, without the course's clusters, with `import helpers.keras_3` as its only extra line:

- The cells define functions. Only the calls of these functions may run TensorFlow's operations,
  because a strategy has to be created before the first operation.
- The program calls the last function, which trains, without an argument, and prints its result:
  a value that is equal on all workers. LAST_LINES has the calls that are different, and
  OTHER_CELLS the cells that the program needs although they do not train.
- Under ParameterServerStrategy the program is the coordinator, and the other tasks run a server.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from helpers import free_ports
from helpers.system.keras_version import LEGACY_KERAS
from helpers.system.ports import without_proxies
from helpers.tf_config import build_tf_configs
from tests.support import ROOT
from tests.support.faults import needs_keras_3
from tools.lessons import notebook

TAG, SETUP = "trains", "language"
FIX = "import helpers.keras_3\n"
KERAS_LESSONS = ("02", "03", "04", "05", "06", "08", "10", "12")
KERAS_2_ONLY = re.compile(r"\boptimizers\.legacy\b|\bhelpers\.estimator\b|TF_USE_LEGACY_KERAS")
LAST_LINES = {
    "02": 'print(train_line(tf.distribute.MultiWorkerMirroredStrategy())["line"])',
    "06": 'print(train()["epochs"])',
    "10": "print(len(train_and_trace()) > 0)",
}
OTHER_CELLS = {"02": ("dataset", "short"), "06": ("model", "sidecar", "stop")}
SECONDS = 180
SERVER = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
task = {"job_name": resolver.task_type, "task_index": resolver.task_id}
tf.distribute.Server(resolver.cluster_spec(), protocol="grpc", **task).join()
"""


def code_cells(number: str, folder: str = "en") -> list[notebook.Json]:
    [path] = ROOT.glob(f"notebooks/{folder}/{number}_*.ipynb")
    return list(notebook.cells(notebook.read(path), "code"))


def program_of(number: str) -> str:
    """Returns the program that consists of a lesson's training cells."""
    cells = code_cells(number)
    [setup] = [notebook.source(cell) for cell in cells if cell["id"] == SETUP]
    imports = [
        ast.unparse(line)
        for line in ast.parse(setup).body
        if isinstance(line, ast.Import | ast.ImportFrom)
    ]
    trains = [cell for cell in cells if TAG in notebook.tags(cell)]
    assert trains, f"no cell has the tag {TAG}"
    others = OTHER_CELLS.get(number, ())
    parts = [notebook.source(cell) for cell in cells if cell in trains or cell["id"] in others]
    last_line = LAST_LINES.get(number) or _call(notebook.source(trains[-1]))
    return "\n\n".join(["\n".join(imports), *parts, f"{last_line}\n"])


def _call(source: str) -> str:
    """Code that prints the result of the last function of a cell."""
    last = ast.parse(source).body[-1]
    assert isinstance(last, ast.FunctionDef), "the last training cell ends with no function"
    assert len(last.args.args) == len(last.args.defaults), f"{last.name} needs arguments"
    return f"print({last.name}())"


def run(program: str, folder: Path) -> list[tuple[int, str]]:
    """The exit code and output of each task that runs the program."""
    (folder / "program.py").write_text(program, "utf-8")
    (folder / "server.py").write_text(SERVER, "utf-8")
    asynchronous = "ParameterServerStrategy(" in program
    addresses = [f"127.0.0.1:{port}" for port in free_ports(4 if asynchronous else 2)]
    configs = build_tf_configs(addresses, chief=asynchronous, ps=int(asynchronous))
    processes, outputs = [], []
    try:
        for config in configs:
            serves = asynchronous and config.task.type != "chief"
            output = folder / f"{config.task}.log"
            with output.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "server.py" if serves else "program.py"],
                    cwd=folder,
                    env=environ(config.to_json()),
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            processes.append(process)
            outputs += [] if serves else [(process, output)]
        return [(process.wait(SECONDS), output.read_text()) for process, output in outputs]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def environ(tf_config: str) -> Mapping[str, str]:
    """The environment of a plain program, with the course's data."""
    base = {k: v for k, v in without_proxies(os.environ).items() if k != LEGACY_KERAS}
    return base | {
        "TF_CONFIG": tf_config,
        "TFDS_DATA_DIR": str(ROOT / "helpers" / "datasets"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": str(ROOT),
    }


@pytest.mark.parametrize("folder", ["en", "solutions"])
@pytest.mark.parametrize("number", KERAS_LESSONS)
def test_a_lesson_on_keras_has_no_code_for_keras_2_alone(number: str, folder: str) -> None:
    sources = [notebook.source(cell) for cell in code_cells(number, folder)]
    assert len(sources) > 3
    assert [source for source in sources if KERAS_2_ONLY.search(source)] == []


@pytest.mark.parametrize("number", KERAS_LESSONS)
def test_the_training_cells_of_a_lesson_are_a_program(number: str) -> None:
    compile(program_of(number), number, "exec")


@needs_keras_3
@pytest.mark.keras_3
@pytest.mark.parametrize("number", KERAS_LESSONS)
def test_the_training_cells_train_as_plain_processes(number: str, tmp_path: Path) -> None:
    done = run(FIX + program_of(number), tmp_path)
    assert [code for code, _output in done] == [0] * len(done), done[0][1][-3000:]
    results = [output.splitlines()[-1] for _code, output in done]
    assert len(set(results)) == 1
    assert results[0] not in ("None", "[]", "{}", "False")


@needs_keras_3
@pytest.mark.keras_3
def test_fit_of_a_lesson_fails_without_the_fix(tmp_path: Path) -> None:
    done = run(program_of("03"), tmp_path)
    assert all(code != 0 and "PerReplica" in output for code, output in done)
