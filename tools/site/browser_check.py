"""Checks of answers on a page of the site, for tasks that need neither a cluster nor TensorFlow.

The browser's Python has no NumPy and starts no processes, but the modules of the checks import both
for their other tasks. So empty modules replace them there.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import sys
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any, TypedDict

TASKS = (
    "third_worker",
    "mended",
    "strategy_for",
    "rate_and_steps",
    "staleness",
    "to_keep",
    "evaluated",
    "cheapest",
    "save_every",
    "whole_cluster",
    "speed_up",
    "state_bytes",
    "micro_batches",
)
ANSWER = "<answer>"


class Result(TypedDict):
    """The points of an answer, and the text that `check` printed, after the answer's own output."""

    points: float
    text: str


class _NoCluster:
    """Takes the place of `LocalCluster`, which no task of `TASKS` starts."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        raise NotImplementedError


def ready() -> bool:
    """Imports what `check_answer` needs, which takes longer than an answer."""
    if sys.platform == "emscripten":
        _replace_missing_modules()
    importlib.import_module("helpers.course.check")
    return True


def check_answer(task: str, before: str, code: str) -> Result:
    """Runs an answer, and checks it as in the notebook.

    Args:
      task: the name of the task, one of `TASKS`.
      before: the code of the cells that the answer uses.
      code: the answer.
    """
    ready()
    from helpers.course.check import check

    names: dict[str, Any] = {"json": json, "math": math}
    points, printed = 0.0, io.StringIO()
    with redirect_stdout(io.StringIO()):
        exec(before, names)
    with redirect_stdout(printed):
        try:
            exec(compile(code, ANSWER, "exec"), names)
        except NotImplementedError:
            points = check(task, names)
        except Exception as error:  # any error of the student's code
            print(f"{type(error).__name__}: {error}")
        else:
            points = check(task, names)
    return {"points": points, "text": printed.getvalue()}


def _replace_missing_modules() -> None:
    for name, contents in {
        "helpers.cluster.local": {"LocalCluster": _NoCluster},
        "numpy": {},
    }.items():
        if name not in sys.modules:
            module = ModuleType(name)
            vars(module).update(contents)
            sys.modules[name] = module
