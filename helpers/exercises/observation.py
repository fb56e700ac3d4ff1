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
from helpers.exercises.parts import Wrong, does_not_run
from helpers.messages.values import array_fields, array_of
from helpers.tf_config import Task, TFConfig

MOST_CHARACTERS = 2_000_000
KINDS = "biufcSU"  # of NumPy: Booleans, numbers, text of a fixed length


class Other:
    """Something of a type that is no part of an observation: only how it looked."""

    def __init__(self, look: str) -> None:
        self._look = look

    def __repr__(self) -> str:
        return self._look


def question(name: str, case: Mapping[str, Any]) -> str:
    """The code that has an answer observed in the process that it is executed in."""
    text = base64.b64encode(pickle.dumps(dict(case))).decode()
    return (
        "from helpers.check import observed\n"
        "from helpers.exercises.observation import observe\n"
        f"observe(observed, {name!r}, {text!r})"
    )


def observe(observed: Callable[[str, Any], Any], name: str, case: str) -> str:
    """What the answer of this name is seen to do, as text that `read` reads.

    Args:
      observed: that of `helpers.check`.
      case: the numbers to try it with, as `question` writes them.
    """
    found: dict[str, Any] = {"seen": None, "wrong": None, "language": i18n.language()}
    try:
        found["seen"] = packed(observed(name, pickle.loads(base64.b64decode(case))))
    except Wrong as wrong:
        found["wrong"] = [str(wrong.expected), str(wrong.found), str(wrong)]
    except RecursionError as error:  # it contains itself
        found["wrong"] = ["", str(error), ""]
    return base64.b64encode(json.dumps(found).encode()).decode()


def read(text: str) -> Any:
    """What was seen, from the value of a cell with a `question`.

    Raises:
      Wrong: what the observation itself found, or that nothing can be made of the text.
    """
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"{len(text)} characters")
        found = json.loads(base64.b64decode(text.strip("'"), validate=True))
        if found["language"] in i18n.languages():
            i18n.set_language(found["language"])
        expected, seen, hint = map(str, found["wrong"] or ("", "", ""))
        answer = unpacked(found["seen"])
    except Exception as error:  # a text that somebody else has made may raise anything
        raise does_not_run(f"{type(error).__name__}: {error}"[:500]) from None
    if found["wrong"]:
        raise Wrong(expected, seen, hint)
    return answer


def packed(value: Any) -> Any:
    """As JSON: a list is a list, all else that is made of other things has a tag."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [packed(one) for one in value]
    for kind, tag, content in _PACKERS:
        if isinstance(value, kind):
            return {tag: content(value)}
    return _packed_array(value)


def _packed_array(value: Any) -> Any:
    if getattr(getattr(value, "dtype", None), "kind", None) in list(KINDS):
        return {"array": array_fields(value)}
    return {"other": repr(value)[:500]}


def unpacked(value: Any) -> Any:
    """What `packed` had; an array of no dimension is NumPy's scalar.

    Raises:
      Exception: it is nothing that `packed` makes.
    """
    if isinstance(value, list):
        return [unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    [(tag, content)] = value.items()
    return _MAKERS[tag](content)


def _range(content: Any) -> range:
    made = range(*content)
    if len(made) > MOST_CHARACTERS:
        raise ValueError(made)
    return made


def _task(content: Any) -> Task:
    job, index = content
    return Task(str(job), int(index))


_PACKERS: Sequence[tuple[Any, str, Callable[[Any], Any]]] = (
    (tuple, "tuple", lambda value: [packed(one) for one in value]),
    ((set, frozenset), "set", lambda value: [packed(one) for one in value]),
    (range, "range", lambda value: [value.start, value.stop, value.step]),
    (Mapping, "dict", lambda value: [[packed(k), packed(one)] for k, one in value.items()]),
    (bytes, "bytes", lambda value: base64.b64encode(value).decode()),
    (TFConfig, "TFConfig", TFConfig.to_json),
    (Task, "Task", lambda value: [value.type, value.index]),
)
_MAKERS: Mapping[str, Callable[[Any], Any]] = {
    "tuple": lambda content: tuple(map(unpacked, content)),
    "set": lambda content: set(map(unpacked, content)),
    "dict": lambda content: {unpacked(key): unpacked(one) for key, one in content},
    "range": _range,
    "bytes": base64.b64decode,
    "TFConfig": lambda content: TFConfig.parse(str(content)),
    "Task": _task,
    "array": lambda content: array_of(content, KINDS)[()],
    "other": lambda content: Other(str(content)),
}
