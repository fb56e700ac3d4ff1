"""Trains cells of a lesson on a `LocalCluster`, and exports them, as a notebook would.

    python -m tests.export.lesson_cells 03 FOLDER TARGET

It writes the export to FOLDER/program, and prints the results of the cluster as JSON. This is a
separate program because a process has one Keras.
"""

from __future__ import annotations

import ast
import json
import linecache
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support import ROOT

ESTIMATOR = {
    "steps": 60,
    "params": {"batch_size": 64, "learning_rate": 0.025, "momentum": 0.9, "seed": 3},
}
WEIGHTS = "[weight.tolist() for weight in model.get_weights()]"
# Lessons return no weights, and leave the seed to Keras.
CHANGES = {
    "03": [
        ("    strategy = tf", "    keras.utils.set_random_seed(1)\n    strategy = tf"),
        ("return history.history |", f'return {{"weights": {WEIGHTS}}} | history.history |'),
    ],
    "05": [],
}
CELLS = {"01": ("input-fn", "model-fn", "train-op"), "03": ("train",), "05": ("fit",)}


def run_cell(name: str, text: str) -> None:
    """Runs a cell in `__main__`, whose source Python knows by name, as in IPython."""
    file = f"<cell {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), sys.modules["__main__"].__dict__)


def run_lesson(number: str) -> Mapping[str, Any]:
    """Runs the imports of a lesson and the cells that define its functions."""
    [path] = ROOT.glob(f"notebooks/en/{number}_*.ipynb")
    cells = {
        cell["id"]: "".join(cell["source"]) for cell in json.loads(path.read_text("utf-8"))["cells"]
    }
    imports = [node for node in ast.parse(cells["language"]).body if _is_import(node)]
    run_cell("imports", "\n".join(map(ast.unparse, imports)))
    for cell in CELLS[number]:
        text = cells[cell]
        for old, new in CHANGES.get(number, ()):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        run_cell(cell, text)
    return sys.modules["__main__"].__dict__


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def lesson_1(folder: Path, target: str) -> Any:
    """The Estimator."""
    names = run_lesson("01")
    model_dir = folder / "reference"
    functions = (names["model_fn"], names["input_fn"])
    with names["LocalCluster"](workers=2, collective="RING") as cluster:
        result = cluster.train(*functions, **ESTIMATOR, model_dir=model_dir, progress=False)
        cluster.export(folder / "program", *functions, **ESTIMATOR, target=target)
    return {"accuracy": result.accuracy}


def lesson_3(folder: Path, target: str) -> Any:
    """Keras 3 with `fit`."""
    names = run_lesson("03")
    with names["LocalCluster"](workers=2) as cluster:
        results = cluster.run(names["train"])
        cluster.export(folder / "program", names["train"], target=target)
    return results


def lesson_5(folder: Path, target: str) -> Any:
    """Parameter servers."""
    names = run_lesson("05")
    with names["LocalCluster"](workers=2, ps=2) as cluster:
        results = cluster.run(names["train_with_fit"])
        cluster.export(folder / "program", names["train_with_fit"], target=target)
    return results


LESSONS: Mapping[str, Callable[[Path, str], Any]] = {"01": lesson_1, "03": lesson_3, "05": lesson_5}


if __name__ == "__main__":
    lesson, into, chosen = sys.argv[1:]
    print(json.dumps(LESSONS[lesson](Path(into), chosen)))
