"""The messages of cells: the same code in every notebook, with text in the notebook's language.

`python -m tools.l10n update` extracts the messages from the cells of the English notebooks and adds
them to the messages of this package.
"""

from __future__ import annotations

import string
import unicodedata
from numbers import Real
from typing import Any

from helpers.i18n import _, join_clauses, join_items, number


def print_tr(message: str, /, **values: object) -> None:
    """Prints a message in the current language.

    Args:
      message: contains the names of values in braces, with formats as in `str.format`:
        ``print_tr("step {step}: loss {loss:.3f}", step=100, loss=0.25)``. Numbers use the notation
        of the language. The format of a list applies to each of its items.
      **values: the values named in braces.
    """
    print(tr(message, **values))


def tr(message: str, /, **values: object) -> str:
    """The text that `print_tr` prints, for the axis of a chart or a value of another message."""
    return _FORMATTER.vformat(_(message), (), values)


class _Formatter(string.Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, list | tuple):
            items = [self.format_field(item, spec) for item in value]
            return (join_clauses if any("," in item for item in items) else join_items)(items)
        if isinstance(value, Real) and not isinstance(value, bool):
            return number(value, spec)  # type: ignore[arg-type]  # NumPy's numbers too
        return _as_wide(format(value, spec))


def _as_wide(text: str) -> str:
    """Text padded with spaces on its left, where a Chinese character has the width of two."""
    words = text.lstrip(" ")
    wide = sum(unicodedata.east_asian_width(letter) in "FW" for letter in words)
    return words.rjust(len(text) - wide)


_FORMATTER = _Formatter()
