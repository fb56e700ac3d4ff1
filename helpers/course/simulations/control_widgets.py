"""The sliders and buttons of an experiment, which are selections of named choices."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.course.simulations.controls import Control
from helpers.i18n import labeled

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


def widget(control: Control) -> widgets.Widget:
    """The slider or the row of buttons for a control, at its initial value.

    The choices of a slider are texts in the number format of the current language, at any
    distances. A slider over numbers would use JavaScript's format and equal distances. The label
    shows the chosen value, because the readout of ipywidgets 8 is editable and ignores the edits.
    """
    layout = widgets.Layout(width="auto")
    options = list(zip(control.texts, control.values, strict=True))
    if control.kind == "buttons":
        return widgets.ToggleButtons(description=control.name, options=options, layout=layout)
    style = {"continuous_update": True, "readout": False, "layout": layout}
    if control.kind == "steps":
        made = widgets.IntSlider(max=control.values[-1], value=control.value, **style)
    else:
        made = widgets.SelectionSlider(options=options, value=control.value, **style)

    def say(_change: Any = None) -> None:
        made.description = labeled(control.name, control.text(made.value))

    say()
    made.observe(say, "value")
    return made
