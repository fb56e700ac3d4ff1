"""An experiment: move a slider, and see the result immediately as a chart and a text.

It shows a `Simulation` with core ipywidgets (7.7 and 8).
"""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
from IPython.display import display

from helpers.course.charts import image
from helpers.course.panel.widgets import close_tree, mime_bundle
from helpers.course.simulations.control_widgets import NAMES_FOR_HANDLES, widget
from helpers.course.simulations.simulation import Simulation, View
from helpers.i18n import join_clauses

# Colors follow the page (JupyterLab's variables) or the text (`currentColor`), so that they suit
# light and dark themes.
STYLE = """<style>
.mwl-experiment { --mwl-line: var(--jp-border-color2, rgba(128,128,128,.4));
  max-width: 804px; box-sizing: border-box; padding: 14px 20px 16px; margin: 4px 0;
  border: 1px solid var(--mwl-line); border-radius: 10px; overflow: visible;
  color: var(--jp-ui-font-color1, inherit); font-size: 13px; line-height: 1.45; }
.mwl-experiment .widget-html, .mwl-experiment .widget-html-content {
  height: auto; width: auto; margin: 0; color: inherit; line-height: 1.45; font-size: 13px;
  overflow: visible; flex: 1 1 auto; min-width: 0; }
.mwl-experiment :focus-visible { outline: 2px solid #2f7de1; outline-offset: 2px; }
.mwl-experiment-title { font-size: 15px; font-weight: 600; padding-bottom: 8px;
  border-bottom: 1px solid var(--mwl-line); }
.mwl-controls { padding: 10px 0 2px; overflow: visible; }
.mwl-controls > .widget-inline-hbox, .mwl-controls > .widget-toggle-buttons { display: flex;
  flex-flow: row wrap; height: auto; margin: 0; padding: 0; align-items: center;
  align-content: flex-start; overflow: visible; min-width: 0; }
.mwl-controls > * > .widget-label { flex: 0 0 100%; width: 100%; max-width: none; height: auto;
  margin: 0; padding: 0; text-align: left; white-space: normal; line-height: 18px;
  font-size: 12px; font-variant-numeric: tabular-nums; color: inherit; }
.mwl-controls .slider-container { display: flex; align-items: center; flex: 1 1 100px;
  height: 26px; min-width: 0; margin: 0 8px; }
.mwl-controls .slider-container > .slider { flex: 1 1 auto; min-width: 0; margin: 0; }
.mwl-controls .widget-toggle-buttons, .mwl-controls .jupyter-button { min-width: 0; }
.mwl-controls .widget-toggle-button { width: auto; height: 28px; line-height: 26px;
  margin: 2px 6px 2px 0; padding: 0 12px; font-size: 12px; border-radius: 6px; box-shadow: none;
  border: 1px solid var(--mwl-line); background: transparent; color: inherit; }
.mwl-controls .widget-toggle-button.mod-active { background: #2268c3; border-color: #2268c3;
  color: #fff; }
.mwl-experiment-picture { padding: 8px 0 4px; }
.mwl-experiment-sentence { padding: 8px 12px; border-radius: 6px; min-height: 3em;
  background: rgba(128,128,128,.10); font-variant-numeric: tabular-nums; }
</style>"""


class Experiment(widgets.VBox):
    """Sliders, a chart of the result for their values, and a sentence about it.

    Attributes:
      sliders: the sliders by name.
      view: the current view.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.sliders = {name: widget(one) for name, one in simulation.controls.items()}
        self._fit_steps()
        self._picture, self._sentence = widgets.HTML(), widgets.HTML()
        self.view = self._redraw()
        title = escape(simulation.title)
        heading = widgets.HTML(f'<div class="mwl-experiment-title">{title}</div>')
        super().__init__([self._head(), heading, self._controls(), self._picture, self._sentence])
        self.add_class("mwl-experiment")
        for one in self.sliders.values():
            one.observe(self._on_move, "value")

    def close(self) -> None:
        """Removes the experiment from the page."""
        close_tree(self)

    def settings(self) -> str:
        """The settings of the sliders as a text."""
        return self._simulation.settings_text(self._values())

    def __repr__(self) -> str:
        return f"Experiment({join_clauses([self._simulation.title, self.settings()])})"

    def _ipython_display_(self, **unused: Any) -> None:
        display(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, Any]:
        """The widget and, for viewers without widgets, a picture, the settings and the sentence."""
        poster = image(self.view.drawing.standalone_svg(), self.view.drawing.label)
        lines = [f"<b>{escape(self._simulation.title)}</b>", escape(self.settings())]
        html = f"<p>{'<br>'.join(lines)}</p>{poster}<p>{escape(self.view.sentence)}</p>"
        return mime_bundle(self, html=html)

    def _values(self) -> dict[str, Any]:
        return {name: one.value for name, one in self.sliders.items()}

    def _fit_steps(self) -> None:
        """Sets the ends of sliders that depend on other sliders."""
        for name, control in self._simulation.controls.items():
            if control.most:
                self.sliders[name].max = control.most(self._values())

    def _on_move(self, _change: Any) -> None:
        self._fit_steps()
        self.view = self._redraw()

    def _redraw(self) -> View:
        view = self._simulation.draw(**self._values())
        self._picture.value = f'<div class="mwl-experiment-picture">{view.drawing.svg()}</div>'
        self._sentence.value = (
            '<div class="mwl-experiment-sentence" role="status" aria-live="polite">'
            f"{escape(view.sentence)}</div>"
        )
        return view

    def _head(self) -> widgets.Widget:
        """The invisible parts: the style sheet, and the names of the sliders' handles."""
        return widgets.HTML(STYLE + NAMES_FOR_HANDLES)

    def _controls(self) -> widgets.Widget:
        """The sliders, two or three in a row, or fewer on a narrow page."""
        width = 300 if len(self.sliders) in {2, 4} else 210
        layout = widgets.Layout(
            display="grid",
            grid_template_columns=f"repeat(auto-fit, minmax({width}px, 1fr))",
            grid_gap="8px 28px",
        )
        grid = widgets.Box(list(self.sliders.values()), layout=layout)
        grid.add_class("mwl-controls")
        return grid
