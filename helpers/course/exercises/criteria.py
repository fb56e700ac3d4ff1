"""What a check is made of: an exercise, its criteria, and how they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from helpers.i18n import _, gettext_noop, number

Case = Mapping[str, Any]
READ_TASK = gettext_noop("Read the task again, and run your own code to see its result.")


class CheckFailed(Exception):
    """What a check found that is not as it should be.

    Attributes:
      expected, found: in words, or as values.
      hint: where to look; never the solution.
    """

    def __init__(self, expected: object, found: object, hint: str) -> None:
        super().__init__(hint)
        self.expected, self.found, self.hint = expected, found, hint


@dataclass(frozen=True)
class Criterion:
    """One requirement on an answer, worth points.

    Attributes:
      description: in words, in English; it is translated when it is shown.
      check: raises `CheckFailed` unless what was observed fits the case.
    """

    points: float
    description: str
    check: Callable[[Any, Case], None]


def show_all(case: Case) -> Case:
    """An `Exercise.visible_case` for cases that hold only numbers to try an answer with."""
    return case


@dataclass(frozen=True)
class Exercise:
    """How an answer is checked.

    Attributes:
      run: what the answer does in a case: real workers run it, where it is about workers.
      criteria: judged in order; after one that fails, none is.
      case: the numbers that the reader's own check takes.
      visible_case: what `run` is given of a case: what is right stays with whoever judges.
    """

    run: Callable[[Any, Case], Any]
    criteria: tuple[Criterion, ...]
    case: Case = field(default_factory=dict)
    visible_case: Callable[[Case], Case] = show_all

    @property
    def points(self) -> float:
        """The most that an answer can earn."""
        return sum(criterion.points for criterion in self.criteria)


def format_numbers(values: Iterable[float], separator: str = ", ") -> str:
    """Numbers as a reader's language writes them, to four figures."""
    return separator.join(number(float(value), ".4g") for value in values)


def identity(answer: Any, case: Case) -> Any:
    """What `Exercise.run` is where the answer itself is judged: it is returned."""
    return answer


def hide_all(case: Case) -> Case:
    """What `Exercise.visible_case` is where the answer itself is judged."""
    return {}


def hide_last(key: str, count: int = 1) -> Callable[[Case], Case]:
    """An `Exercise.visible_case`, for a list of tuples that end with what is right."""
    return lambda case: {**case, key: [tuple(entry)[:-count] for entry in case[key]]}


def hide_key(key: str, name: str) -> Callable[[Case], Case]:
    """An `Exercise.visible_case` for named dicts that have an entry with the right value."""

    def visible_case(case: Case) -> Case:
        kept = {
            one: {field: value for field, value in entries.items() if field != name}
            for one, entries in case[key].items()
        }
        return {**case, key: kept}

    return visible_case


def same_shape_and_close(found: Any, wanted: Any, atol: float, rtol: float = 1e-5) -> bool:
    """Whether two arrays have one shape, which `numpy.allclose` does not ask for, and are close."""
    import numpy as np

    same = np.shape(found) == np.shape(wanted)
    return same and bool(np.allclose(found, wanted, rtol=rtol, atol=atol))


def capture(function: Callable[[], Any]) -> dict[str, Any]:
    """What a call returns or raises, as data: for a part that judges it with `unwrap`."""
    try:
        return {"returned": function()}
    except Exception as error:  # whatever the reader's code raises
        return {"raised": f"{type(error).__name__}: {error}"}


def unwrap(captured: Mapping[str, Any]) -> Any:
    """What a captured call returned; raises `CheckFailed` if it raised."""
    if "raised" in captured:
        raise execution_error(captured["raised"])
    return captured["returned"]


def execution_error(error: str) -> CheckFailed:
    """An answer that raises an error, given in words."""
    return CheckFailed(_("an answer that runs"), error, _(READ_TASK))


def expect(holds: bool, *, expected: object, found: object, hint: str) -> None:
    """Raises `CheckFailed` unless it holds."""
    if not holds:
        raise CheckFailed(expected, found, hint)
