"""The architecture: layers of packages, small modules, and one public API."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import grimp
import pytest

import helpers
from tests.support import ROOT
from tools.lessons import public_api
from tools.lessons.project import Project

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HELPERS = ROOT / "helpers"
TEMPLATES = HELPERS / "export" / "templates"  # files of exported programs, no modules of helpers
LINT = Path(sys.executable).with_name("lint-imports")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Imports = Mapping[str, set[str]]


def lint(folder: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Checks some contracts, or all."""
    chosen = [part for contract in contracts for part in ("--contract", contract)]
    return subprocess.run(
        [str(LINT), "--no-cache", "--no-logo", *chosen],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def copy_of_helpers(folder: Path) -> None:
    """Copies the files that lint-imports reads."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    data = shutil.ignore_patterns("datasets", "locale", "__pycache__")
    shutil.copytree(HELPERS, folder / "helpers", ignore=data)


def test_an_unchanged_copy_keeps_all_contracts(tmp_path: Path) -> None:
    copy_of_helpers(tmp_path)
    assert lint(tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("contract", "module", "line"),
    [
        ("layers", "system/ports.py", "import helpers.cluster.launcher"),
        ("core", "cluster/group.py", "import helpers.course.messages"),
        ("course-layers", "course/charts/svg.py", "import helpers.course.panel.run"),
        ("layers", "shed.py", ""),  # a module in no layer
        ("cycles", "i18n.py", "import helpers.errors"),
        (
            "cycles",
            "results/svg_figure.py",
            "def late():\n    import helpers.results.chart",
        ),
        ("sides", "worker/hooks.py", "import helpers.cluster.timeouts"),
        ("sides", "course/data.py", "import matplotlib"),
        ("tensorflow", "results/history.py", "import tensorflow"),
        ("tensorflow", "cluster/group.py", "import helpers.worker.devices"),
    ],
)
def test_each_contract_is_broken_by_an_import_against_it(
    contract: str, module: str, line: str, tmp_path: Path
) -> None:
    copy_of_helpers(tmp_path)
    with (tmp_path / "helpers" / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = lint(tmp_path, contract)
    assert done.returncode == 1, done.stdout
    assert "BROKEN" in done.stdout


@cache
def imports() -> Imports:
    """The imports of each module, including imports inside functions and by a name in a string."""
    graph = grimp.build_graph("helpers", cache_dir=None, exclude_type_checking_imports=False)
    found = {
        module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }
    del found["helpers"]  # it names its whole API, and imports parts of it on demand
    named = re.compile(r"import_module\(f?\"(helpers[\w.]*)")
    for module in list(found):
        path = ROOT / module.replace(".", "/")
        text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
        for name in named.findall(text):
            package = f"{name.rstrip('.')}."
            targets = [one for one in found if f"{one}.".startswith(package)]
            assert targets, f"{module} imports {name!r}, which is not there"
            found[module] |= set(targets) - {module}
        found[module].discard("helpers")
    return found


def packages(modules: Imports) -> Imports:
    """The same between packages, which are the folders and files directly in helpers."""

    def package(module: str) -> str:
        parts = module.split(".")[1:]
        return ".".join(parts[:2] if parts[0] == "course" else parts[:1])

    found: dict[str, set[str]] = {package(module): set() for module in modules}
    for module, imported in modules.items():
        found[package(module)] |= {package(one) for one in imported} - {package(module)}
    return found


def longest_chain(start: str, edges: Imports, path: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The longest path along the imports. Fails on a cycle."""
    assert start not in path, f"cycle: {' -> '.join([*path, start])}"
    ways = (longest_chain(one, edges, (*path, start)) for one in sorted(edges[start]))
    return max(ways, key=len, default=(*path, start))


def test_no_chain_of_packages_is_longer_than_ten() -> None:
    between = packages(imports())
    assert len(between) > 20
    longest = max((longest_chain(package, between) for package in between), key=len)
    assert len(longest) <= 10, " -> ".join(longest)


def test_no_module_is_in_an_import_cycle() -> None:
    edges = {module: set(imported) for module, imported in imports().items()}
    assert len(edges) > 80
    while free := [module for module, imported in edges.items() if not imported]:
        for module in free:
            del edges[module]
        for imported in edges.values():
            imported.difference_update(free)
    assert not edges, f"circles among {sorted(edges)}"


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, including its signature, without the docstring."""
    assert function.end_lineno
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def test_modules_and_functions_are_small() -> None:
    paths = sorted(HELPERS.rglob("*.py"))
    assert len(paths) > 80
    assert len([*HELPERS.glob("*.py")]) <= 16
    large = {}
    for path in paths:
        text = path.read_text("utf-8")
        if (lines := len(text.splitlines())) > 340:
            large[path.name] = lines
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, FUNCTIONS) and (lines := code_lines(node)) > 40:
                large[f"{path.name}: {node.name}"] = lines
    assert not large


def modules() -> Iterator[str]:
    """Every module of helpers that can be imported separately."""
    for path in sorted({*HELPERS.rglob("*.py")} - {*TEMPLATES.glob("*.py")}):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":  # a program
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_an_init_is_empty_or_lazy() -> None:
    """Except for charts and panel. `tf_config` and `estimator` contain the code of their names."""
    own = {"charts", "compare", "figures", "panel", "quiz", "simulations"}
    own |= {"estimator", "keras_3", "tf_config"}
    for path in HELPERS.rglob("__init__.py"):
        if path.parent != HELPERS and path.parent.name not in own:
            assert len(ast.parse(path.read_text("utf-8")).body) <= 1, path


def test_what_a_notebook_imports_first_costs_it_no_tensorflow() -> None:
    """At most 60 MB, and none of the large packages. benchmarks/results has the seconds."""
    code = (
        "import sys; from helpers import LocalCluster; "
        "large = {'tensorflow', 'matplotlib', 'ipywidgets', 'numpy', 'IPython', 'keras'}; "
        "large &= set(sys.modules); import psutil; "
        "print(psutil.Process().memory_info().rss, sorted(large))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    memory, _space, large = done.stdout.strip().partition(" ")
    assert large == "[]"
    assert int(memory) < 60e6


def test_the_notebooks_side_can_be_imported_without_tensorflow() -> None:
    inside = re.compile(
        r"helpers\.(course\.(data|model|preload)|estimator|estimator_checkpoint)\b|"
        r"helpers\.(either_keras|in_process|keras_3|keras_callbacks)\b|"
        r"helpers\.worker\.(checkpoints|devices|evaluation_input|gradients|hooks|input|large_arrays)\b|"
        r"helpers\.worker\.(run_config|server|share_weights|shares|tensorflow_patches|training)\b|"
        r"helpers\.backends\.ray\.(tasks|monitor|scaling)"  # Ray is an extra
    )
    light = [name for name in modules() if not inside.match(name)]
    assert len(light) > 50
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    code += "assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, *light], check=True)


def test_the_face_is_what_it_lists_and_notebooks_take_nothing_else() -> None:
    used = public_api.first_uses(Project.load(ROOT))
    listed = {(module, name) for module, names in helpers.PUBLIC_API.items() for name in names}
    assert set(used) == listed, "helpers.PUBLIC_API lists what the notebooks import, and no more"
    for module, name in listed:
        assert getattr(importlib.import_module(module), name) is not None
    for names in helpers.PUBLIC_API.values():
        assert list(names) == sorted(names)
    assert sorted(helpers.__all__) == sorted(helpers.PUBLIC_API["helpers"])


def test_the_documents_list_the_public_names() -> None:
    uses = public_api.first_uses(Project.load(ROOT))
    page = (ROOT / "docs" / "API.md").read_text("utf-8")
    assert public_api.table(helpers.PUBLIC_API, uses) in page, (
        "python -m tools.lessons.public_api prints the table"
    )


def test_a_name_that_is_not_offered_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Supervisor'"):
        helpers.Supervisor  # noqa: B018
    assert sys.modules["helpers"] is helpers


def writers(pattern: str) -> set[str]:
    """The modules of helpers with a line like this."""
    wanted = re.compile(pattern)
    return {
        path.relative_to(HELPERS).as_posix()
        for path in {*HELPERS.rglob("*.py")} - {*TEMPLATES.glob("*.py")}
        if wanted.search(path.read_text("utf-8"))
    }


def test_what_there_should_be_one_of_there_is_one_of() -> None:
    tf_config = (
        r"environ\[\"TF_CONFIG\"\] =|environ\[VARIABLE\] =|environ\.pop\((\"TF_CONFIG|VARIABLE)"
    )
    assert writers(tf_config) == {"tf_config/__init__.py"}
    assert writers(r"cpu_count\(|sched_getaffinity\(") == {"system/machine.py"}
    assert writers(r"sched_setaffinity\(") == {"system/machine.py"}
    defaults = writers(r"\"learning_rate\": 0\.|\"batch_size\": \d|momentum.*0\.9")
    assert {path for path in defaults if not path.startswith("course/exercises/")} == {"params.py"}
    assert writers(r"def train\(\n\s+self") == {"cluster/base.py"}


def test_contributing_draws_the_layers_that_lint_holds() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    contracts = [one for one in settings["contracts"] if one["type"] == "layers"]
    layers = [re.findall(r"\w+", layer) for one in contracts for layer in one["layers"]]
    drawing = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("of one layer")[2]
    lines = [line for line in drawing.splitlines() if line.startswith("    ")]
    assert len(lines) == len(layers) <= 20
    for line, layer in zip(lines, layers, strict=True):
        assert set(layer) <= set(line.split()), line


def test_tests_find_each_other_by_their_packages() -> None:
    paths = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    assert len(paths) > 80
    by_path = re.compile(r"^\s*(from conftest|sys\.path\.\w+\(|.*syspath_prepend\()", re.MULTILINE)
    own = Path(__file__).resolve()
    assert not [p for p in paths if p.resolve() != own and by_path.search(p.read_text("utf-8"))]
