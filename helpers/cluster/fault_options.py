"""The faults that can be injected, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.errors import ConfigError, check_seconds, unknown_choice
from helpers.i18n import _, join_items
from helpers.protocol.events import FaultType

# The options of each fault, with their defaults.
FAULT_OPTIONS: Mapping[FaultType, Mapping[str, float | None]] = {
    FaultType.KILL: {},
    FaultType.PAUSE: {"seconds": None},
    FaultType.THROTTLE: {"factor": 4},
    FaultType.PARTITION: {"seconds": None},
    FaultType.DISK_FULL: {},
    FaultType.DELAY_START: {"seconds": 5},
    FaultType.NODE_LOSS: {"seconds": None},
    FaultType.PREEMPT: {},
}
ENDING_FAULTS = (FaultType.KILL, FaultType.NODE_LOSS, FaultType.PREEMPT)
MAX_SLOWDOWN = 50


def fault_type(fault: str) -> FaultType:
    """Raises ConfigError if there is no such fault."""
    try:
        return FaultType(fault)
    except ValueError:
        raise unknown_choice("fault", fault, FaultType) from None


def check_options(fault: FaultType, given: Mapping[str, Any]) -> dict[str, float]:
    """Returns the options of a fault, with defaults for the missing ones.

    Raises:
      ConfigError: an option or its value is wrong.
    """
    options = FAULT_OPTIONS[fault]
    for name, value in given.items():
        if name not in options:
            message = _("{fault!r} does not accept {name}={value!r}. It accepts: {names}.")
            names = join_items(options) or "—"
            raise ConfigError(
                message.format(fault=fault.value, name=name, value=value, names=names)
            )
    values = {name: value for name, value in {**options, **given}.items() if value is not None}
    if "seconds" in values:
        check_seconds("seconds", values["seconds"])
    if "factor" in values:
        _check_factor(values["factor"])
    return values


def _check_factor(value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 1 < value <= MAX_SLOWDOWN:
        message = _("factor={value!r} must be a number greater than 1 and at most {most}.")
        raise ConfigError(message.format(value=value, most=MAX_SLOWDOWN))
