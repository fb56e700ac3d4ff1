"""The controls of a simulation as data: a notebook and a web page draw them in their own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from helpers.i18n import number


@dataclass(frozen=True)
class Control:
    """A choice among named values.

    Attributes:
      name: the label, with the unit.
      values: the values that can be chosen, in order.
      texts: the text of each value, in the number format of the current language.
      value: the initial value.
      kind: a slider at any distances, a slider over 0, 1, …, whose end may change, or a row of
        buttons.
      most: the largest value for the values of the other controls, for a slider over steps.
    """

    name: str
    values: tuple[Any, ...]
    texts: tuple[str, ...]
    value: Any
    kind: Literal["slider", "steps", "buttons"] = "slider"
    most: Callable[[Mapping[str, Any]], int] | None = None

    def text(self, value: Any) -> str:
        """The text of one of `values`."""
        return self.texts[self.values.index(value)]


def format_value(value: float) -> str:
    """A number as shown next to a slider: 1,024, 0.05."""
    return number(value, ",.7g")


def slider(name: str, values: Sequence[Any], value: Any) -> Control:
    """A slider over numbers."""
    return Control(name, tuple(values), tuple(map(format_value, values)), value)


def step_slider(name: str, last: int, most: Callable[[Mapping[str, Any]], int]) -> Control:
    """A slider over 0, 1, …, initially at 0.

    Args:
      last: the largest value for any values of the other controls.
      most: the largest value for the given values.
    """
    values = tuple(range(last + 1))
    return Control(name, values, tuple(map(format_value, values)), 0, "steps", most)


def buttons(name: str, choices: Mapping[str, Any]) -> Control:
    """A button for each of `choices`, by their labels. The first one is selected."""
    values = tuple(choices.values())
    return Control(name, values, tuple(choices), values[0], "buttons")
