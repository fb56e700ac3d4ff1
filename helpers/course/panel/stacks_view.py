"""The stacks of a panel's workers, folded: a line for each worker, which opens its stack."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.cluster.stacks import Stacks
from helpers.course.panel.run import Run
from helpers.course.panel.state import PanelState
from helpers.i18n import _, language


class Collected(NamedTuple):
    """Stacks that the button has collected.

    Attributes:
      run: the run that was active.
      clock: the time of day.
    """

    run: Run | None
    stacks: Stacks
    clock: str


class StacksView(widgets.VBox):
    """Shows the stacks that its button collects, and the stacks collected before a failure.

    Args:
      state: the state of the panel.
      paint: paints the panel, in any thread.

    Attributes:
      button: the button, which the panel places next to its other buttons.
    """

    def __init__(self, state: PanelState, paint: Callable[[], None]) -> None:
        self.state = state
        self._paint_panel = paint
        self.button = widgets.Button(icon="list")
        self.button.add_class("mwl-quiet")
        self.button.add_class("mwl-stacks-button")
        self.button.on_click(lambda _button: self.collect())
        self.current, self.report = widgets.HTML(), widgets.HTML()
        self._collected: Collected | None = None
        self._collector: threading.Thread | None = None
        self._is_collecting = False
        self._shown: dict[Any, object] = {}
        super().__init__([self.current, self.report])

    def collect(self) -> None:
        """Collects the stacks in a separate thread, so that the kernel can handle other clicks."""
        if self._is_collecting:
            return
        self._is_collecting = True
        self._paint_panel()
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()

    def join(self) -> None:
        """Waits until the stacks have been collected and shown."""
        if self._collector:
            self._collector.join()

    def paint(self, *, enabled: bool) -> None:
        """Updates the button and the stacks, in the current language.

        Args:
          enabled: whether a run is active and the kernel handles button clicks.
        """
        self.button.description = _("Stacks")
        self.button.tooltip = _("Show the line of each worker, and the reason for its wait")
        self.button.disabled = not enabled or self._is_collecting
        run, collected = self.state.run, self._collected
        if collected and collected.run is not run:
            collected = None
        self._render(self.current, id(collected), lambda: _current_html(collected))
        if run:
            result = run.result
            failures = (id(run), len(result.restarts), *result.stacks)
            self._render(self.report, failures, result.stacks_html)

    def _collect(self) -> None:
        try:
            run, stacks = self.state.run, self.state.stacks()
            self._collected = Collected(run, stacks, time.strftime("%H:%M:%S"))
        finally:
            self._is_collecting = False
            self._paint_panel()

    def _render(self, part: widgets.HTML, content: object, render: Callable[[], str]) -> None:
        """Renders a part only if it has changed, because a new value would fold open lines."""
        key = language(), content
        if self._shown.get(part) != key:
            self._shown[part] = key
            part.value = render()


def _current_html(collected: Collected | None) -> str:
    """The stacks that the button has collected, with the time."""
    if collected is None:
        return ""
    title = escape(_("Stacks at {time}").format(time=collected.clock))
    return (
        f'<div class="mwl-stacks" role="region" aria-label="{title}">'
        f'<div class="mwl-label" role="status">{title}</div>'
        f"{collected.stacks._repr_html_()}</div>"
    )
