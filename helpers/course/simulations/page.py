"""What a web page needs to show a simulation: plain data in, plain data out.

A page passes the positions of its inputs, so it does not convert values. The same functions run
when the site is built and in the browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypedDict

from helpers.course.simulations import SIMULATIONS
from helpers.course.simulations.simulation import Simulation
from helpers.i18n import language


class Result(TypedDict):
    """A simulation for one position of each control.

    Attributes:
      svg: the drawing.
      sentence: the text about it.
      last: the last position of each control, which another control may change.
    """

    svg: str
    sentence: str
    last: list[int]


def simulation(name: str) -> Simulation:
    """The simulation of a public name, in the current language."""
    return _simulation(name, language())


def first_positions(name: str) -> list[int]:
    """The initial position of each control."""
    return [one.values.index(one.value) for one in simulation(name).controls.values()]


def result(name: str, positions: Sequence[int]) -> Result:
    """The drawing and the text for the position of each control, counted from 0."""
    one = simulation(name)
    values: dict[str, Any] = {
        key: control.values[position]
        for (key, control), position in zip(one.controls.items(), positions, strict=True)
    }
    last = []
    for key, control in one.controls.items():
        last.append(control.most(values) if control.most else len(control.values) - 1)
        if control.most:
            values[key] = min(values[key], last[-1])
    view = one.draw(**values)
    return {"svg": view.drawing.svg(), "sentence": view.sentence, "last": last}


@cache
def _simulation(name: str, _language: str) -> Simulation:
    return SIMULATIONS[name]()
