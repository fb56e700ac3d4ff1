"""What a check is made of: an exercise, its parts, and what they find wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


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
    judge: Callable[[Any, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Exercise:
    """How an answer is checked.

    Attributes:
      observe: what the answer does in a case: real workers run it, where it is about workers.
      parts: judged in order; after one that fails, none is.
      case: the numbers that the reader's own check takes.
    """

    observe: Callable[[Any, Mapping[str, Any]], Any]
    parts: tuple[Part, ...]
    case: Mapping[str, Any] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """The most that an answer can earn."""
        return sum(part.points for part in self.parts)


def as_it_is(answer: Any, case: Mapping[str, Any]) -> Any:
    """What `Exercise.observe` is where the answer itself is judged: it is returned."""
    return answer


def expect(holds: bool, *, expected: object, found: object, hint: str) -> None:
    """Raises `Wrong` unless it holds."""
    if not holds:
        raise Wrong(expected, found, hint)
