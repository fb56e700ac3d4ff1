"""A simulation: from the values of its controls to a drawing and a text, without a notebook.

A notebook shows it with widgets (`experiment`), and a page of the site with the browser's inputs
(`page`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from helpers.course.charts.svg import Drawing
from helpers.course.simulations.controls import Control
from helpers.i18n import join_clauses, labeled


class View(NamedTuple):
    """The result for the values of the controls, as a drawing and as a text."""

    drawing: Drawing
    sentence: str


class Simulation(NamedTuple):
    """What an experiment shows.

    Attributes:
      title: the subject of the experiment.
      draw: receives the value of each control by its name, and must return within 50 ms.
      controls: by name.
    """

    title: str
    draw: Callable[..., View]
    controls: Mapping[str, Control]

    @property
    def initial(self) -> dict[str, Any]:
        """The initial value of each control."""
        return {name: control.value for name, control in self.controls.items()}

    def settings_text(self, values: Mapping[str, Any]) -> str:
        """The values of all controls as a text."""
        return join_clauses(
            labeled(control.name, control.text(values[name]))
            for name, control in self.controls.items()
        )
