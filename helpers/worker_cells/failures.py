"""The errors of worker cells, and how a notebook shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from helpers import labels
from helpers.cluster.group import not_started, signal_name
from helpers.errors import ClusterError, HelpersError, UserCodeError
from helpers.i18n import LocalNumber, _, join_items, join_sentences, ngettext
from helpers.protocol.events import Event
from helpers.protocol.failures import to_exception, user_traceback
from helpers.worker_cells.group import WorkerLink
from helpers.worker_cells.output import ranges
from helpers.worker_cells.requests import Outcome, Stop

MAX_NAMES = 12  # of lost variables in a message
LOG_LINES = 12
NEWLINE = "\n"


class WorkerCellError(UserCodeError):
    """A cell raised an exception in some workers. Its message has their tracebacks."""


class WorkersLostError(ClusterError):
    """The workers and their variables are lost, and new workers have been started."""


class CellStoppedError(ClusterError):
    """A cell was stopped, because it did not finish in time. The workers keep their variables."""


class CellInterrupt(KeyboardInterrupt):
    """The kernel was interrupted while workers ran a cell."""


@contextmanager
def brief_errors() -> Iterator[None]:
    """Makes IPython show only the message of the errors of this package, without its frames."""
    try:
        yield
    except (HelpersError, CellInterrupt) as error:
        text = str(error)
        shown = f"{type(error).__name__}:{NEWLINE if NEWLINE in text else ' '}{text}"
        error.__dict__["_render_traceback_"] = shown.splitlines
        raise


def tracebacks(errors: Mapping[int, Event]) -> str:
    """The errors of workers, in which equal ones are shown once."""
    groups: dict[str, list[int]] = {}
    for index, error in sorted(errors.items()):
        text = error["message"] if error["error_class"] else user_traceback(error)
        groups.setdefault(text, []).append(index)
    return "\n".join(f"[{ranges(indexes)}] {text}" for text, indexes in groups.items())


def errors_of(outcome: Outcome) -> dict[int, Event]:
    """The errors in the replies, by worker."""
    return {
        index: reply.fields["error"]
        for index, reply in outcome.replies.items()
        if reply.fields["error"]
    }


def cell_error(errors: Mapping[int, Event]) -> WorkerCellError:
    """The error for exceptions that a cell has raised in workers."""
    text = tracebacks(errors)
    first = min(errors)
    return WorkerCellError(
        text, task=f"worker {first}", traceback=text, exception_type=errors[first]["type"]
    )


def stopped_error(outcome: Outcome, timeout: float | None) -> CellStoppedError | CellInterrupt:
    """The error for a cell that was stopped, and whose workers have all reacted."""
    kept = _("The workers were interrupted, and keep their variables.")
    if outcome.stop == Stop.INTERRUPT:
        texts = [kept]
        if errors := errors_of(outcome):
            texts.append(tracebacks(errors))
        return CellInterrupt("\n".join(texts))
    return CellStoppedError(join_sentences([*_reasons(outcome, timeout), kept]))


def lost_error(
    outcome: Outcome, timeout: float | None, ended: Mapping[WorkerLink, int], names: Sequence[str]
) -> WorkersLostError:
    """The error for workers whose variables are lost.

    Args:
      timeout: the time limit of the cell.
      ended: the exit codes of the workers that have ended by themselves.
      names: the variables that are lost.
    """
    reasons = _reasons(outcome, timeout)
    for link, code in ended.items():
        if code >= 0:
            message = _("{task} ended with exit code {code} while it ran the cell.")
            reasons.append(message.format(task=labels.task(link.task), code=code))
        else:
            reasons.append(_ended_by_signal(link, -code))
    if outcome.unresponsive:
        message = ngettext(
            "{tasks} did not react to an interrupt within {seconds:g} s and was killed.",
            "{tasks} did not react to an interrupt within {seconds:g} s and were killed.",
            len(outcome.unresponsive),
        )
        seconds = LocalNumber(outcome.reaction_timeout)
        reasons.append(message.format(tasks=_tasks(outcome.unresponsive), seconds=seconds))
    text = join_sentences([*reasons, lost_variables(names)])
    if errors := errors_of(outcome):
        text += f"\n{tracebacks(errors)}"
    for link in ended:
        if tail := link.log_tail(LOG_LINES):
            heading = _("The last lines of {task}:").format(task=labels.task(link.task))
            text += f"\n{heading}\n{tail}"
            break
    return WorkersLostError(text, reason=" ".join(reasons))


def lost_variables(names: Sequence[str]) -> str:
    """States which variables are lost, and that new workers have been started."""
    shown = join_items([*names[:MAX_NAMES], *["…"] * (len(names) > MAX_NAMES)])
    if not names:
        return _("All workers were restarted, and the next cell can run.")
    message = _(
        "All workers were restarted, because workers cannot rejoin a running group, and the next "
        "cell can run. The variables of all workers are lost: {names}."
    )
    return message.format(names=shown)


def lost_between_cells(ended: Mapping[WorkerLink, int], names: Sequence[str]) -> WorkersLostError:
    """The error for workers that have ended since the last cell."""
    message = ngettext(
        "{tasks} has ended since the last cell, so this cell was not run.",
        "{tasks} have ended since the last cell, so this cell was not run.",
        len(ended),
    ).format(tasks=_tasks(list(ended)))
    return WorkersLostError(join_sentences([message, lost_variables(names)]))


def start_error(link: WorkerLink, code: int) -> Exception:
    """The error for a worker that has ended before it could run a cell."""
    if (printed := link.process.start_error) is not None:
        return not_started(printed)
    if link.error:
        return to_exception(link.task, link.error)
    message = _("{task} ended with exit code {code} before it could run a cell. Its last lines:")
    text = message.format(task=labels.task(link.task), code=code)
    return ClusterError(f"{text}\n{link.process.log_tail(LOG_LINES)}")


def _reasons(outcome: Outcome, timeout: float | None) -> list[str]:
    """Why a cell was stopped by a deadline, and where its workers were."""
    reasons = []
    if outcome.stop == Stop.TIMEOUT:
        message = _("The cell did not finish within {seconds:g} s (--timeout).")
        reasons.append(message.format(seconds=LocalNumber(timeout or 0)))
    elif outcome.stop == Stop.HANG:
        reasons.append(_("The cell cannot continue, because its workers wait for other workers."))
    if outcome.places:
        reasons.append(_("At that time: {places}.").format(places=outcome.places))
    return reasons


def _ended_by_signal(link: WorkerLink, number: int) -> str:
    message = _("{task} ended with signal {number} ({name}) while it ran the cell.")
    task = labels.task(link.task)
    return message.format(task=task, number=number, name=signal_name(number))


def _tasks(links: Sequence[WorkerLink]) -> str:
    return join_items(labels.task(link.task) for link in links)


def not_ready_error(links: Sequence[WorkerLink], seconds: float) -> ClusterError:
    """The error for workers that did not connect in time."""
    missing = [link for link in links if not link.is_connected]
    message = ngettext(
        "{tasks} was not ready within {seconds:g} s (start_timeout). Its last lines:",
        "{tasks} were not ready within {seconds:g} s (start_timeout). The last lines of the first:",
        len(missing),
    )
    text = message.format(tasks=_tasks(missing), seconds=LocalNumber(seconds))
    return ClusterError(f"{text}\n{missing[0].process.log_tail(LOG_LINES)}")
