"""What an answer was seen to do, on its way from the process that ran it to one that judges it.

A submission may do anything to the process that it runs in. So whoever marks it has the answer
observed there, and judges what comes back where the submission never was. What comes back is JSON,
with a tag for each type that JSON has not; nothing else is ever made of it.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers import i18n
from helpers.course.exercises.criteria import CheckFailed, execution_error
from helpers.protocol.serialization import decode_array, encode_array
from helpers.tf_config import Task, TFConfig

MAX_CHARACTERS = 2_000_000
KINDS = "biufcSU"  # of NumPy: Booleans, numbers, text of a fixed length


class Opaque:
    """Something of a type that is no part of an observation: only how it looked."""

    def __init__(self, look: str) -> None:
        self._look = look

    def __repr__(self) -> str:
        return self._look


def run_cell_source(name: str, case: Mapping[str, Any]) -> str:
    """The code that has an answer observed in the process that it is executed in."""
    text = base64.b64encode(pickle.dumps(dict(case))).decode()
    return (
        "from helpers.course.check import run_answer\n"
        "from helpers.course.exercises.sandbox_protocol import run_and_encode\n"
        f"run_and_encode(run_answer, {name!r}, {text!r})"
    )


def run_and_encode(run_answer: Callable[[str, Any], Any], name: str, case: str) -> str:
    """What the answer of this name is seen to do, as text that `parse_result` reads.

    Args:
      run_answer: that of `helpers.course.check`.
      case: the numbers to try it with, as `run_cell_source` writes them.
    """
    found: dict[str, Any] = {"seen": None, "wrong": None, "language": i18n.language()}
    try:
        found["seen"] = to_json(run_answer(name, pickle.loads(base64.b64decode(case))))
    except CheckFailed as wrong:
        found["wrong"] = [str(wrong.expected), str(wrong.found), str(wrong)]
    except RecursionError as error:  # it contains itself
        found["wrong"] = ["", str(error), ""]
    return base64.b64encode(json.dumps(found).encode()).decode()


def parse_result(text: str) -> Any:
    """What was seen, from the value of a cell with a `run_cell_source`.

    Raises:
      CheckFailed: what the observation itself found, or that nothing can be made of the text.
    """
    try:
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"{len(text)} characters")
        found = json.loads(base64.b64decode(text.strip("'"), validate=True))
        if found["language"] in i18n.languages():
            i18n.set_language(found["language"])
        expected, seen, hint = map(str, found["wrong"] or ("", "", ""))
        answer = from_json(found["seen"])
    except Exception as error:  # a text that somebody else has made may raise anything
        raise execution_error(f"{type(error).__name__}: {error}"[:500]) from None
    if found["wrong"]:
        raise CheckFailed(expected, seen, hint)
    return answer


def to_json(value: Any) -> Any:
    """As JSON: a list is a list, all else that is made of other things has a tag."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [to_json(one) for one in value]
    for kind, tag, content in _PACKERS:
        if isinstance(value, kind):
            return {tag: content(value)}
    return _array_to_json(value)


def _array_to_json(value: Any) -> Any:
    if getattr(getattr(value, "dtype", None), "kind", None) in list(KINDS):
        return {"array": encode_array(value)}
    return {"other": repr(value)[:500]}


def from_json(value: Any) -> Any:
    """What `to_json` had; an array of no dimension is NumPy's scalar.

    Raises:
      Exception: it is nothing that `to_json` makes.
    """
    if isinstance(value, list):
        return [from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    [(tag, content)] = value.items()
    return _MAKERS[tag](content)


def _range(content: Any) -> range:
    made = range(*content)
    if len(made) > MAX_CHARACTERS:
        raise ValueError(made)
    return made


def _task(content: Any) -> Task:
    job, index = content
    return Task(str(job), int(index))


_PACKERS: Sequence[tuple[Any, str, Callable[[Any], Any]]] = (
    (tuple, "tuple", lambda value: [to_json(one) for one in value]),
    ((set, frozenset), "set", lambda value: [to_json(one) for one in value]),
    (range, "range", lambda value: [value.start, value.stop, value.step]),
    (Mapping, "dict", lambda value: [[to_json(k), to_json(one)] for k, one in value.items()]),
    (bytes, "bytes", lambda value: base64.b64encode(value).decode()),
    (TFConfig, "TFConfig", TFConfig.to_json),
    (Task, "Task", lambda value: [value.type, value.index]),
)
_MAKERS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": lambda content: tuple(map(from_json, content)),
    "set": lambda content: set(map(from_json, content)),
    "dict": lambda content: {from_json(key): from_json(one) for key, one in content},
    "range": _range,
    "bytes": base64.b64decode,
    "TFConfig": lambda content: TFConfig.parse(str(content)),
    "Task": _task,
    "array": lambda content: decode_array(content, KINDS)[()],
    "other": lambda content: Opaque(str(content)),
}
