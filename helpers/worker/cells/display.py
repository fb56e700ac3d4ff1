"""The MIME bundles of values, as IPython's `display` shows them in a notebook."""

from __future__ import annotations

import base64
import io
import json
import pprint
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from helpers.i18n import _, ngettext, number

TEXT = "text/plain"
PNG = "image/png"
METHODS = {  # https://ipython.readthedocs.io/en/stable/config/integrating.html
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_latex_": "text/latex",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": PNG,
    "_repr_jpeg_": "image/jpeg",
    "_repr_json_": "application/json",
}
MAX_TEXT = 100_000  # characters of one value
MAX_BYTES = 20_000_000  # of one format
LINE = 79
CONTAINERS = (dict, list, tuple, set, frozenset)

Bundle = tuple[dict[str, Any], dict[str, Any]]
"""Data and metadata, both by MIME type."""

Show = Callable[[dict[str, Any], dict[str, Any]], None]


class Display:
    """Shows values and figures in the notebook, once `show` is set."""

    show: Show | None = None

    def __call__(self, *values: Any) -> None:
        """Shows values, like IPython's `display`."""
        for value in values:
            self._show(*mime_bundle(value))

    def figures(self) -> None:
        """Shows the open figures of pyplot, and closes them."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for figure_number in pyplot.get_fignums():
            figure = pyplot.figure(figure_number)
            pyplot.close(figure)
            self._show(*_figure_bundle(figure))

    def _show(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        if self.show is not None:
            self.show(data, metadata)


display = Display()


def mime_bundle(value: Any) -> Bundle:
    """The formats of a value. A format whose method fails is omitted.

    Raises: an exception of its `__repr__`.
    """
    if _is_figure(value):
        return _figure_bundle(value)
    data: dict[str, Any] = {TEXT: _text(value)}
    metadata: dict[str, Any] = {}
    if isinstance(value, type):
        return data, metadata
    for method, mime_type in METHODS.items():
        with suppress(Exception):
            if (found := _call(value, method)) is not None:
                if isinstance(found, tuple):
                    found, metadata[mime_type] = found
                data[mime_type] = found
    with suppress(Exception):
        if (found := _call(value, "_repr_mimebundle_")) is not None:
            new, about = found if isinstance(found, tuple) else (found, {})
            data |= new
            metadata |= about
    shown = {name: found for name, one in data.items() if (found := _sendable(one)) is not None}
    return shown, {name: one for name, one in metadata.items() if _sendable(one) is not None}


def is_rich(data: dict[str, Any]) -> bool:
    """Whether a bundle has more than text."""
    return data.keys() != {TEXT}


def _call(value: Any, method: str) -> Any:
    # An object that answers to every name, such as a mock, has this one too.
    if hasattr(value, "_ipython_canary_method_should_not_exist_"):
        return None
    function = getattr(value, method, None)
    return function() if callable(function) else None


def _text(value: Any) -> str:
    text = repr(value)
    if type(value) in CONTAINERS and LINE < len(text) <= MAX_TEXT:
        text = pprint.pformat(value, width=LINE, sort_dicts=False)
    return limited(text)


def limited(text: str) -> str:
    """The text, or its beginning and the number of omitted characters."""
    if len(text) <= MAX_TEXT:
        return text
    count = len(text) - MAX_TEXT
    note = ngettext("(… {count} more character)", "(… {count} more characters)", count)
    return f"{text[:MAX_TEXT]} {note.format(count=number(count, ',d'))}"


def _sendable(value: Any) -> Any:
    """The value for JSON, or None if it is none or is too large."""
    if isinstance(value, (bytes, bytearray)):
        value = base64.b64encode(value).decode()
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return value if len(text) <= MAX_BYTES else None


def _is_figure(value: Any) -> bool:
    figure = sys.modules.get("matplotlib.figure")
    return figure is not None and isinstance(value, figure.Figure)


def _figure_bundle(figure: Any) -> Bundle:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    width, height = (round(size * figure.dpi) for size in figure.get_size_inches())
    text = _("Figure of {width} × {height} pixels").format(width=width, height=height)
    return {TEXT: text, PNG: base64.b64encode(file.getvalue()).decode()}, {}
