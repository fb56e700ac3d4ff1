"""A picture as a notebook shows it."""

from __future__ import annotations

import base64
import io
import re
import warnings
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# As an image, a drawing cannot take the colors of the page: it follows those of the system.
DARK_MODE_STYLE = (
    "<style>@media (prefers-color-scheme: dark) "
    "{ :root { filter: invert(0.9) hue-rotate(180deg) } }</style>"
)
SVG_START_TAG = re.compile(r"<svg\b[^>]*>")
METADATA = ("Creator", "Date", "Format", "Type")  # left out: a picture is the same every time


def image(svg: str, label: str) -> str:
    """A drawing as an HTML image, in which the browser's fonts draw the text; dark where the
    reader's system is.

    JupyterLab shows no SVG output of a notebook that it does not trust, as of one just cloned,
    and some viewers strip SVG of its styles and text
    (https://github.com/jupyter/nbviewer/issues/1037). An image they leave as it is.

    Args:
      svg: with its own size.
      label: what it shows, in words.
    """
    svg = SVG_START_TAG.sub(lambda tag: tag[0] + DARK_MODE_STYLE, svg, count=1)
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(label)}" src="data:image/svg+xml;base64,{data}">'


class SvgFigure:
    """A matplotlib figure that a notebook shows as SVG.

    Its text stays text, in the fonts of the browser, which has glyphs for every script;
    matplotlib's own fonts have none for Chinese or Korean.

    Args:
      figure: what to show.
      label: what it shows, in words, for those who cannot see it.
    """

    def __init__(self, figure: Figure, label: str = "") -> None:
        self.figure = figure
        self.label = label

    def svg(self) -> str:
        """The drawing, the same for the same figure."""
        import matplotlib

        buffer = io.StringIO()
        with (
            warnings.catch_warnings(),
            matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lesson"}),
        ):
            # matplotlib measures text with its own fonts; the browser draws it with others.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self.figure.savefig(buffer, format="svg", metadata=dict.fromkeys(METADATA))
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        return image(self.svg(), self.label)

    def __repr__(self) -> str:
        return f"SvgFigure({len(self.figure.axes)} axes)"
