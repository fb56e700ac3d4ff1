"""The fault laboratory below a panel: a scenario, deeds by hand, and the story that they make."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.errors import LessonError
from helpers.i18n import _, gettext_noop
from helpers.messages.events import Deed
from helpers.panel import scenarios
from helpers.panel.state import PanelState
from helpers.panel.story_picture import story_picture
from helpers.results.story import Story, time_of

# What can be done, by its name, which is translated when it is shown.
DEEDS: Mapping[str, tuple[Deed, Mapping[str, float]]] = {
    gettext_noop("kill"): (Deed.KILL, {}),
    gettext_noop("freeze for 2 s"): (Deed.FREEZE, {"seconds": 2}),
    gettext_noop("freeze"): (Deed.FREEZE, {}),
    gettext_noop("thaw"): (Deed.THAW, {}),
    gettext_noop("slow down to 1/4"): (Deed.SLOW, {"factor": 4}),
    gettext_noop("full speed again"): (Deed.SLOW, {"factor": 1}),
    gettext_noop("pull its cable for 2 s"): (Deed.CUT_OFF, {"seconds": 2}),
    gettext_noop("pull its cable"): (Deed.CUT_OFF, {}),
    gettext_noop("plug its cable in"): (Deed.JOIN, {}),
    gettext_noop("fill its disk"): (Deed.FILL_DISK, {}),
    gettext_noop("free its disk"): (Deed.FREE_DISK, {}),
    gettext_noop("start it 5 s late next time"): (Deed.DELAY, {"seconds": 5}),
}


class Laboratory(widgets.VBox):
    """Does to the processes of a panel's training what the world does to them.

    Args:
      state: whose training it is.
    """

    def __init__(self, state: PanelState) -> None:
        self.state = state
        self._said = ""  # why the last deed could not be done
        wide = widgets.Layout(width="100%")
        self.scenario = widgets.Dropdown(layout=wide)
        self.task = widgets.Dropdown(layout=wide)
        self.deed = widgets.Dropdown(layout=wide)
        for field in (self.scenario, self.task, self.deed):
            field.add_class("mwl-field")
        self.button = widgets.Button(icon="bolt")
        for name in ("mwl-quiet", "mwl-danger"):
            self.button.add_class(name)
        self.title, self.question, self.story = (widgets.HTML() for _part in range(3))
        self.scenario.observe(self._choose, "value")
        self.button.on_click(lambda _button: self._do())
        row = widgets.GridBox(
            [self.scenario, self.task, self.deed, self.button],
            layout=widgets.Layout(grid_template_columns="1.4fr 1fr 1.4fr auto", grid_gap="0 14px"),
        )
        row.add_class("mwl-deeds")
        super().__init__([self.title, row, self.question, self.story])
        self.add_class("mwl-laboratory")

    def paint(self, *, steerable: bool) -> None:
        """Brings it up to date, in the present language.

        Args:
          steerable: whether a run is at work, and the kernel hears its buttons.
        """
        state = self.state
        trained = [task.name for task in state.tasks if task.trains]
        self.title.value = _heading(_("Fault laboratory"))
        self._fill(self.scenario, _("Scenario"), scenarios.names(), state.scenario)
        self.scenario.disabled = state.busy
        self._fill(self.task, _("Process"), {task.name: task.name for task in state.tasks})
        self._fill(self.deed, _("Deed"), {name: _(name) for name in DEEDS})
        self.task.disabled = self.deed.disabled = self.button.disabled = not steerable
        self.button.description = _("Do it")
        asked = scenarios.question(state.scenario, trained)
        self.question.value = _question(asked, self._said)
        if state.run:
            with state.run.lock:
                result = state.run.result
                picture = story_picture(result, [task.name for task in state.tasks]).svg()
                self.story.value = f'<div class="mwl-story">{picture}{lines(result.story)}</div>'

    def _fill(
        self, field: Any, name: str, words: dict[str, str], chosen: str | None = None
    ) -> None:
        """Gives a field its name and its choices; what was chosen stays, where it still can be."""
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
        deed, how = DEEDS[self.deed.value]
        try:
            self.state.harm(deed.value, self.task.value, **how)
            self._said = ""
        except LessonError as error:
            self._said = str(error)


def lines(story: Story) -> str:
    """The lines of a story, numbered as on its time line."""
    rows = "".join(
        f"<li><b>{time_of(line.seconds)} · {escape(line.task)}:</b> {escape(line.what)}</li>"
        for line in story
    )
    return f'<ol aria-live="polite">{rows}</ol>'


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
