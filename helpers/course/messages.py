"""What a cell prints for its reader: the same code in every notebook, the words of its language.

`python -m tools.l10n update` takes the messages from the cells of the English notebooks and files
them with those of this package.
"""

from __future__ import annotations

import string
import unicodedata
from numbers import Real
from typing import Any

from helpers.i18n import _, join_clauses, join_items, number


def print_tr(message: str, /, **values: object) -> None:
    """Prints a message in the language in use.

    Args:
      message: with the names of values in braces, and formats as `str.format` takes them:
        ``print_tr("step {step}: loss {loss:.3f}", step=100, loss=0.25)``. Numbers are written as
        the language writes them; a format of a list holds for each of its items.
      **values: what the braces name.
    """
    print(tr(message, **values))


def tr(message: str, /, **values: object) -> str:
    """What `print_tr` prints: for the axis of a chart, or for a value of another message."""
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
    """Text that was filled up with spaces on its left: a Chinese character is as wide as two."""
    words = text.lstrip(" ")
    wide = sum(unicodedata.east_asian_width(letter) in "FW" for letter in words)
    return words.rjust(len(text) - wide)


_FORMATTER = _Formatter()
