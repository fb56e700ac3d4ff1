"""The sliders and buttons of an experiment: selections, whose choices have names in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.i18n import number


def count(value: float) -> str:
    """A number as it stands beside a slider: 1,024, 0.05."""
    return number(value, ",.7g")


def slider(
    name: str, values: Sequence[Any], value: Any, show: Callable[[Any], str] = count
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


def counter(name: str, most: int) -> widgets.IntSlider:
    """A slider over 0, 1, …, `most`, whose end may be moved; at 0 first."""
    made = widgets.IntSlider(
        max=most,
        value=0,
        continuous_update=True,
        readout=False,
        layout=widgets.Layout(width="auto"),
    )
    return _labelled(made, name, count)


def words(control: widgets.Widget) -> str:
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
