"""The predictions of a class for each question: median, outliers, and a page with histograms."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from helpers.course.charts import SvgFigure
from helpers.course.predictions import QUESTIONS, Question, Scale

ROOT = Path(__file__).resolve().parents[2]
LESSONS = ROOT / "notebooks" / "en"  # whose stored outputs contain the results
MAX_DRAWN = 1e15  # a larger number is an outlier, and its square would overflow in the chart
FENCE = 1.5  # interquartile ranges beyond a quartile (Tukey, Exploratory Data Analysis, 1977)
MIN_FOR_QUARTILES = 4
BINS = 12
STYLE = (
    "body { font-family: sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem } "
    "table { border-collapse: collapse } th, td { border: 1px solid #999; padding: 0.3rem 0.6rem } "
    "td { text-align: right } td:first-child { text-align: left } img { max-width: 100% }"
)


@dataclass(frozen=True)
class Summary:
    """The predictions of a class for one question.

    Attributes:
      name: a name in `QUESTIONS`.
      numbers: the predictions in ascending order, with outliers.
      outliers: those that are far from the others, and not drawn.
      missing: the students without a number.
      unreadable: the students whose entry is not a number, or whose cell has a syntax error.
      result: the number in the stored lesson, or None if the lesson stores none.
    """

    name: str
    numbers: tuple[float, ...]
    outliers: tuple[float, ...]
    missing: int
    unreadable: int
    result: float | None

    @property
    def question(self) -> Question:
        """The question that the class answered."""
        return QUESTIONS[self.name]

    @property
    def median(self) -> float | None:
        """The median of all numbers, with outliers."""
        if not self.numbers:
            return None
        low, high = statistics.median_low(self.numbers), statistics.median_high(self.numbers)
        return low if low == high else low / 2 + high / 2  # the sum could overflow

    def __str__(self) -> str:
        cells = zip(COLUMNS[1:], row(self)[1:], strict=True)
        return f"{row(self)[0]}: " + ", ".join(f"{name} {value}" for name, value in cells)


COLUMNS = ("question", "predictions", "no number", "unreadable", "median", "outliers", "result")


def row(summary: Summary) -> tuple[str, ...]:
    """The cells of a question in a table with `COLUMNS`."""
    return (
        summary.question.label,
        str(len(summary.numbers)),
        str(summary.missing),
        str(summary.unreadable),
        "–" if summary.median is None else f"{summary.median:.3g}",
        "; ".join(f"{number:.3g}" for number in summary.outliers) or "–",
        "–" if summary.result is None else f"{summary.result:.3g}",
    )


def summarize(entries: Sequence[tuple[str, float | None, str]]) -> list[Summary]:
    """Summarizes the entries of a class.

    Returns: a summary for each question of the entries, in the order of the lessons.

    Args:
      entries: the name of a question, the number of a student or None, and the problem, if any.
    """
    summaries = []
    for name, question in QUESTIONS.items():
        own = [(number, problem) for entry, number, problem in entries if entry == name]
        if not own:
            continue
        numbers = tuple(sorted(number for number, _problem in own if number is not None))
        missing = sum(problem in ("no number", "no call") for _number, problem in own)
        unreadable = len(own) - len(numbers) - missing
        outliers = find_outliers(numbers, question.scale)
        result = stored_result(name)
        summaries.append(Summary(name, numbers, outliers, missing, unreadable, result))
    return summaries


def find_outliers(numbers: Sequence[float], scale: Scale) -> tuple[float, ...]:
    """The numbers beyond Tukey's fences, and those that cannot be drawn on the scale.

    On the ratio scale, the fences are those of the logarithms.
    """
    drawable = [number for number in numbers if _is_drawable(number, scale)]
    low, high = -math.inf, math.inf
    if len(drawable) >= MIN_FOR_QUARTILES:
        places = [_place(number, scale) for number in drawable]
        first, _median, third = statistics.quantiles(places, n=4, method="inclusive")
        reach = FENCE * (third - first) + 1e-9  # equal numbers may differ by rounding
        low, high = first - reach, third + reach
    return tuple(
        number
        for number in numbers
        if not (_is_drawable(number, scale) and low <= _place(number, scale) <= high)
    )


def _is_drawable(number: float, scale: Scale) -> bool:
    if scale is Scale.RATIO:
        return 1 / MAX_DRAWN <= number <= MAX_DRAWN
    return abs(number) <= MAX_DRAWN


def _place(number: float, scale: Scale) -> float:
    """Where a drawable number is on the axis."""
    return math.log10(number) if scale is Scale.RATIO else number


@cache
def stored_result(name: str, lessons: Path = LESSONS) -> float | None:
    """The result of a question in the stored output of its lesson, or None."""
    question = QUESTIONS[name]
    line = re.compile(rf"^{re.escape(question.label)}: .*\bresult (-?[\d.,]+(?:e[+-]?\d+)?)", re.M)
    path = lessons / f"{question.lesson}.ipynb"
    for cell in json.loads(path.read_text("utf-8"))["cells"] if path.exists() else []:
        for output in cell.get("outputs", []):
            if found := line.search("".join(output.get("text", ""))):
                return float(found[1].rstrip(",.").replace(",", ""))
    return None


def histogram(summary: Summary) -> SvgFigure:
    """The number of students over their predictions, without outliers."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    question, scale = summary.question, summary.question.scale
    drawn = [number for number in summary.numbers if number not in summary.outliers]
    result = summary.result
    if result is not None and not _is_drawable(result, scale):
        result = None
    figure = Figure(figsize=(6, 2.6), layout="constrained")
    axes = figure.add_subplot()
    places = [_place(number, scale) for number in [*drawn, *([] if result is None else [result])]]
    if places:
        axes.hist(drawn, _edges(min(places), max(places), scale))
    if result is not None:
        axes.axvline(result, color="black", linestyle="--", label="result of the stored lesson")
        figure.legend(loc="outside upper right")
    if scale is Scale.RATIO and places:
        axes.set_xscale("log")
    axes.set(xlabel=question.label, ylabel="students")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return SvgFigure(figure, f"histogram of {len(drawn)} predictions: {question.label}")


def _edges(low: float, high: float, scale: Scale) -> list[float]:
    """The edges of the bins, from the places of the smallest and the largest number."""
    least = 0.1 * (1 if scale is Scale.RATIO else max(1.0, abs(low)))
    margin = max(least - (high - low), 0) / 2 + (high - low) * 0.01
    low, width = low - margin, (high - low + 2 * margin) / BINS
    places = [low + width * number for number in range(BINS + 1)]
    return [10**place for place in places] if scale is Scale.RATIO else places


def page(summaries: Sequence[Summary]) -> str:
    """An HTML page with the table and the histograms, without names of students."""
    head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row(one)) + "</tr>"
        for one in summaries
    )
    parts, lesson = [], ""
    for one in summaries:
        if one.question.lesson != lesson:
            lesson = one.question.lesson
            parts.append(f"<h2>{escape(lesson)}</h2>")
        parts.append(f"<h3>{escape(one.question.label)}</h3>{histogram(one)._repr_html_()}")
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Predictions</title>'
        f"<style>{STYLE}</style></head><body><h1>Predictions</h1>"
        f"<table><tr>{head}</tr>{rows}</table>{''.join(parts)}"
        "<p>Outliers are not drawn. The dashed line is the result of the stored lesson. "
        "Results on other machines differ.</p></body></html>\n"
    )
