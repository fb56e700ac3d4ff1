"""The panel's upper part: the choices, linked to a `PanelState`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.i18n import _
from helpers.panel.html import choice_notes
from helpers.panel.state import PanelState
from helpers.panel.widgets import Options
from helpers.strategies import COLLECTIVES, STRATEGIES
from helpers.system.machine import cores

BATCH_SIZES = (16, 32, 64, 128, 256, 512, 1024)

# The widths of columns; the last one has two phrases in it, of any length.
EVEN, UNEVEN = "1fr 1fr 1fr", "1fr 0.8fr 0.6fr minmax(max-content, 1.6fr)"


class ChoiceForm(widgets.VBox):
    """A field for each choice; what this machine cannot run is disabled, with the reason below.

    Args:
      state: whose choices they are.
      repaint: called when a choice was made.
    """

    def __init__(self, state: PanelState, repaint: Callable[[], None]) -> None:
        self.choices = state
        self._repaint = repaint
        self._blocked: dict[str, dict[Any, str | None]] = {}
        self._notes = widgets.HTML()
        self.fields = self._make_fields()
        most = max(4, min(8, cores()))
        self.options = {
            "workers": Options(range(1, most + 1), self._chooser("workers")),
            "collective": Options(COLLECTIVES, self._chooser("collective")),
            "evaluator": Options((False, True), self._chooser("evaluator")),
        }
        super().__init__([*self._grids(), self._notes])

    def paint(self) -> None:
        """Shows the present choices, in the present language; none can be made during a run."""
        state = self.choices
        if not state.busy:  # during a run its own memory would count as missing
            self._blocked = {
                name: {value: state.why_not(name, value) for value in options.buttons}
                for name, options in self.options.items()
            }
        labels, words = _labels(), {"evaluator": {False: _("after training"), True: _("beside it")}}
        for name, field in self.fields.items():
            field.description = labels[name]
            field.disabled = state.busy
            self._show(name, field)
        for name, options in self.options.items():
            blocked = self._blocked.get(name, {})
            options.paint(
                labels[name],
                getattr(state, name),
                words=words.get(name, {}),
                blocked=blocked,
                off=state.busy,
            )
        reasons = [why for values in self._blocked.values() for why in values.values() if why]
        self._notes.value = choice_notes([*reasons, *state.notes()])

    def _show(self, name: str, field: Any) -> None:
        value = getattr(self.choices, name)
        if field.value != value:
            if name == "batch_size" and value not in field.options:
                field.options = sorted({*BATCH_SIZES, value})
            field.value = value

    def _make_fields(self) -> dict[str, Any]:
        wide = widgets.Layout(width="100%")
        fields = {
            "strategy": widgets.Dropdown(options=STRATEGIES, layout=wide),
            "batch_size": widgets.Dropdown(options=BATCH_SIZES, layout=wide),
            "learning_rate": widgets.BoundedFloatText(min=1e-6, max=10, step=0.005, layout=wide),
            "epochs": widgets.BoundedIntText(min=1, max=100, layout=wide),
        }
        for name, field in fields.items():
            self._show(name, field)
            field.observe(self._observer(name), "value")
            field.add_class("mwl-field")
        return fields

    def _grids(self) -> list[Any]:
        fields, options = self.fields, self.options
        upper = [fields["strategy"], options["workers"], options["collective"]]
        lower = [fields["batch_size"], fields["learning_rate"], fields["epochs"]]
        return [_grid(upper, EVEN), _grid([*lower, options["evaluator"]], UNEVEN)]

    def _observer(self, name: str) -> Callable[[Any], None]:
        choose = self._chooser(name)
        return lambda change: choose(change["new"])

    def _chooser(self, name: str) -> Callable[[Any], None]:
        def choose(value: Any) -> None:
            if not self.choices.busy:
                self.choices.choose(**{name: value})
            self._repaint()

        return choose


def _grid(children: list[Any], columns: str) -> Any:
    """A row of fields; the style sheet breaks it on a narrow page."""
    layout = widgets.Layout(
        display="grid", grid_template_columns=columns, grid_gap="8px 24px", width="100%"
    )
    grid = widgets.Box(children, layout=layout)
    grid.add_class("mwl-choices")
    return grid


def _labels() -> dict[str, str]:
    """What stands over each field."""
    return {
        "strategy": _("Strategy"),
        "workers": _("Workers"),
        "collective": _("Collective"),
        "batch_size": _("Batch size per worker"),
        "learning_rate": _("Learning rate"),
        "epochs": _("Epochs"),
        "evaluator": _("Evaluation"),
    }
