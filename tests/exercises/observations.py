"""Observations of answers, from executing them or from the record.

The record is a JSON file for each lesson with a line for each answer. It holds exactly the parts of
an observation that a submission sends to its judge (`sandbox_protocol`).
"""

from __future__ import annotations

import hashlib
import json
import linecache
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from helpers.course.check import TASK_MODULES, answer_runner, check, run_answer
from helpers.course.criteria import CheckFailed
from helpers.course.exercises.sandbox_protocol import from_json, to_json
from tests.exercises.wrong_answers import PARTLY, WRONG

FOLDER = Path(__file__).with_name("recorded")
PART = "right in part"
ANSWERS = [(task, name) for task, wrong in WRONG.items() for name in wrong]
ANSWERS += [(task, PART) for task in PARTLY]


def code_of(task: str, name: str) -> str:
    """The code of a wrong or partly right answer."""
    return PARTLY[task][1] if name == PART else WRONG[task][name]


def points_of(task: str, name: str) -> float:
    """The points that the answer must earn."""
    return PARTLY[task][0] if name == PART else 0


@dataclass(frozen=True)
class Observation:
    """The observed behavior of an answer.

    Attributes:
      code: a digest of the answer's code.
      seen: the observation as JSON.
      wrong: an error found by the observation itself: expected, found, hint.
    """

    code: str
    seen: Any = None
    wrong: list[str] | None = None

    def value(self) -> Any:
        """Returns the value that a judge receives.

        Raises:
          CheckFailed: the observation itself failed.
        """
        if self.wrong:
            raise CheckFailed(*self.wrong)
        return from_json(self.seen)

    def judged(self, task: str) -> float:
        """Returns the points, and prints the message for the reader."""
        token = answer_runner.set(lambda name, case: self.value())
        try:
            return check(task)
        finally:
            answer_runner.reset(token)


def digest(code: str) -> str:
    """Returns a short name for a text."""
    return hashlib.sha256(code.encode()).hexdigest()[:12]


def run_cell(code: str, name: str, namespace: dict[str, Any]) -> None:
    """Executes code as a notebook does, which keeps the source of each cell."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    exec(compile(code, name, "exec"), namespace)


def execute(task: str, name: str, namespace: dict[str, Any]) -> Observation:
    """Executes an answer in the notebook's namespace and observes what it does."""
    code = code_of(task, name)
    run_cell(code, f"<{task}: {name}>", namespace)
    found: dict[str, Any] = {}

    def observe(asked: str, case: Mapping[str, Any]) -> Any:
        try:
            found["seen"] = to_json(run_answer(asked, case, namespace))
        except CheckFailed as wrong:
            found["wrong"] = [str(wrong.expected), str(wrong.found), str(wrong)]
            raise
        return from_json(found["seen"])

    token = answer_runner.set(observe)
    try:
        check(task)
    finally:
        answer_runner.reset(token)
    return Observation(digest(code), **found)


def _file(task: str) -> Path:
    return FOLDER / f"{TASK_MODULES[task]}.json"


@cache
def _record(path: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def recorded(task: str, name: str) -> Observation:
    """Returns the record of an answer."""
    fields = _record(_file(task)).get(f"{task}: {name}")
    if not fields or fields["code"] != digest(code_of(task, name)):
        raise AssertionError(f"no record of this code of {task}, {name!r}: make record-answers")
    return Observation(**fields)


def record(task: str, name: str, observation: Observation) -> None:
    """Writes an observation to the record, and removes the records of deleted answers."""
    path = _file(task)
    found = dict(_record(path))
    fields = {key: value for key, value in asdict(observation).items() if value is not None}
    found[f"{task}: {name}"] = fields
    known = {f"{one}: {other}" for one, other in ANSWERS}
    lines = [
        f"{json.dumps(key)}: {json.dumps(entry, separators=(',', ':'))}"
        for key, entry in sorted(found.items())
        if key in known
    ]
    FOLDER.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    _record.cache_clear()


def shape(value: Any) -> Any:
    """The form of an observation: types and keys, without numbers, texts, and lengths of lists.

    A wrong answer may return more or fewer batches each time.
    """
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted({repr(shape(one)) for one in value})
    return "number" if isinstance(value, (int, float)) else type(value).__name__
