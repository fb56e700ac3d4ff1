"""The progress of a training run, in a notebook, in a terminal, or in a log."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from helpers import labels
from helpers.i18n import _, join_phrases
from helpers.protocol.events import Event, EventType
from helpers.results.training_result import TrainingResult

REPAINT_INTERVAL = 0.25


@contextmanager
def show_progress(
    result: TrainingResult, *, enabled: bool = True
) -> Iterator[Callable[[Event], None]]:
    """Yields a function that receives events and updates a progress bar of `result`."""
    if not enabled:
        yield lambda event: None
        return
    bar = _NotebookBar(result) if in_notebook() else _TerminalBar(result)
    last = 0.0

    def show(event: Event) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= REPAINT_INTERVAL or event["event"] in (
            EventType.GROUP_RESTART,
            EventType.EVALUATION,
        ):
            last = now
            bar.paint()

    try:
        yield show
    finally:
        bar.close()


def consume(
    events: Iterable[Event],
    result: TrainingResult,
    *,
    on_event: Callable[[Event], None] | None = None,
    progress: bool = True,
) -> None:
    """Passes the events of a run to `result`, to the progress bar and to `on_event`."""
    with show_progress(result, enabled=progress) as show:
        for event in events:
            result.add(event)
            show(event)
            if on_event:
                on_event(event)


def in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return hasattr(get_ipython(), "kernel")


def status_line(result: TrainingResult) -> str:
    """A line about the state of the run."""
    if result.total_steps is None:
        return _("starting")
    return join_phrases([labels.step_label(result.steps, result.total_steps), *_numbers(result)])


def _numbers(result: TrainingResult) -> Iterator[str]:
    """The parts of the line that follow the step."""
    points = next(iter(result.history.values()), [])
    if points:
        yield labels.loss(points[-1].loss)
        if speed := points[-1].examples_per_second:
            yield labels.throughput_label(speed)
    if result.accuracy is not None:
        yield labels.accuracy(result.accuracy)
    if result.restarts:
        message = _("restarted {count}×: {reason}")
        yield message.format(count=len(result.restarts), reason=result.restarts[-1])


class _TerminalBar:
    def __init__(self, result: TrainingResult) -> None:
        self._result = result
        # i18n: the unit of a terminal's progress bar, as in "120 training steps/s"
        unit = " " + _("training steps")
        self._bar: Any = tqdm(total=None, unit=unit, dynamic_ncols=True, leave=True)

    def paint(self) -> None:
        self._bar.total = self._result.total_steps
        self._bar.n = self._result.steps
        self._bar.set_postfix_str(join_phrases(_numbers(self._result)))

    def close(self) -> None:
        self.paint()
        self._bar.close()


class _NotebookBar:
    def __init__(self, result: TrainingResult) -> None:
        from IPython.display import display

        self._result = result
        self._handle: Any = display(self._content(), raw=True, display_id=True)

    def paint(self) -> None:
        self._handle.update(self._content(), raw=True)

    close = paint

    def _content(self) -> dict[str, str]:
        text = status_line(self._result)
        total = self._result.total_steps or 1
        bar = f'<progress value="{self._result.steps}" max="{total}" style="width:16em"></progress>'
        return {"text/plain": text, "text/html": f"<div>{bar} {html.escape(text)}</div>"}
