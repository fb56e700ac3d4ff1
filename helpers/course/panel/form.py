"""The panel's upper part: the choices, linked to a `PanelState`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.course.panel.fragments import choice_notes
from helpers.course.panel.state import PanelState
from helpers.course.panel.widgets import ToggleRow
from helpers.errors import unknown_choice
from helpers.i18n import _
from helpers.strategies import COLLECTIVES, STRATEGIES
from helpers.system.machine import cores

BATCH_SIZES = (16, 32, 64, 128, 256, 512, 1024)

# The fields of a form, in the order of its rows, with their widths.
ROWS = (
    {"strategy": "1fr", "workers": "1fr", "collective": "1fr"},
    {
        "batch_size": "1fr",
        "learning_rate": "0.8fr",
        "epochs": "0.6fr",
        "steps": "0.6fr",
        "evaluator": "minmax(max-content, 1.6fr)",  # two texts of any length
    },
)
CONTROLS = tuple(name for row in ROWS for name in row)
IN_ONE_ROW = 3  # the maximum number of fields that remain in one row


class ChoiceForm(widgets.VBox):
    """A field for each choice. Choices that this machine cannot run are disabled, with a reason.

    Args:
      state: the panel state that has the choices.
      repaint: called after a choice.
      controls: the fields of `CONTROLS` to show (default: all). A training run uses either epochs
        or steps, so the form shows only the one in use at its creation.

    Raises:
      ConfigError: a name in `controls` is unknown.
    """

    def __init__(
        self,
        state: PanelState,
        repaint: Callable[[], None],
        controls: Sequence[str] | None = None,
    ) -> None:
        self.choices = state
        self._controls = _visible_controls(state, controls)
        self._repaint = repaint
        self._blocked: dict[str, dict[Any, str | None]] = {}
        self._notes = widgets.HTML()
        self.fields = self._make_fields()
        self.options = self._make_options()
        super().__init__([*self._grids(), self._notes])

    def paint(self) -> None:
        """Shows the current choices, in the current language, disabled during a run."""
        state = self.choices
        if not state.busy:  # during a run, its own memory would count as missing
            self._blocked = {
                name: {value: state.unavailable_reason(name, value) for value in options.buttons}
                for name, options in self.options.items()
            }
        labels, words = (
            _labels(),
            {"evaluator": {False: _("after training"), True: _("in parallel")}},
        )
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
        field.layout.display = "none" if value is None else ""  # hides steps if epochs are in use
        if value is not None and field.value != value:
            if name == "batch_size" and value not in field.options:
                field.options = sorted({*BATCH_SIZES, value})
            field.value = value

    def _make_fields(self) -> dict[str, Any]:
        makers: dict[str, Callable[..., Any]] = {
            "strategy": partial(widgets.Dropdown, options=STRATEGIES),
            "batch_size": partial(widgets.Dropdown, options=BATCH_SIZES),
            "learning_rate": partial(
                widgets.BoundedFloatText, **_bounds(PanelState.learning_rate), step=0.005
            ),
            "epochs": partial(widgets.BoundedIntText, **_bounds(PanelState.epochs)),
            "steps": partial(widgets.BoundedIntText, **_bounds(PanelState.steps), step=50),
        }
        offered = [name for name in self._controls if name in makers]
        fields = {name: makers[name](layout=widgets.Layout(width="100%")) for name in offered}
        for name, field in fields.items():
            self._show(name, field)
            field.observe(self._observer(name), "value")
            field.add_class("mwl-field")
        return fields

    def _make_options(self) -> dict[str, ToggleRow]:
        most = max(4, min(8, cores()))
        values: dict[str, Sequence[Any]] = {
            "workers": range(1, most + 1),
            "collective": COLLECTIVES,
            "evaluator": (False, True),
        }
        offered = [name for name in self._controls if name in values]
        return {name: ToggleRow(values[name], self._chooser(name)) for name in offered}

    def _grids(self) -> list[Any]:
        widths = {name: width for row in ROWS for name, width in row.items()}
        rows = [[name for name in self._controls if name in row] for row in ROWS]
        if len(self._controls) <= IN_ONE_ROW:
            rows = [self._controls]
        shown = {**self.fields, **self.options}
        return [
            _grid([shown[name] for name in row], " ".join(widths[name] for name in row))
            for row in rows
            if row
        ]

    def _observer(self, name: str) -> Callable[[Any], None]:
        choose = self._chooser(name)
        return lambda change: choose(change["new"])

    def _chooser(self, name: str) -> Callable[[Any], None]:
        def choose(value: Any) -> None:
            if not self.choices.busy:
                self.choices.update(**{name: value})
            self._repaint()

        return choose


def _visible_controls(state: PanelState, controls: Sequence[str] | None) -> list[str]:
    """The requested fields that a form shows, in its order."""
    allowed = [name for name in CONTROLS if name in state.names]
    asked = {*(allowed if controls is None else controls)}
    for name in controls or ():
        if name not in allowed:
            raise unknown_choice("controls", name, allowed)
    if asked & {"epochs", "steps"}:
        asked = asked - {"epochs", "steps"} | {"steps" if state.steps else "epochs"}
    return [name for name in CONTROLS if name in asked]


def _bounds(trait: Any) -> dict[str, Any]:
    """The bounds of a choice, because the default bounds of a field would clamp its value."""
    return {"min": trait.min, "max": trait.max}


def _grid(children: list[Any], columns: str) -> Any:
    """A row of fields, which the style sheet breaks on a narrow page."""
    layout = widgets.Layout(
        display="grid", grid_template_columns=columns, grid_gap="8px 24px", width="100%"
    )
    grid = widgets.Box(children, layout=layout)
    grid.add_class("mwl-choices")
    return grid


def _labels() -> dict[str, str]:
    """The label of each field."""
    return {
        "strategy": _("Strategy"),
        "workers": _("Workers"),
        "collective": _("Collective"),
        "batch_size": _("Batch size per worker"),
        "learning_rate": _("Learning rate"),
        "epochs": _("Epochs"),
        "steps": _("Steps"),
        "evaluator": _("Evaluation"),
    }
