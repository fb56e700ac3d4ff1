"""The parts of a check: an exercise, its criteria, and their failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

from helpers import labels
from helpers.i18n import _, gettext_noop, join_clauses, join_items, ngettext, number

Case = Mapping[str, Any]
READ_TASK = gettext_noop("Read the task again, and run your own code to see its result.")


class CheckFailed(Exception):
    """A criterion that an answer does not satisfy.

    Attributes:
      expected, found: a text, or a value.
      hint: where to look, but never the solution.
    """

    def __init__(self, expected: object, found: object, hint: str) -> None:
        super().__init__(hint)
        self.expected, self.found, self.hint = expected, found, hint


class CheckSkipped(Exception):
    """A criterion that was not tested. The message states the reason."""


@dataclass(frozen=True)
class Criterion:
    """One requirement on an answer, worth points.

    Attributes:
      description: an English text, which is translated when it is shown.
      check: raises `CheckFailed` unless the observed behavior fits the case.
    """

    points: float
    description: str
    check: Callable[[Any, Case], None]


def show_all(case: Case) -> Case:
    """An `Exercise.visible_case` for cases that contain only input numbers."""
    return case


@dataclass(frozen=True)
class Exercise:
    """The checks of an answer.

    Attributes:
      run: returns the answer's behavior in a case. Real workers run the answer if it is about
        workers.
      criteria: judged in order up to the first failure, or all of them if they are independent.
      case: the numbers that the student's own check uses.
      visible_case: returns the part of a case that `run` receives. The expected results remain with
        the grader.
      independent: whether a criterion is judged even if an earlier one failed.
    """

    run: Callable[[Any, Case], Any]
    criteria: tuple[Criterion, ...]
    case: Case = field(default_factory=dict)
    visible_case: Callable[[Case], Case] = show_all
    independent: bool = False

    @property
    def points(self) -> float:
        """The maximum number of points for an answer."""
        return sum(criterion.points for criterion in self.criteria)


def join_numbers(values: Iterable[float], spec: str = ".4g") -> str:
    """Numbers in the notation of the current language, also if it has a decimal comma.

    Args:
      spec: a format specification of Python; by default, to four figures.
    """
    texts = [number(float(value), spec) for value in values]
    return (join_clauses if any("," in text for text in texts) else join_items)(texts)


def describe_calls(calls: Mapping[str, Iterable[str]]) -> str:
    """The functions that each task called, in words."""
    message, none = _("{task} calls {functions}"), _("no function")
    return join_clauses(
        message.format(task=labels.task(task), functions=join_items(functions) or none)
        for task, functions in calls.items()
    )


def describe_examples(parts: Iterable[object]) -> str:
    """The examples that each worker reads, in words."""
    return join_clauses(
        _("worker {number} reads {examples}").format(number=worker, examples=part)
        for worker, part in enumerate(parts)
    )


def expect_each_once(
    numbers: Iterable[int], count: int, parts: Iterable[object], hint: str
) -> None:
    """Raises `CheckFailed` unless the workers read each number below `count` once.

    Args:
      numbers: all that the workers read.
      parts: the same by worker, for the message.
    """
    expect(
        Counter(numbers) == Counter(range(count)),
        expected=ngettext(
            "{count} number read once, by one of the workers",
            "each of {count} numbers read once, by one of the workers",
            count,
        ).format(count=count),
        found=describe_examples(parts),
        hint=hint,
    )


def expect_equal_sizes(
    batches: Iterable[Sized], step: int, parts: Iterable[object], hint: str
) -> None:
    """Raises `CheckFailed` if the workers' batches of a step differ by more than one example.

    Args:
      parts: what each worker reads, for the message.
    """
    sizes = [len(batch) for batch in batches]
    expect(
        max(sizes) - min(sizes) <= 1,
        expected=_("in each step, numbers of examples that differ by at most one"),
        found=_("{sizes} in step {step} ({parts})").format(
            sizes=sizes, step=step, parts=describe_examples(parts)
        ),
        hint=hint,
    )


def identity(answer: Any, case: Case) -> Any:
    """An `Exercise.run` that returns the answer, if the answer itself is judged."""
    return answer


def hide_all(case: Case) -> Case:
    """An `Exercise.visible_case` that hides everything, if the answer itself is judged."""
    return {}


def hide_last(key: str, count: int = 1) -> Callable[[Case], Case]:
    """An `Exercise.visible_case` for a list of tuples that end with expected results."""
    return lambda case: {**case, key: [tuple(entry)[:-count] for entry in case[key]]}


def hide_key(key: str, name: str) -> Callable[[Case], Case]:
    """An `Exercise.visible_case` for named dicts with an entry for the expected value."""

    def visible_case(case: Case) -> Case:
        kept = {
            one: {field: value for field, value in entries.items() if field != name}
            for one, entries in case[key].items()
        }
        return {**case, key: kept}

    return visible_case


def same_shape_and_close(found: Any, wanted: Any, atol: float, rtol: float = 1e-5) -> bool:
    """Whether two arrays are close and of equal shape, which `numpy.allclose` does not require."""
    import numpy as np

    same = np.shape(found) == np.shape(wanted)
    return same and bool(np.allclose(found, wanted, rtol=rtol, atol=atol))


def capture(function: Callable[[], Any]) -> dict[str, Any]:
    """The result or error of a call as data. A criterion judges it with `unwrap`."""
    try:
        return {"returned": function()}
    except Exception as error:  # any error of the student's code
        return {"raised": f"{type(error).__name__}: {error}"}


def unwrap(captured: Mapping[str, Any]) -> Any:
    """The result of a captured call. If the call raised an error, raises `CheckFailed`."""
    if "raised" in captured:
        raise execution_error(captured["raised"])
    return captured["returned"]


def execution_error(error: str) -> CheckFailed:
    """The failure of an answer that raises an error."""
    return CheckFailed(_("an answer that runs"), error, _(READ_TASK))


def expect(holds: bool, *, expected: object, found: object, hint: str) -> None:
    """Raises `CheckFailed` unless `holds` is true."""
    if not holds:
        raise CheckFailed(expected, found, hint)
