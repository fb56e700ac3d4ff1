"""The fault-injection lab below a panel: scenarios, faults injected by hand, and the log."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.course.panel import scenarios
from helpers.course.panel.fault_timeline import fault_timeline, lines
from helpers.course.panel.state import PanelState
from helpers.errors import HelpersError
from helpers.i18n import _, gettext_noop
from helpers.protocol.events import FaultType

# Actions by name. The name is translated when it is shown. An action is a fault with its options,
# or with None if the fault is cleared.
FAULT_ACTIONS: Mapping[str, tuple[FaultType, Mapping[str, float] | None]] = {
    gettext_noop("kill"): (FaultType.KILL, {}),
    gettext_noop("freeze for 2 s"): (FaultType.PAUSE, {"seconds": 2}),
    gettext_noop("freeze"): (FaultType.PAUSE, {}),
    gettext_noop("thaw"): (FaultType.PAUSE, None),
    gettext_noop("slow down to 1/4"): (FaultType.THROTTLE, {"factor": 4}),
    gettext_noop("full speed again"): (FaultType.THROTTLE, None),
    gettext_noop("disconnect for 2 s"): (FaultType.PARTITION, {"seconds": 2}),
    gettext_noop("disconnect"): (FaultType.PARTITION, {}),
    gettext_noop("reconnect"): (FaultType.PARTITION, None),
    gettext_noop("fill its disk"): (FaultType.DISK_FULL, {}),
    gettext_noop("free disk space"): (FaultType.DISK_FULL, None),
    gettext_noop("delay its next start by 5 s"): (FaultType.DELAY_START, {"seconds": 5}),
}


class FaultControls(widgets.VBox):
    """Injects faults into the processes of a panel's run.

    Args:
      state: the state of the panel.
    """

    def __init__(self, state: PanelState) -> None:
        self.state = state
        self._said = ""  # the reason why the last fault could not be injected
        wide = widgets.Layout(width="100%")
        self.scenario = widgets.Dropdown(layout=wide)
        self.task = widgets.Dropdown(layout=wide)
        self.fault = widgets.Dropdown(layout=wide)
        for field in (self.scenario, self.task, self.fault):
            field.add_class("mwl-field")
        self.button = widgets.Button(icon="bolt")
        for name in ("mwl-quiet", "mwl-danger"):
            self.button.add_class(name)
        self.title, self.question, self.story = (widgets.HTML() for _part in range(3))
        self.scenario.observe(self._choose, "value")
        self.button.on_click(lambda _button: self._do())
        row = widgets.GridBox(
            [self.scenario, self.task, self.fault, self.button],
            layout=widgets.Layout(grid_template_columns="1.4fr 1fr 1.4fr auto", grid_gap="0 14px"),
        )
        row.add_class("mwl-fault-form")
        super().__init__([self.title, row, self.question, self.story])
        self.add_class("mwl-laboratory")

    def paint(self, *, enabled: bool) -> None:
        """Updates the controls, in the current language.

        Args:
          enabled: whether a run is active and the kernel handles button clicks.
        """
        state = self.state
        trained = [task.name for task in state.tasks if task.is_trainer]
        self.title.value = _heading(_("Fault injection"))
        self._fill(self.scenario, _("Scenario"), scenarios.names(), state.scenario)
        self.scenario.disabled = state.busy
        self._fill(self.task, _("Process"), {task.name: task.label for task in state.tasks})
        self._fill(self.fault, _("Fault"), {name: _(name) for name in FAULT_ACTIONS})
        self.task.disabled = self.fault.disabled = self.button.disabled = not enabled
        self.button.description = _("Inject")
        asked = scenarios.question(state.scenario, trained)
        self.question.value = _question(asked, self._said)
        if state.run:
            with state.run.lock:
                result = state.run.result
                picture = fault_timeline(result, [task.name for task in state.tasks]).svg()
                self.story.value = (
                    f'<div class="mwl-story">{picture}{lines(result.fault_log)}</div>'
                )

    def _fill(
        self, field: Any, name: str, words: dict[str, str], chosen: str | None = None
    ) -> None:
        """Sets the name and the choices of a field, and keeps the chosen value if it is valid."""
        field.description = name
        options = tuple((word, key) for key, word in words.items())
        value = field.value if chosen is None else chosen
        if field.options != options:
            field.options = options
        wanted = value if value in words else next(iter(words))
        if field.value != wanted:
            field.value = wanted

    def _choose(self, change: Any) -> None:
        if change["new"] is not None and not self.state.busy:
            self.state.scenario = change["new"]

    def _do(self) -> None:
        fault, options = FAULT_ACTIONS[self.fault.value]
        try:
            if options is None:
                self.state.clear_fault(fault.value, self.task.value)
            else:
                self.state.inject_fault(fault.value, self.task.value, **options)
            self._said = ""
        except HelpersError as error:
            self._said = str(error)


def _heading(name: str) -> str:
    return f'<div class="mwl-subtitle" role="heading" aria-level="4">{escape(name)}</div>'


def _question(asked: str, said: str) -> str:
    parts = []
    if asked:
        words = _("What will happen?")
        parts.append(f'<div class="mwl-asked"><b>{escape(words)}</b> {escape(asked)}</div>')
    if said:
        parts.append(f'<pre class="mwl-error" role="alert">{escape(said)}</pre>')
    return "".join(parts)
