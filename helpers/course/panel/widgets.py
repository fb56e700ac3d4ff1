"""The panel's own small widgets, built from core ipywidgets (7.7 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.course.panel.fragments import task_details, task_row
from helpers.course.panel.run import TaskStatus
from helpers.i18n import _, labeled

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


def close_tree(widget: widgets.Widget) -> None:
    """Closes a widget and all its parts, because ipywidgets keeps open widgets forever."""
    for child in getattr(widget, "children", ()):
        close_tree(child)
    parts = [getattr(widget, name, None) for name in ("layout", "style")]
    # The `close` of a subclass may do more, and call this function.
    widgets.DOMWidget.close(widget)
    for part in parts:
        if part is not None:
            part.close()


def mime_bundle(widget: Any, **others: str) -> dict[str, Any]:
    """The display data of a widget: the widget itself and, for viewers without widgets, `others`.

    Args:
      others: the other data, by the last part of their types, such as ``html``.
    """
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    texts = {f"text/{name}": content for name, content in others.items()}
    return {"text/plain": repr(widget), WIDGET_MIME: view, **texts}


def action_row(run: widgets.Button, stop: widgets.Button, *others: widgets.Widget) -> widgets.HBox:
    """The buttons that start and stop a run, and other widgets after them."""
    row = widgets.HBox([run, stop, *others])
    row.add_class("mwl-actions")
    run.add_class("mwl-run")
    stop.add_class("mwl-stop")
    stop.add_class("mwl-quiet")
    return row


class ToggleRow(widgets.VBox):
    """A choice of one value by a row of buttons, some of which may be disabled.

    `ToggleButtons`, in contrast, is enabled or disabled as a whole.
    """

    def __init__(self, values: Sequence[Any], choose: Callable[[Any], None]) -> None:
        self._choose = choose
        self._painting = False
        self.caption = widgets.Label()
        self.buttons = {value: widgets.ToggleButton() for value in values}
        for value, button in self.buttons.items():
            button.observe(self._observer(value), "value")
        row = widgets.HBox(list(self.buttons.values()))
        row.add_class("mwl-options")
        super().__init__([self.caption, row])
        self.add_class("mwl-field")

    def paint(
        self,
        name: str,
        chosen: Any,
        *,
        words: Mapping[Any, str],
        blocked: Mapping[Any, str | None],
        off: bool,
    ) -> None:
        """Shows the choice `chosen`.

        Args:
          name: the label of the choice.
          words: the labels of values, if they differ from the values.
          blocked: the reasons why values cannot be chosen.
          off: whether all buttons are disabled.
        """
        self._painting = True
        try:
            self.caption.value = name
            for value, button in self.buttons.items():
                reason = blocked.get(value)
                button.description = words.get(value, str(value))
                button.value = value == chosen
                button.disabled = off or bool(reason)
                said = _("{value}, chosen") if button.value else "{value}"
                button.tooltip = reason or labeled(name, said.format(value=button.description))
                (button.add_class if reason else button.remove_class)("mwl-blocked")
        finally:
            self._painting = False

    def _observer(self, value: Any) -> Callable[[Any], None]:
        def pressed(change: Any) -> None:
            if self._painting:
                return
            self._choose(value)  # a click on the chosen value chooses it again

        return pressed


class TaskRow(widgets.VBox):
    """One task: a bar, a Kill button, and its `TF_CONFIG` and log behind a Details button."""

    def __init__(self, name: str, number: int, kill: Callable[[str], None]) -> None:
        self.name = name
        self._number = number
        self._bar = widgets.HTML(layout=widgets.Layout(flex="1 1 auto", width="auto"))
        self.kill_button = widgets.Button()
        self.kill_button.on_click(lambda _button: kill(name))
        self.details_button = widgets.ToggleButton()
        self._details = widgets.HTML(layout=widgets.Layout(display="none"))
        self.kill_button.add_class("mwl-kill")
        self.kill_button.add_class("mwl-danger")
        for button in (self.kill_button, self.details_button):
            button.add_class("mwl-quiet")
        line = widgets.HBox([self._bar, self.kill_button, self.details_button])
        line.add_class("mwl-task")
        super().__init__([line, self._details])

    @property
    def unfolded(self) -> bool:
        """Whether the details are shown."""
        return bool(self.details_button.value)

    def paint(self, task: TaskStatus, total: int | None, *, alive: bool, log: str) -> None:
        """Shows the state of `task`, and `log`, the end of its log, if the details are shown."""
        self._bar.value = task_row(task, self._number, total)
        self.kill_button.description = _("Kill")
        self.kill_button.tooltip = _("End {task} with SIGKILL").format(task=task.label)
        self.kill_button.disabled = not alive
        self.details_button.description = _("Details")
        self.details_button.tooltip = _("TF_CONFIG and log of {task}").format(task=task.label)
        self._details.layout.display = "" if self.unfolded else "none"
        if self.unfolded:
            config = task.config.to_json() if task.config else ""
            self._details.value = task_details(task, config, log)
