"""From reports to numbers: one rule for every contender."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from statistics import median

from benchmarks.contenders.report import Mark, Report
from benchmarks.throughput.lineup import Key


@dataclass(frozen=True)
class Row:
    """One measurement of one contender, a line of the CSV.

    Attributes:
      contender, workers, batch_size: identify the contender.
      repeat: the number of the round, from 1.
      epochs, steps: the length of the training run.
      examples_per_second: of all workers together, from the requested step to the last.
      first_epoch_examples_per_second: the same, up to the end of the first epoch, or None if that
        is less than a tenth of the epoch.
      seconds_to_first_step: from the launch of the processes or, for `lineup.READY`, from the
        press of Run, like the other two.
      seconds_to_result: to the evaluation at the end of `epochs`, or None for the ceiling.
      accuracy: on the test split at the end, or None for the ceiling.
      seconds_to_goal: to the evaluation of the shortest run that reached
        `lineup.GOAL_ACCURACY`, or None if none did.
      epochs_to_goal: how many epochs that run had.
      peak_memory: of the largest worker, in MB (10⁶ bytes).
    """

    contender: str
    workers: int
    batch_size: int
    repeat: int
    epochs: int
    steps: int
    examples_per_second: float
    first_epoch_examples_per_second: float | None
    seconds_to_first_step: float
    seconds_to_result: float | None
    accuracy: float | None
    seconds_to_goal: float | None
    epochs_to_goal: int | None
    peak_memory: float | None

    @property
    def key(self) -> Key:
        """The key of its contender."""
        return self.contender, self.workers, self.batch_size


@dataclass(frozen=True)
class Spread:
    """Several measurements of the same quantity: their median and range."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the values."""
        return median(self.values)

    def show(self, form: str) -> str:
        """Formats the median, and the range if there are several values."""
        text = format(self.median, form)
        if len(self.values) > 1:
            text += f" ({min(self.values):{form}}–{max(self.values):{form}})"
        return text


def throughput(reports: Sequence[Report], first: int, last: int | None = None) -> float | None:
    """Examples per second from global step `first` to `last`, or to the end.

    It is summed over the reports that have marks. None if one has fewer than two marks in between.
    """
    speeds = []
    for report in reports:
        marks = [m for m in report.marks if m[0] >= first and (last is None or m[0] <= last)]
        if report.marks and len(marks) < 2:
            return None
        if marks:
            speeds.append(_steps_per_second(marks) * report.examples_per_step)
    return sum(speeds) or None


def first_epoch_throughput(
    reports: Sequence[Report], first: int, steps_per_epoch: int
) -> float | None:
    """The same within the first epoch, if at least a tenth of it remains after step `first`."""
    if steps_per_epoch - first < steps_per_epoch / 10:
        return None
    return throughput(reports, first, steps_per_epoch)


def spread(rows: Sequence[Row], attribute: str) -> Spread | None:
    """Returns the values of one attribute, if there are any."""
    values = [getattr(row, attribute) for row in rows]
    known = tuple(value for value in values if value is not None)
    return Spread(known) if known else None


def by_contender(rows: Sequence[Row]) -> dict[Key, list[Row]]:
    """Groups the rows by contender, in the order of their first run."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.key, []).append(row)
    return groups


def ratio(rows: Sequence[Row], mine: Key, other: Key, attribute: str) -> Spread | None:
    """The ratio of `mine` to `other`, round by round, because a slow minute affects both."""
    found = {(row.key, row.repeat): getattr(row, attribute) for row in rows}
    quotients = []
    for repeat in sorted({row.repeat for row in rows}):
        numerator, denominator = found.get((mine, repeat)), found.get((other, repeat))
        if numerator and denominator:
            quotients.append(numerator / denominator)
    return Spread(tuple(quotients)) if quotients else None


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Writes a line for each row, below a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        for row in rows:
            writer.writerow(_cell(value) for value in astuple(row))


def _steps_per_second(marks: Sequence[Mark]) -> float:
    (first, start), (last, end) = marks[0], marks[-1]
    return (last - first) / (end - start)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.4f}" if value < 1 else f"{value:.2f}"
    return "" if value is None else value
