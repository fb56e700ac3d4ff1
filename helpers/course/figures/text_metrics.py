"""The width of a text, and its line breaks.

A drawing is created without a browser, so widths cannot be measured. They are estimated for DejaVu
Sans, a wide font that many Linux systems use as `system-ui`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

TEXT, SMALL = 12, 11  # the two font sizes of a figure in pixels
LINE = 1.25  # the line height relative to the font size
PLAIN, BOLD = 400, 600
BREAK_HYPHEN = "\u2010"  # the hyphen of a divided word, which tools/check_figures.py looks for

_IF_BOLD = 1.12  # the factor of the width of bold letters
_EMS = (  # widths of letters relative to the font size (others: `_ems`)
    (0.36, "ijlI.,:;'|·"),
    (0.42, "ft()[]/- r₀₁₂₃₄₅\u2010"),
    (0.64, "abcdeghknopqsuvxyzабвгдезийклнопрстухцчьэя0123456789"),
    (0.86, "Mм+=←−ы"),
    (1.02, "mwWфжшщю…"),
    (1.10, "ЖШЩЮ"),
)
_WIDTHS = {letter: ems for ems, letters in _EMS for letter in letters}
_NEVER_FIRST, _NEVER_LAST = "，。、；：？！）》」』%", "（《「『"  # of a line in Chinese

Piece = tuple[str, str]
"""A text without line breaks, and the space before it."""


def text_width(content: str, size: float = TEXT, weight: int = PLAIN) -> float:
    """The approximate width of a text in pixels."""
    return sum(map(_ems, content)) * size * (_IF_BOLD if weight >= BOLD else 1)


@lru_cache(maxsize=4096)
def wrap(content: str, room: float, size: float = TEXT, weight: int = PLAIN) -> tuple[str, ...]:
    """A text in as few lines of `room` pixels as possible, of similar lengths.

    Lines break between words and between the characters of Chinese. A word that is wider than the
    room is divided after its hyphens, or else at the end of the room.
    """
    scale = text_width("0", size, weight) / _ems("0")  # pixels per em
    ems = room / scale
    pieces = [
        (" " if number and not k else "", part)
        for number, word in enumerate(content.split())
        for k, part in enumerate(_parts(word, ems))
    ]
    lines = _fill(pieces, ems)
    while True:  # narrower, while the number of lines is the same
        narrower = _fill(pieces, max(map(_width, lines), default=0) - 0.1)
        if narrower == lines or len(narrower) > len(lines):
            return tuple(lines)
        lines = narrower


def _fill(pieces: Sequence[Piece], ems: float) -> list[str]:
    """Fills each line as far as possible."""
    lines: list[str] = []
    for space, piece in pieces:
        if lines and _width(lines[-1] + space + piece) <= ems:
            lines[-1] += space + piece
        else:
            lines.append(piece)
    return lines


def _parts(word: str, ems: float) -> list[str]:
    """The parts into which a word may or must be divided."""
    pieces = _characters(word)
    if len(pieces) == 1 and _width(word) <= ems:
        return pieces
    if len(pieces) == 1:
        pieces = re.findall(r"-*[^-]+-*|-+$", word)
    if len(pieces) > 1:
        return [part for piece in pieces for part in _parts(piece, ems)]
    fits = next(
        (n for n in range(len(word) - 1, 2, -1) if _width(word[:n] + BREAK_HYPHEN) <= ems), 0
    )
    return [word[:fits] + BREAK_HYPHEN, *_parts(word[fits:], ems)] if fits else [word]


def _characters(word: str) -> list[str]:
    """Chinese characters with adjacent punctuation, or other text in one piece."""
    parts: list[str] = []
    for letter in word:
        before = parts[-1][-1] if parts else ""
        divides = bool(before) and (_is_chinese(letter) or _is_chinese(before))
        if parts and (not divides or letter in _NEVER_FIRST or before in _NEVER_LAST):
            parts[-1] += letter
        else:
            parts.append(letter)
    return parts


def _width(content: str) -> float:
    return sum(map(_ems, content))


def _ems(letter: str) -> float:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    return 0.82 if letter.isupper() else 0.7


def _is_chinese(letter: str) -> bool:
    """Whether a line may break next to it. Korean is as wide, but has spaces between words."""
    return unicodedata.east_asian_width(letter) in "WF" and not "\uac00" <= letter <= "\ud7a3"
