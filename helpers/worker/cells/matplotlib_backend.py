"""The backend of matplotlib in a worker, which shows figures in the notebook."""

from __future__ import annotations

from typing import Any

from matplotlib.backend_bases import FigureManagerBase as FigureManager
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

from helpers.worker.cells.display import display

__all__ = ["FigureCanvas", "FigureManager", "show"]


def show(*_arguments: Any, **_options: Any) -> None:
    """Shows the open figures, as `pyplot.show`."""
    display.figures()
