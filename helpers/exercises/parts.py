"""What a check is made of: an exercise, its parts, and what they find wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from helpers.i18n import _, gettext_noop, number

Case = Mapping[str, Any]
READ_TASK = gettext_noop("Read the task again, and run your own code to see what it does.")


class Wrong(Exception):
    """What a check found that is not as it should be.

    Attributes:
      expected, found: in words, or as values.
      hint: where to look; never the solution.
    """

    def __init__(self, expected: object, found: object, hint: str) -> None:
        super().__init__(hint)
        self.expected, self.found, self.hint = expected, found, hint


@dataclass(frozen=True)
class Part:
    """One claim about an answer, worth points.

    Attributes:
      claim: in words, in English; it is translated when it is shown.
      judge: raises `Wrong` unless what was observed fits the case.
    """

    points: float
    claim: str
    judge: Callable[[Any, Case], None]


def all_of_it(case: Case) -> Case:
    """What `Exercise.asked` is where a case has nothing but numbers to try an answer with."""
    return case


@dataclass(frozen=True)
class Exercise:
    """How an answer is checked.

    Attributes:
      observe: what the answer does in a case: real workers run it, where it is about workers.
      parts: judged in order; after one that fails, none is.
      case: the numbers that the reader's own check takes.
      asked: what `observe` is given of a case: what is right stays with whoever judges.
    """

    observe: Callable[[Any, Case], Any]
    parts: tuple[Part, ...]
    case: Case = field(default_factory=dict)
    asked: Callable[[Case], Case] = all_of_it

    @property
    def points(self) -> float:
        """The most that an answer can earn."""
        return sum(part.points for part in self.parts)


def listed(values: Iterable[float], separator: str = ", ") -> str:
    """Numbers as a reader's language writes them, to four figures."""
    return separator.join(number(float(value), ".4g") for value in values)


def as_it_is(answer: Any, case: Case) -> Any:
    """What `Exercise.observe` is where the answer itself is judged: it is returned."""
    return answer


def nothing(case: Case) -> Case:
    """What `Exercise.asked` is where the answer itself is judged."""
    return {}


def without_last(key: str, count: int = 1) -> Callable[[Case], Case]:
    """An `Exercise.asked`, for a list of tuples that end with what is right."""
    return lambda case: {**case, key: [tuple(entry)[:-count] for entry in case[key]]}


def without_entry(key: str, name: str) -> Callable[[Case], Case]:
    """An `Exercise.asked`, for dicts by their names that have an entry with what is right."""

    def asked(case: Case) -> Case:
        kept = {
            one: {field: value for field, value in entries.items() if field != name}
            for one, entries in case[key].items()
        }
        return {**case, key: kept}

    return asked


def alike(found: Any, wanted: Any, atol: float, rtol: float = 1e-5) -> bool:
    """Whether two arrays have one shape, which `numpy.allclose` does not ask for, and are close."""
    import numpy as np

    same = np.shape(found) == np.shape(wanted)
    return same and bool(np.allclose(found, wanted, rtol=rtol, atol=atol))


def attempt(function: Callable[[], Any]) -> dict[str, Any]:
    """What a call returns or raises, as data: for a part that judges it with `returned`."""
    try:
        return {"returned": function()}
    except Exception as error:  # whatever the reader's code raises
        return {"raised": f"{type(error).__name__}: {error}"}


def returned(attempted: Mapping[str, Any]) -> Any:
    """What an attempt returned; raises `Wrong` if it raised."""
    if "raised" in attempted:
        raise does_not_run(attempted["raised"])
    return attempted["returned"]


def does_not_run(error: str) -> Wrong:
    """An answer that raises an error, given in words."""
    return Wrong(_("an answer that runs"), error, _(READ_TASK))


def expect(holds: bool, *, expected: object, found: object, hint: str) -> None:
    """Raises `Wrong` unless it holds."""
    if not holds:
        raise Wrong(expected, found, hint)
