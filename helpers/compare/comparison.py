"""The result of `helpers.compare`: a table, a diagnosis for each group size, and a chart."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from helpers import labels
from helpers.compare.causes import Cause, Diagnosis
from helpers.compare.diagnosis import diagnose
from helpers.compare.runs import Run, distance, largest
from helpers.compare.steps import first_different_step
from helpers.i18n import _, join_items, number

if TYPE_CHECKING:
    from helpers.results.svg_figure import SvgFigure


@dataclass(frozen=True)
class Row:
    """One quantity with each group size.

    Attributes:
      name: the name of the quantity, such as "loss" or "weights".
      values: its last value, or the absolute sum of several numbers, by the number of workers.
      difference: the largest distance of its numbers, on any worker, from the first group.
    """

    name: str
    values: Mapping[int, float]
    difference: float


@dataclass(frozen=True)
class Comparison:
    """A program with several group sizes, the first of which is the reference.

    Attributes:
      runs: one for each group size.
      tolerance: the largest distance of equal numbers. A distance is absolute for numbers up to 1,
        and relative above.
    """

    runs: Sequence[Run]
    tolerance: float

    @cached_property
    def rows(self) -> list[Row]:
        """Losses, metrics, weights, and the results of `evaluate`."""
        reference, *others = self.runs
        wanted = reference.quantities()
        found = {run.workers: run.quantities_of_all() for run in others}
        rows = []
        for name, numbers in wanted.items():
            values = {reference.workers: _shown(name, numbers)}
            difference = 0.0
            for workers, answers in found.items():
                values[workers] = _shown(name, answers[0].get(name, [])) if answers else math.nan
                distances = [largest(numbers, answer.get(name, [])) for answer in answers]
                difference = max([difference, *distances] if answers else [math.inf])
            rows.append(Row(name, values, difference))
        return rows

    @cached_property
    def diagnoses(self) -> dict[int, Diagnosis]:
        """The likely fault of each group that differs, by the number of workers."""
        reference, *others = self.runs
        found = {run.workers: diagnose(reference, run, self.tolerance) for run in others}
        return {workers: diagnosis for workers, diagnosis in found.items() if diagnosis}

    @property
    def equal(self) -> bool:
        """Whether all groups have the same results, and none of them failed."""
        failed = any(run.error for run in self.runs)
        return not failed and not self.diagnoses and self.difference <= self.tolerance

    @property
    def difference(self) -> float:
        """The largest difference of all rows."""
        return max((row.difference for row in self.rows), default=0.0)

    @cached_property
    def first_steps(self) -> dict[int, int]:
        """The number of the first step that differs, from 1, by the number of workers.

        Groups without a different step are missing.
        """
        reference, *others = self.runs
        found = {}
        for run in others:
            step = first_different_step(reference, run, self.tolerance)
            if step is not None:
                found[run.workers] = step + 1
        return found

    def plot(self) -> SvgFigure:
        """The loss of each group size over the steps, and the distance from the reference."""
        from helpers.compare.chart import comparison_chart

        return comparison_chart(self.runs, self.tolerance, repr(self))

    def sentences(self) -> list[str]:
        """The findings, in one or two sentences for each group size."""
        found = []
        for run in self.runs:
            if run is self.runs[0] and run.error:
                message = _("{workers}, the reference, failed: {reason}")
                values = {"workers": labels.workers(run.workers), "reason": run.error}
                found.append(message.format(**values))
            elif diagnosis := self.diagnoses.get(run.workers):
                found.append(self._sentence(run, diagnosis))
        return found or [repr(self)]

    def _sentence(self, run: Run, diagnosis: Diagnosis) -> str:
        step = diagnosis.step or self.first_steps.get(run.workers)
        message = _("{workers}: {cause}. {evidence}")
        if step:
            message = _("{workers}, from step {step} on: {cause}. {evidence}")
        values = {"step": step, "evidence": diagnosis.evidence}
        workers = labels.workers(run.workers)
        return message.format(workers=workers, cause=diagnosis.cause.label, **values)

    def __repr__(self) -> str:
        groups = join_items(str(run.workers) for run in self.runs)
        if self.equal:
            message = _("Comparison({groups} workers agree to {difference:.0e})")
            return message.format(groups=groups, difference=self.difference)
        causes = join_items(dict.fromkeys(d.cause.label for d in self.diagnoses.values()))
        message = _("Comparison({groups} workers differ: {causes})")
        return message.format(groups=groups, causes=causes or Cause.UNKNOWN.label)

    def __str__(self) -> str:
        table = [self._heading(), *self._cells()]
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in table
        ]
        return "\n".join([*lines, "", *self.sentences()])

    def _repr_html_(self) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

        body = "".join(line(cells, "td") for cells in self._cells())
        sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences())
        return f"<table>{line(self._heading(), 'th')}{body}</table>{sentences}"

    def _heading(self) -> list[str]:
        counts = [labels.workers(run.workers) for run in self.runs]
        return ["", *counts, _("largest difference")]

    def _cells(self) -> list[list[str]]:
        return [
            [row.name, *(_text(row.values[run.workers]) for run in self.runs), _far(row.difference)]
            for row in self.rows
        ]


def _shown(name: str, numbers: Sequence[float]) -> float:
    """The last number of epochs, or the absolute sum of weights."""
    if not numbers:
        return math.nan
    summed = name.startswith((_("weights"), _("other variables")))
    return sum(map(abs, numbers)) if summed else numbers[-1]


def _text(value: float) -> str:
    return "–" if math.isnan(value) else number(value, ".6g")


def _far(difference: float) -> str:
    if distance(difference, 0.0) == 0.0:
        return "0"
    return "∞" if math.isinf(difference) else number(difference, ".1e")
