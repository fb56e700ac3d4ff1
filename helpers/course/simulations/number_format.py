"""Numbers for sentences, with their significant digits, in the current language."""

from __future__ import annotations

import math

from helpers.i18n import _, number

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def significant(value: float, digits: int = 2) -> str:
    """A number, 0 or more, with `digits` significant digits and all digits before the point.

    >>> significant(0.0531), significant(9.97), significant(1340.2)
    ('0.053', '10', '1,340')
    """
    before = math.floor(math.log10(value)) if value else 0
    return number(round(value, max(0, digits - 1 - before)), ",.15g")


def percent(value: float) -> str:
    """A fraction as a percentage, with up to two decimals for small values."""
    if value >= 0.0995 or value < 0.00005:
        return number(value, ".0%")
    return number(value, ".1%" if value >= 0.00995 else ".2%")


def duration(seconds: float) -> str:
    """A duration in a suitable unit, from microseconds to days, without line breaks."""
    size, unit = next((size, unit) for size, most, unit in _units() if seconds < most)
    return unit.format(count=significant(seconds / size)).replace(" ", "\u00a0")


def byte_size(count: float) -> str:
    """A number of bytes in MB, GB or TB of 1,000 each, without line breaks."""
    size, unit = next((size, unit) for size, most, unit in _byte_units() if count < most)
    return unit.format(count=significant(count / size, 3)).replace(" ", "\u00a0")


def _byte_units() -> list[tuple[float, float, str]]:
    return [
        (1e6, 1e9, _("{count} MB")),
        (1e9, 1e12, _("{count} GB")),
        (1e12, math.inf, _("{count} TB")),
    ]


def _units() -> list[tuple[float, float, str]]:
    """The seconds of each unit, the limit from which the next unit is used, and the unit's text."""
    return [
        (1e-6, 1e-3, _("{count} µs")),
        (1e-3, 1.0, _("{count} ms")),
        (1.0, _MINUTE, _("{count} s")),
        (_MINUTE, _HOUR, _("{count} min")),
        (_HOUR, _DAY, _("{count} h")),
        (_DAY, math.inf, _("{count} d")),
    ]
