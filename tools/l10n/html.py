"""The positions of text in an HTML block."""

from __future__ import annotations

import re
from collections.abc import Iterator

TAG = re.compile(
    r"<!--.*?-->|<(script|style|pre)\b.*?</\1\s*>|</?([A-Za-z][\w:-]*)(?:\s[^<>]*|/)?>",
    re.DOTALL | re.IGNORECASE,
)
INLINE = frozenset(
    ["a", "abbr", "b", "br", "code", "del", "em", "i", "img", "ins", "kbd", "mark", "q", "s",
     "samp", "small", "span", "strong", "sub", "sup", "u", "var"]
)  # fmt: skip
SPOKEN = re.compile(r"(?:\balt|\btitle|\baria-label)\s*=\s*(\"[^\"]*\"|'[^']*')", re.IGNORECASE)
CODE = re.compile(r"<(code|kbd|samp)\b[^>]*>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)


def texts(html: str) -> Iterator[tuple[int, int]]:
    """The spans of text between block-level tags, without surrounding space."""
    start = 0
    for tag in TAG.finditer(html):
        if (tag[2] or "").lower() not in INLINE:
            yield _trimmed(html, start, tag.start())
            start = tag.end()
    yield _trimmed(html, start, len(html))


def is_element(text: str) -> bool:
    """Whether a text is a single element that forms a block, such as an SVG picture."""
    tag = TAG.match(text)
    if not tag or (tag[2] or "").lower() in INLINE:
        return False
    return tag.end() == len(text) or text.endswith(f"</{tag[2]}>")


def tags(html: str) -> list[str]:
    """The tags of a text as written, without the values that are translated."""
    return [SPOKEN.sub(_silenced, tag[0]) for tag in TAG.finditer(html)]


def code(html: str) -> list[str]:
    """The contents of elements that show code."""
    return [element[2] for element in CODE.finditer(html)]


def _silenced(attribute: re.Match[str]) -> str:
    return attribute[0].replace(attribute[1], '""')


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    return start, max(start, start + len(inner.strip()))
