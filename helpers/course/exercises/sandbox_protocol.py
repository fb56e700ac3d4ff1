"""Transfers the observed behavior of an answer to the process that judges it.

A submission may manipulate the process that it runs in. So the answer runs and is observed in one
process, and the grader judges the observation in another process. The observation is JSON, with a
tag for each type that JSON does not have, and it is parsed as nothing else.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers import i18n
from helpers.course.criteria import CheckFailed, execution_error
from helpers.protocol.serialization import decode_array, encode_array
from helpers.tf_config import Task, TFConfig

MAX_CHARACTERS = 2_000_000
KINDS = "biufcSU"  # NumPy's kinds of Booleans, numbers and fixed-length text


class Opaque:
    """The text of a value whose type an observation cannot contain."""

    def __init__(self, look: str) -> None:
        self._look = look

    def __repr__(self) -> str:
        return self._look


def run_cell_source(name: str, case: Mapping[str, Any]) -> str:
    """The code that runs an answer in its process and returns the observation."""
    text = base64.b64encode(pickle.dumps(dict(case))).decode()
    return (
        "from helpers.course.check import run_answer\n"
        "from helpers.course.exercises.sandbox_protocol import run_and_encode\n"
        f"run_and_encode(run_answer, {name!r}, {text!r})"
    )


def run_and_encode(run_answer: Callable[[str, Any], Any], name: str, case: str) -> str:
    """The observed behavior of the answer with this name, as text for `parse_result`.

    Args:
      run_answer: the function of this name in `helpers.course.check`.
      case: the numbers for the answer, as written by `run_cell_source`.
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
    """The observation, from the result of a cell with the code of `run_cell_source`.

    Raises:
      CheckFailed: the observation contains this failure, or the text is invalid.
    """
    try:
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"{len(text)} characters")
        found = json.loads(base64.b64decode(text.strip("'"), validate=True))
        if found["language"] in i18n.languages():
            i18n.set_language(found["language"])
        expected, seen, hint = map(str, found["wrong"] or ("", "", ""))
        answer = from_json(found["seen"])
    except Exception as error:  # an untrusted text may raise any error
        raise execution_error(f"{type(error).__name__}: {error}"[:500]) from None
    if found["wrong"]:
        raise CheckFailed(expected, seen, hint)
    return answer


def to_json(value: Any) -> Any:
    """A value as JSON, in which every container except a list has a tag."""
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
    """The value that `to_json` received. An array without dimensions becomes a NumPy scalar.

    Raises:
      Exception: `to_json` did not create the value.
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
