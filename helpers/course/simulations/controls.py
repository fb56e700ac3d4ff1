"""The sliders and buttons of an experiment, which are selections of named choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.i18n import labeled, number

# In ipywidgets 8, the handle of a slider has no name, so a screen reader would only read "slider,
# 3". Widgets are drawn one by one, so the script repeats until every handle has its name.
NAMES_FOR_HANDLES = (
    '<img alt="" hidden src="data:image/gif;base64,'
    'R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7" onload="'
    "(function name(image, left) {"
    "const root = image.closest('.mwl-experiment');"
    "const rows = root ? [...root.querySelectorAll('.widget-slider')] : [];"
    "const ready = rows.map(row => {"
    "const label = row.querySelector('.widget-label'), handle = row.querySelector('[role=slider]');"
    "if (!label || !handle) return false;"
    "label.id = label.id || 'mwl-' + Math.random().toString(36).slice(2);"
    "handle.setAttribute('aria-labelledby', label.id); return true; });"
    "if (left &amp;&amp; !(ready.length &amp;&amp; ready.every(Boolean)))"
    "setTimeout(() => name(image, left - 1), 100);"
    '})(this, 50)">'
)


def format_value(value: float) -> str:
    """A number as shown next to a slider: 1,024, 0.05."""
    return number(value, ",.7g")


def slider(
    name: str, values: Sequence[Any], value: Any, show: Callable[[Any], str] = format_value
) -> widgets.SelectionSlider:
    """A slider over `values`, at `value` first.

    Its choices are texts in the number format of the current language, at any distances. A slider
    over numbers would use JavaScript's format and equal distances. The label shows the chosen
    value, because the readout of ipywidgets 8 is editable and ignores the edits.

    Args:
      name: the label above the slider, with the unit.
      show: returns the text of a value.
    """
    made = widgets.SelectionSlider(
        options=[(show(choice), choice) for choice in values],
        value=value,
        continuous_update=True,
        readout=False,
        layout=widgets.Layout(width="auto"),
    )

    return _labelled(made, name, show)


def step_slider(name: str, most: int) -> widgets.IntSlider:
    """A slider over 0, 1, …, `most`, initially at 0, whose end may be changed."""
    made = widgets.IntSlider(
        max=most,
        value=0,
        continuous_update=True,
        readout=False,
        layout=widgets.Layout(width="auto"),
    )
    return _labelled(made, name, format_value)


def setting_text(control: widgets.Widget) -> str:
    """The setting of a slider or a row of buttons, as shown by its label."""
    if isinstance(control, widgets.ToggleButtons):
        return labeled(control.description, control.label)
    return str(control.description)


def buttons(name: str, choices: Mapping[str, Any]) -> widgets.ToggleButtons:
    """A button for each of `choices`, by their labels. The first one is selected."""
    return widgets.ToggleButtons(
        description=name, options=list(choices.items()), layout=widgets.Layout(width="auto")
    )


def _labelled(made: widgets.Widget, name: str, show: Callable[[Any], str]) -> widgets.Widget:
    """The slider, labelled with its name and its current value."""

    def say(_change: Any = None) -> None:
        made.description = labeled(name, show(made.value))

    say()
    made.observe(say, "value")
    return made
