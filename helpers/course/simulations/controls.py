"""The sliders and buttons of an experiment: selections, whose choices have names in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.i18n import number

# ipywidgets 8 gives the handle of a slider no name, so a screen reader would say "slider, 3" and
# nothing else. Widgets are drawn one after the other: it looks until every handle has its name.
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
    """A number as it stands beside a slider: 1,024, 0.05."""
    return number(value, ",.7g")


def slider(
    name: str, values: Sequence[Any], value: Any, show: Callable[[Any], str] = format_value
) -> widgets.SelectionSlider:
    """A slider over `values`, at `value` first.

    Its choices are words, written as the language in use writes numbers, and as far apart as one
    likes: a slider over numbers writes them as JavaScript does, and runs evenly. What is chosen
    stands in its label: the readout of ipywidgets 8 can be typed into, and takes no notice.

    Args:
      name: stands above it, with the unit.
      show: what a value looks like.
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
    """A slider over 0, 1, …, `most`, whose end may be moved; at 0 first."""
    made = widgets.IntSlider(
        max=most,
        value=0,
        continuous_update=True,
        readout=False,
        layout=widgets.Layout(width="auto"),
    )
    return _labelled(made, name, format_value)


def setting_text(control: widgets.Widget) -> str:
    """What a slider or a row of buttons is set to, as it says itself."""
    if isinstance(control, widgets.ToggleButtons):
        return f"{control.description}: {control.label}"
    return str(control.description)


def buttons(name: str, choices: Mapping[str, Any]) -> widgets.ToggleButtons:
    """One button for each of `choices`, by their words; the first is pressed."""
    return widgets.ToggleButtons(
        description=name, options=list(choices.items()), layout=widgets.Layout(width="auto")
    )


def _labelled(made: widgets.Widget, name: str, show: Callable[[Any], str]) -> widgets.Widget:
    """The slider with its name and its present value for a label."""

    def say(_change: Any = None) -> None:
        made.description = f"{name}: {show(made.value)}"

    say()
    made.observe(say, "value")
    return made
