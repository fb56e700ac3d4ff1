"""Charts that a notebook shows as SVG."""

from __future__ import annotations

import base64
import io
import re
import warnings
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# An image cannot use the colors of the page, so it follows the color scheme of the system.
DARK_MODE_STYLE = (
    "<style>@media (prefers-color-scheme: dark) "
    "{ :root { filter: invert(0.9) hue-rotate(180deg) } }</style>"
)
SVG_START_TAG = re.compile(r"<svg\b[^>]*>")
METADATA = ("Creator", "Date", "Format", "Type")  # omitted, so that equal figures yield equal files


def image(svg: str, label: str) -> str:
    """An SVG drawing as an HTML image, with the browser's fonts and the system's color scheme.

    JupyterLab shows no SVG output of an untrusted notebook, such as a newly cloned one. And some
    viewers strip styles and text from SVG (https://github.com/jupyter/nbviewer/issues/1037). Images
    are not affected.

    Args:
      svg: the drawing, which defines its size.
      label: the alternative text.
    """
    svg = SVG_START_TAG.sub(lambda tag: tag[0] + DARK_MODE_STYLE, svg, count=1)
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(label)}" src="data:image/svg+xml;base64,{data}">'


class SvgFigure:
    """A matplotlib figure that a notebook shows as SVG.

    Its text remains text in the browser's fonts, which have glyphs for every script. Matplotlib's
    own fonts have no glyphs for Chinese or Korean.

    Args:
      figure: the figure to show.
      label: the alternative text for screen readers.
    """

    def __init__(self, figure: Figure, label: str = "") -> None:
        self.figure = figure
        self.label = label

    def svg(self) -> str:
        """The drawing, which is identical for identical figures."""
        import matplotlib

        buffer = io.StringIO()
        with (
            warnings.catch_warnings(),
            matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lesson"}),
        ):
            # Matplotlib measures text with its own fonts, but the browser draws it with others.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            self.figure.savefig(buffer, format="svg", metadata=dict.fromkeys(METADATA))
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        return image(self.svg(), self.label)

    def __repr__(self) -> str:
        return f"SvgFigure({len(self.figure.axes)} axes)"
