"""Splits a Markdown cell into messages, and replaces them by their translations.

A message is a heading, a paragraph, a list item, a table cell or a text of an HTML block. Code
fences, display math and texts without words are not messages. The parser returns the lines of each
block. Every byte outside of translated messages is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tools.l10n import html
from tools.lessons.project import ToolError


@dataclass(frozen=True)
class Message:
    """One piece of prose in a cell.

    Attributes:
      text: the msgid, which is one line except for hard line breaks.
      kind: ``heading``, ``paragraph``, ``list item``, ``table cell`` or ``HTML text``.
      start, end: its range in the cell's source.
      indent: the quote marks and spaces at the start of its further lines.
    """

    text: str
    kind: str
    start: int
    end: int
    indent: str


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, double_inline=True).use(amsmath_plugin)
    display_math = next(r.fn for r in parser.block.ruler.__rules__ if r.name == "math_block")

    def rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        """Display math also ends a paragraph, as it does in Jupyter."""
        line, tokens = state.line, len(state.tokens)
        found = display_math(state, start, end, silent)
        if silent:
            state.line = line
            del state.tokens[tokens:]
        return found

    parser.block.ruler.at("math_block", rule, {"alt": ["paragraph", "blockquote", "list"]})
    return parser


PARSER = _parser()
NOT_PROSE = re.compile(
    r"(`+)[^`].*?\1|\$+[^$]+\$+|<[^>]+>|https?://\S+|\]\([^)]*\)|\{[^{}\s]*\}|&#?\w+;", re.DOTALL
)
LINE_END = re.compile(r"[ \t]*\n[ \t]*")
PIPE = re.compile(r"(?<!\\)\|")
CONTAINER = re.compile(r"(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t]))*")


@lru_cache(maxsize=4096)
def split(source: str) -> tuple[Message, ...]:
    """The messages of a Markdown cell, in order."""
    return tuple(_messages(source))


def translate(source: str, lookup: Callable[[str], str | None]) -> str:
    """The cell with messages replaced by their translations from `lookup`. None keeps a message."""
    found = [(message, lookup(message.text)) for message in split(source)]
    for message, text in reversed(found):
        if text is not None and text != message.text:
            lines = text.replace("\n", "\n" + message.indent)
            source = source[: message.start] + lines + source[message.end :]
    return source


def is_prose(text: str) -> bool:
    """Whether a text has a word that is not code, math, a tag or an address."""
    return any(char.isalpha() for char in NOT_PROSE.sub(" ", text))


def _messages(source: str) -> Iterator[Message]:
    place = _SourceSpans(source)
    parents: list[Token] = []
    for token in PARSER.parse(source):
        parent = parents[-1].type.removesuffix("_open") if parents else ""
        if token.type == "tr_open":
            yield from place.table_cells(token)
        elif parent in ("th", "td"):
            pass  # its row has yielded it
        elif token.type == "html_block" or (
            token.type == "inline" and html.is_element(token.content)
        ):
            for start, end in html.texts(token.content):
                text = " ".join(token.content[start:end].split())
                if is_prose(text) or is_prose(" ".join(html.SPOKEN.findall(text))):
                    yield place.message(token, text, "HTML text", start, end)
        elif token.type == "inline" and is_prose(token.content):
            kind = "list item" if parents[-2:-1] and parents[-2].tag == "li" else parent
            text = LINE_END.sub(_line_end, token.content)
            yield place.message(token, text, kind, 0, len(token.content))
        if token.nesting == 1:
            parents.append(token)
        elif token.nesting == -1:
            parents.pop()


def _line_end(match: re.Match[str]) -> str:
    """A soft line break becomes a space, and a hard one is kept."""
    if match[0].startswith("  "):
        return "  \n"
    return "\n" if match.string[match.start() - 1] == "\\" else " "


class _SourceSpans:
    """Finds the source positions of parsed text, from which quote and list marks were removed."""

    def __init__(self, source: str) -> None:
        self._lines = re.split(r"\r\n?|\n", source)
        ends = [match.end() for match in re.finditer(r"\r\n?|\n", source)]
        self._starts = [0, *ends]

    def message(self, token: Token, text: str, kind: str, start: int, end: int) -> Message:
        """The message that is `token.content[start:end]`."""
        first, column = self._locate(token, start)
        last, end_column = self._locate(token, end)
        marks = "" if kind == "HTML text" else self._lines[first][:column]
        indent = re.sub(r"[^>\s]", " ", marks)
        return Message(
            text, kind, self._starts[first] + column, self._starts[last] + end_column, indent
        )

    def table_cells(self, row: Token) -> Iterator[Message]:
        """The messages of one row of a table."""
        assert row.map is not None
        line, base = self._lines[row.map[0]], self._starts[row.map[0]]
        nested = CONTAINER.match(line) if row.level > 2 else None
        start = nested.end() if nested else 0
        for end in [*(pipe.start() for pipe in PIPE.finditer(line, start)), len(line)]:
            text = line[start:end].strip()
            if is_prose(text):
                at = line.index(text, start)
                yield Message(text, "table cell", base + at, base + at + len(text), "")
            start = end + 1

    def _locate(self, token: Token, position: int) -> tuple[int, int]:
        """The line and column in the source for a position in `token.content`."""
        assert token.map is not None
        row = token.content.count("\n", 0, position)
        written = token.content.split("\n")[row]  # its leading tabs may have become spaces
        line = self._lines[token.map[0] + row]
        column = line.rfind(written.strip())
        if column < 0:
            raise ToolError(
                f"The line {line!r} parses to {written!r}, which is not a part of it. "
                "Write it without control characters."
            )
        start = token.content.rfind("\n", 0, position) + 1 + len(written) - len(written.lstrip())
        return token.map[0] + row, column + position - start
