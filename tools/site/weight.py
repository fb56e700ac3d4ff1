"""Removes from the theme's files what no page of the site uses: style rules, and icons of its font.

The theme's style sheet has 370 kB, of which the pages use a fifth, and its font has 1,400 icons, of
which they use about ten. Both delay the first view of a page on a slow connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from tools.lessons.project import ToolError

STYLES = ("styles/pydata-sphinx-theme.css", "basic.css", "mystnb.*.css")
FONT = "vendor/fontawesome/webfonts/fa-solid-900.woff2"
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/|[{};]', re.DOTALL)
COMMENT = re.compile(r"/\*(?!!).*?\*/", re.DOTALL)  # a license begins with /*!
LICENSES = re.compile(r"\s*(?:/\*.*?\*/\s*)*", re.DOTALL)  # in front of a statement
GROUPS = re.compile(r"@(?:media|supports|layer)\b")
ARGUMENT = re.compile(r"\([^()]*\)|\[[^\]]*\]")  # of :not and the like, or of an attribute
COMMA = re.compile(r",(?![^(\[]*[)\]])")
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
WORD = re.compile(r"-?[A-Za-z_][\w-]*")
ICON = re.compile(r"\\([0-9a-f]{4,6})|([\ue000-\uf8ff])")  # an escape, or the character itself


def reduce(site: Path) -> None:
    """Reduces the theme's files of every language.

    Raises:
      ToolError: no icon is left, so the theme's style sheet has another form than expected.
    """
    known = used_classes(site)
    for static in sorted(site.glob("*/_static")):
        kept = ""
        for path in (path for pattern in STYLES for path in sorted(static.glob(pattern))):
            kept += (text := purged(path.read_text("utf-8"), known))
            path.write_text(text, "utf-8")
        if not icons(kept):
            raise ToolError(f"{static} uses no icon of {FONT}. Adapt tools/site/weight.py.")
        _keep_icons(static / FONT, icons(kept))


class _Classes(HTMLParser):
    """Collects the classes of a page's elements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by HTMLParser."""
        for name, value in attrs:
            if name == "class":
                self.found.update((value or "").split())


def used_classes(site: Path) -> set[str]:
    """The classes in all pages, and all words of scripts, which may add classes."""
    reader = _Classes()
    for path in site.rglob("*.html"):
        reader.feed(path.read_text("utf-8"))
    scripts = (path.read_text("utf-8") for path in site.glob("*/_static/**/*.js"))
    return reader.found.union(*(WORD.findall(text) for text in scripts))


def purged(css: str, known: set[str]) -> str:
    """A style sheet without the rules that need a class that is not `known`."""
    return "".join(_kept(COMMENT.sub("", css), known))


def _kept(css: str, known: set[str]) -> Iterator[str]:
    for statement, body in _statements(css):
        prelude = LICENSES.sub("", statement, count=1)
        yield statement[: len(statement) - len(prelude)].strip()
        if not body:
            yield prelude
        elif GROUPS.search(prelude):
            if inside := purged(body[1:-1], known).strip():
                yield f"{prelude}{{{inside}}}"
        elif prelude.lstrip().startswith("@"):
            yield prelude + body
        elif selectors := [one for one in COMMA.split(prelude) if _is_used(one, known)]:
            yield ",".join(selectors) + body


def _statements(css: str) -> Iterator[tuple[str, str]]:
    """The statements of a style sheet, each with its block or, if it has none, with ""."""
    start = opened = depth = 0
    for token in TOKEN.finditer(css):
        if token[0] == "{":
            depth += 1
            opened = token.start() if depth == 1 else opened
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                yield css[start:opened], css[opened : token.end()]
                start = token.end()
        elif token[0] == ";" and depth == 0:
            yield css[start : token.end()], ""
            start = token.end()
    yield css[start:], ""


def _is_used(selector: str, known: set[str]) -> bool:
    """Whether all classes of a selector are known, except in the arguments of :not and the like."""
    if "\\" in selector:
        return True  # an escaped name
    while (shorter := ARGUMENT.sub("", selector)) != selector:
        selector = shorter
    return known.issuperset(CLASS.findall(selector))


def icons(css: str) -> set[int]:
    """The code points of the icons in the texts of a style sheet."""
    return {int(code, 16) if code else ord(icon) for code, icon in ICON.findall(css)}


def _keep_icons(path: Path, wanted: set[int]) -> None:
    """Removes all other glyphs from a font."""
    from fontTools import subset  # type: ignore[import-untyped]

    options = subset.Options(flavor="woff2", layout_features=[], notdef_outline=True)
    font = subset.load_font(str(path), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=wanted)
    subsetter.subset(font)
    subset.save_font(font, str(path), options)
