"""What the tests of all criteria share: they judge observations that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, CheckSkipped, Exercise


def failures_of(exercise: Exercise, case: Mapping[str, Any], observation: Any) -> dict[int, str]:
    """The message of each criterion that fails, by its number."""
    found = {}
    for place, criterion in enumerate(exercise.criteria):
        try:
            criterion.check(observation, case)
        except CheckFailed as wrong:
            found[place] = f"{wrong.expected} | {wrong.found} | {wrong}"
        except CheckSkipped as skipped:
            found[place] = f"skipped: {skipped}"
    return found
