"""The panel's HTML parts except charts: head, rows, summary, messages, table, code.

External text is escaped. Texts are translated when a part is painted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from helpers import labels
from helpers.course.charts import image
from helpers.course.charts.svg import Drawing
from helpers.course.panel.cluster_diagram import WIDTH, cluster_diagram
from helpers.course.panel.curves import PALETTE, static_svg
from helpers.course.panel.fault_timeline import fault_log_html
from helpers.course.panel.run import Run, RunRecord, TaskStatus, speedups
from helpers.course.panel.status import Status
from helpers.errors import HelpersError, StoppedError
from helpers.i18n import _, labeled, number
from helpers.results.training_result import TrainingResult


def chip(status: Status) -> str:
    """A status as a colored word. Tests read `data-status`."""
    color = status.color
    return (
        f'<span class="mwl-chip" data-status="{status}" style="--mwl-color:{color}">'
        f"{escape(status.word)}</span>"
    )


def title(status: Status) -> str:
    """The head line."""
    heading = escape(_("Train on several workers"))
    return (
        f'<div class="mwl-title"><span role="heading" aria-level="3">'
        f"{heading}</span>"
        f'<span role="status" class="mwl-status">{chip(status)}</span></div>'
    )


def task_row(task: TaskStatus, number: int, total: int | None) -> str:
    """A worker's row: its name, its progress, its speed and its status."""
    share = 100 * min(1.0, task.step / total) if total else 0.0
    color = PALETTE[number % len(PALETTE)]
    speed = task.examples_per_second
    steps = f"{task.step} / {total}" if total else str(task.step or "–")
    badge = '<span class="mwl-badge">chief</span>' if task.chief else ""
    return (
        f'<div class="mwl-row"><span class="mwl-name">{escape(task.label)}{badge}</span>'
        f'<span class="mwl-bar" role="progressbar" aria-label="{escape(task.label)}" '
        f'aria-valuemin="0" aria-valuemax="{total or 0}" aria-valuenow="{task.step}">'
        f'<span style="width:{share:.1f}%;background:{color}"></span></span>'
        f'<span class="mwl-number">{steps}</span>'
        f'<span class="mwl-number">{_rate(speed)}</span>{chip(task.shown_status)}</div>'
    )


def summary(run: Run | None, sweep_position: tuple[int, int] | None = None) -> str:
    """One line about the whole group. `sweep_position` is (number of the run, number of runs)."""
    if run is None:
        line = _("Press Run to start the workers.")
    else:
        figures = _figures(run.result) or [_("The workers are starting.")]
        line = " · ".join([*_position_text(sweep_position), *figures])
    return f'<div class="mwl-summary">{escape(line)}</div>'


def message(run: Run | None, error: BaseException | None, waits: bool) -> str:
    """The last restart, and the reason of an early end of the run.

    Args:
      run: the current or last run, if any.
      error: the error that ended the run, if any.
      waits: whether a cell waits for the run, which disables the buttons.
    """
    parts = []
    if waits:
        tip = _("The cell waits for this run. To stop it, interrupt the kernel.")
        parts.append(f'<div class="mwl-note">{escape(tip)}</div>')
    if run and run.result.restarts:
        parts.append(f'<div class="mwl-note mwl-warn">{escape(_restarts(run))}</div>')
    for notice in run.result.warnings if run else ():
        parts.append(f'<div class="mwl-note">{escape(notice)}</div>')
    if isinstance(error, StoppedError):
        parts.append(f'<div class="mwl-note">{escape(str(error))}</div>')
    elif error:
        said = str(error) if isinstance(error, HelpersError) else f"{type(error).__name__}: {error}"
        parts.append(f'<pre class="mwl-error" role="alert">{escape(said)}</pre>')
    return f'<div class="mwl-message">{"".join(parts)}</div>'


def headline(
    result: TrainingResult, batch_size: int, sweep_position: tuple[int, int] | None = None
) -> tuple[str, str]:
    """Two lines about a finished run for its picture: the settings, and the result."""
    batch = [_("batch {size} per worker").format(size=batch_size)] * bool(batch_size)
    group = [
        *_position_text(sweep_position),
        labels.workers(result.workers),
        result.communication,
        *batch,
    ]
    return " · ".join(group), " · ".join(_figures(result))


def choice_notes(reasons: Sequence[str]) -> str:
    """The reasons why some choices are disabled."""
    return "".join(f'<div class="mwl-note">{escape(reason)}</div>' for reason in reasons)


def runs_table(records: Sequence[RunRecord]) -> str:
    """The runs of the session side by side."""
    heads = [
        _("No."),
        _("Workers"),
        _("Collective"),
        _("Batch"),
        _("Accuracy"),
        _("Examples/s"),
        _("Speed-up"),
        _("Restarts"),
        _("State"),
    ]
    ups = speedups(records)
    rows = [_table_row(k + 1, records[k], ups[k]) for k in range(len(records))][-12:]
    nothing = escape(_("No run yet."))
    empty = f'<tr><td colspan="{len(heads)}">{nothing}</td></tr>'
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    caption = escape(_("Runs of this session"))
    hint = ""
    if records and not any(ups):
        tip = _("Run one worker with the same batch to see the speed-up.")
        hint = f'<div class="mwl-note">{escape(tip)}</div>'
    return (
        f'<table class="mwl-runs"><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows) or empty}</tbody></table>{hint}"
    )


def moving_cluster(
    tasks: Sequence[TaskStatus],
    way: str,
    variables: Mapping[str, int] | None,
    *,
    width: float = WIDTH,
) -> str:
    """The diagram of the cluster. Gradients flow while a task trains and none is frozen."""
    states = {task.shown_status for task in tasks}
    moving = "mwl-moving" if Status.TRAINING in states and Status.FROZEN not in states else ""
    drawing = cluster_diagram(tasks, way, variables, width=width)
    return f'<div class="mwl-cluster {moving}">{drawing.svg()}</div>'


def side_by_side(drawings: Sequence[Drawing]) -> str:
    """Drawings in a row, or below each other if the page is narrow."""
    shown = "".join(f"<div>{drawing.svg()}</div>" for drawing in drawings)
    return f'<div class="mwl-charts">{shown}</div>'


def task_details(task: TaskStatus, tf_config: str, log: str) -> str:
    """A task's `TF_CONFIG` and the end of its log."""
    parts = []
    nothing = escape(_("nothing yet"))
    for name, content in (("TF_CONFIG", tf_config), (_("Log"), log)):
        shown = escape(content.strip()) or f"<i>{nothing}</i>"
        label = escape(labeled(task.label, name))
        parts.append(
            f'<div class="mwl-label">{escape(name)}</div><div class="mwl-scroll">'
            f'<pre tabindex="0" role="region" aria-label="{label}">{shown}</pre></div>'
        )
    return "".join(parts)


def code_blocks(code: str = "", export: str = "") -> str:
    """Source code that a click selects: a program for a notebook, and one that exports it."""
    if not code:
        return ""
    label = _("Export a program that does not need this package (docs/CLUSTERS.md):")
    tip = _("Click the code to select it, then copy it into a cell.")
    exported = f"<p>{escape(label)}</p>{_code_block(label, export)}" if export else ""
    return (
        f"{_code_block(_('Python code for these choices'), code)}{exported}"
        f'<div class="mwl-note">{escape(tip)}</div>'
    )


def _code_block(label: str, code: str) -> str:
    return (
        f'<pre class="mwl-code" tabindex="0" role="region" aria-label="{escape(label)}">'
        f"{escape(code)}</pre>"
    )


def _position_text(sweep_position: tuple[int, int] | None) -> list[str]:
    return (
        [_("run {number} of {count}").format(number=sweep_position[0], count=sweep_position[1])]
        if sweep_position
        else []
    )


def _figures(result: TrainingResult) -> list[str]:
    parts = []
    if result.total_steps:
        parts.append(labels.step_label(result.steps, result.total_steps))
    elif result.steps:
        parts.append(_("step {step}").format(step=result.steps))
    points = next(iter(result.history.values()), [])
    if points:
        parts.append(labels.loss(points[-1].loss))
    if speed := result.examples_per_second:
        parts.append(labels.throughput_label(speed))
    if result.accuracy is not None:
        parts.append(labels.accuracy(result.accuracy, ".1%"))
    return parts


def _restarts(run: Run) -> str:
    result = run.result
    reason = result.restarts[-1].splitlines()[0]
    if run.phase == Status.RESTARTING:
        return _("{reason}. The group restarts from its last checkpoint.").format(reason=reason)
    step = result.resumed_at.get(len(result.restarts), 0)
    return _("{reason}. The group restarted and resumed at step {step}.").format(
        reason=reason, step=step
    )


def _table_row(position: int, record: RunRecord, up: float | None) -> str:
    accuracy = "–" if record.accuracy is None else number(record.accuracy, ".1%")
    speed = number(record.examples_per_second, ",.0f") if record.examples_per_second else "–"
    cells = [
        str(position),
        str(record.workers),
        record.communication,
        str(record.batch_size or "–"),
        accuracy,
        speed,
        "–" if up is None else number(up, ".2f") + "×",
        str(record.restarts),
        record.status.word,
    ]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _rate(speed: float | None) -> str:
    if speed is None:
        return "–"
    return escape(labels.throughput_label(speed))


def static_html(
    run: Run,
    records: Sequence[RunRecord],
    charts: Sequence[str],
    *,
    sweep_position: tuple[int, int] | None,
    has_story: bool,
) -> str:
    """A finished run for viewers without widgets: a picture, tables, and stacks of failures.

    Args:
      run: the finished run.
      records: the finished runs of the session.
      charts: names in `helpers.course.panel.curves.CHARTS`.
      sweep_position: the number of the run in a sweep, and the number of runs.
      has_story: whether faults could be injected into the run.
    """
    head = headline(run.result, run.batch, sweep_position)
    picture = static_svg(run.result, run.tasks, head, charts, records)
    table = runs_table(records) if len(records) > 1 else ""
    log = fault_log_html(run.result, [task.name for task in run.tasks]) if has_story else ""
    return image(picture, " · ".join(head)) + table + log + run.result.stacks_html()
