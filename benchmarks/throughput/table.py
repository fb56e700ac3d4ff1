"""Formats the results as text."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.throughput.lineup import COMPARISONS, GOAL_ACCURACY, GOAL_MEMORY, OURS, label
from benchmarks.throughput.measure import Row, Spread, by_contender, ratio, spread

HEAD = ("contender", "workers × batch", "examples/s", "first epoch", "first step", "accuracy")
UNKNOWN = "–"


def table(rows: Sequence[Row]) -> str:
    """Formats a line for each contender, with median and range if there are several repeats."""
    head = (*HEAD, f"to {GOAL_ACCURACY:.0%}", "to the result", "peak memory")
    cells = [head, *(_line(group) for group in by_contender(rows).values())]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def ratios(rows: Sequence[Row]) -> str:
    """Formats the comparisons that matter, with the required ratios."""
    lines = []
    for mine, other, wanted in COMPARISONS:
        found = ratio(rows, mine, other, "examples_per_second")
        if found is None:
            continue
        first = ratio(rows, mine, other, "first_epoch_examples_per_second")
        text = f"{label(mine)} / {other[0]}: {found.show('.2f')}"
        if first:
            text += f"; in the first epoch {first.show('.2f')}"
        if wanted:
            text += f"; required: {wanted:g}"
        lines.append(text)
    if memory := spread([row for row in rows if row.contender == OURS], "peak_memory"):
        largest = max(memory.values)
        lines.append(f"{OURS}, largest worker: {largest:.0f} MB; required: under {GOAL_MEMORY}")
    return "\n".join(lines)


def _line(group: Sequence[Row]) -> tuple[str, ...]:
    row = group[0]
    return (
        row.contender,
        f"{row.workers} × {row.batch_size}",
        _show(spread(group, "examples_per_second"), ",.0f"),
        _show(spread(group, "first_epoch_examples_per_second"), ",.0f"),
        _show(spread(group, "seconds_to_first_step"), ".1f", " s"),
        _show(spread(group, "accuracy"), ".4f"),
        _goal(group),
        _show(spread(group, "seconds_to_result"), ".1f", " s"),
        _show(spread(group, "peak_memory"), ".0f", " MB"),
    )


def _goal(group: Sequence[Row]) -> str:
    if seconds := spread(group, "seconds_to_goal"):
        epochs = spread(group, "epochs_to_goal")
        assert epochs is not None
        return f"{seconds.show('.1f')} s, {epochs.median:.0f} epoch(s)"
    accuracy = spread(group, "accuracy")
    if accuracy is None:
        return UNKNOWN
    return f"never: {accuracy.median:.2f} after {group[0].steps} steps"


def _show(values: Spread | None, form: str, unit: str = "") -> str:
    return values.show(form) + unit if values else UNKNOWN
