"""Passes the absl flags (absl.flags) of a program's command line to its workers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

PLAIN = (str, int, float, bool, list, type(None))


def parsed() -> dict[str, Any]:
    """The values of the flags of this program by name, if it has parsed any."""
    flags = sys.modules.get("absl.flags")
    if flags is None or not flags.FLAGS.is_parsed():
        return {}
    values = flags.FLAGS.flag_values_dict()
    return {name: value for name, value in values.items() if isinstance(value, PLAIN)}


def restore(values: Mapping[str, Any]) -> None:
    """Sets the flags of this process to these values, and defines the missing ones."""
    if not values:
        return
    from absl import flags

    for name, value in values.items():
        if name not in flags.FLAGS:
            flags.DEFINE(flags.ArgumentParser(), name, None, "a flag of the program")
        flags.FLAGS[name].value = value
    flags.FLAGS.mark_as_parsed()


def reducers() -> dict[type, Any]:
    """The reducers that pickle the object with all flags by name, because pickle rejects it."""
    flags = sys.modules.get("absl.flags")
    return {} if flags is None else {flags.FlagValues: _reduce}


def _reduce(values: Any) -> tuple[Any, tuple[()]]:
    return _flags_of_this_process, ()


def _flags_of_this_process() -> Any:
    from absl import flags

    return flags.FLAGS
