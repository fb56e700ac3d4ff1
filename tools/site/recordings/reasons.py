"""The reasons of restarts and errors without a language, so that a reader sees them in any.

A recording stores the message of the catalog and the values in it, not the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any

from helpers import labels
from helpers.i18n import LocalNumber, _
from tools.lessons.project import ToolError

Reason = Mapping[str, Any]
"""``message``, a message of the catalog, and the values of its fields by their names."""

CLAUSES = "; "  # between the reason and the places at which the tasks were, in English
MAX_VALUE = 200  # characters of a value, such as TensorFlow's message
NUMBER = re.compile(r"-?\d+(\.\d+)?")


def without_places(reason: str) -> str:
    """The reason of a restart without the places at which the tasks were."""
    return reason.splitlines()[0].partition(CLAUSES)[0]


def parse(text: str, messages: Iterable[str]) -> Reason:
    """The message and the values of an English reason.

    Args:
      messages: the English messages of the catalog.

    Raises:
      ToolError: the text is not one of these messages with values.
    """
    found = [
        (len(re.sub(r"{.*?}", "", message)), message, match.groupdict())
        for message in messages
        if "{" in message and (match := _pattern(message).fullmatch(text))
    ]
    if not found:
        raise ToolError(f"The catalog has no message for this reason: {text}")
    _length, message, values = max(found, key=lambda one: one[0])  # the most specific one
    return {"message": message, **{name: _value(text) for name, text in values.items()}}


def render(reason: Reason) -> str:
    """The text of a reason in the language in use."""
    values = {name: _localized(value) for name, value in reason.items() if name != "message"}
    return _(reason["message"]).format(**values)


def _pattern(message: str) -> re.Pattern[str]:
    """A pattern with a group for each field of a message."""
    parts = []
    seen: set[str] = set()
    for literal, name, _spec, _conversion in Formatter().parse(message):
        parts.append(re.escape(literal))
        if name and name.isidentifier():
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>.+)")
            seen.add(name)
    return re.compile("".join(parts))


def _value(text: str) -> str | float:
    if NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text[:MAX_VALUE]


def _localized(value: str | float) -> str | float:
    if isinstance(value, str):
        return labels.task(value)
    return LocalNumber(value) if isinstance(value, float) else value
