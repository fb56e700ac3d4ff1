"""The structure of a rendered Markdown cell: its blocks, inline parts, links and anchors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from urllib.parse import unquote

from markdown_it.token import Token

from tools.l10n import html
from tools.l10n.markdown import PARSER
from tools.lessons.project import DOCUMENTS, ROOT_DOCUMENTS

Block = tuple[str, int]
Part = tuple[str, str]  # its kind and its content, such as ("inline code", "TF_CONFIG")

MATH = frozenset({"math_inline", "math_inline_double"})
NAMES = {
    "strong_open": "bold",
    "em_open": "italics",
    "s_open": "struck-out text",
    "link_open": "link to",
    "image": "picture",
    "code_inline": "inline code",
    "html_inline": "tag",
    "hardbreak": "hard line break",
}
PLAIN = frozenset({"text", "softbreak", "text_special"})
ADDRESS = re.compile(r"(\b(?:href|src)\s*=\s*)(\"[^\"]*\"|'[^']*')", re.IGNORECASE)
ROOT_PAGE = re.compile(rf"/{DOCUMENTS}/\w+/(?=(?:{'|'.join(ROOT_DOCUMENTS)})\.md)")
NO_SLUG = re.compile(r"[^\w\- ]")
HTML_ANCHOR = re.compile(r"\b(?:id|name)\s*=\s*[\"']([^\"']+)", re.IGNORECASE)


def blocks(source: str) -> list[Block]:
    """The block tree: each block's name and depth, and the tags and code of an HTML block."""
    found = []
    for token in PARSER.parse(source):
        if token.type == "html_block":
            tags = sorted(_tag(tag) for tag in html.tags(token.content))
            found.append(
                ("HTML " + " ".join([*tags, *sorted(html.code(token.content))]), token.level)
            )
        elif token.type != "inline" and not token.type.endswith("_close"):
            found.append((f"{token.type.removesuffix('_open')} {token.tag}".strip(), token.level))
    return found


def inlines(source: str) -> list[tuple[str, Counter[Part]]]:
    """The parts other than words of each piece of text."""
    return [
        (token.content, Counter(_parts(token.children or [])))
        for token in PARSER.parse(source)
        if token.type == "inline"
    ]


def anchors(source: str) -> set[str]:
    """The targets of links: headings in Jupyter's notation, and ids in HTML."""
    tokens = PARSER.parse(source)
    found = set()
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            found.add(plain(token.children or []).replace(" ", "-"))
    return found | set(HTML_ANCHOR.findall(source))


def headings(source: str) -> list[str]:
    """The headings of a Markdown text, as plain text."""
    return [
        plain(token.children or [])
        for before, token in pairwise(PARSER.parse(source))
        if before.type == "heading_open" and before.level == 0
    ]


def slugs(texts: Iterable[str]) -> list[str]:
    """GitHub's anchors for the headings of a document."""
    found: list[str] = []
    times: Counter[str] = Counter()
    for text in texts:
        slug = NO_SLUG.sub("", text.lower()).replace(" ", "-")
        found.append(f"{slug}-{times[slug]}" if times[slug] else slug)
        times[slug] += 1
    return found


def links(source: str) -> list[str]:
    """The targets of the links and pictures of a cell, in plain characters."""
    found = []
    for token in PARSER.parse(source):
        for child in token.children or []:
            if child.type in ("link_open", "image"):
                found.append(unquote(str(child.attrGet("href") or child.attrGet("src") or "")))
        texts = [token, *(token.children or [])]
        raw = "".join(t.content for t in texts if t.type in ("html_block", "html_inline"))
        found += [match[2][1:-1] for match in ADDRESS.finditer(raw)]
    return found


def same_in_every_language(address: str) -> str:
    """An address without the parts that depend on the language: anchor and lessons' language."""
    page, mark, _ = unquote(address).partition("#")
    page = ROOT_PAGE.sub("/", page)
    return re.sub(r"(/notebooks/)[A-Za-z_-]+(?=/)|(/docs/)\w+/(?=\w+\.md)", r"\1\2", page) + mark


def plain(children: list[Token]) -> str:
    """The words of a piece of text without markup, except for math."""
    parts = []
    for child in children:
        if child.type in MATH:
            parts.append(f"{child.markup}{child.content}{child.markup}")
        elif child.type in ("text", "code_inline", "text_special"):
            parts.append(child.content)
        elif child.type == "softbreak":
            parts.append("\n")
    return "".join(parts).strip()


def _parts(children: list[Token]) -> Iterator[Part]:
    for child in children:
        if child.type in PLAIN or child.type.endswith("_close"):
            continue
        name = "math" if child.type in MATH else NAMES.get(child.type, child.type)
        address = str(child.attrGet("href") or child.attrGet("src") or "")
        if address:
            yield name, same_in_every_language(address)
        elif child.type == "html_inline":
            yield name, _tag(html.tags(child.content)[0] if html.tags(child.content) else "")
        else:
            yield name, child.content


def _tag(tag: str) -> str:
    return ADDRESS.sub(lambda match: match[1] + same_in_every_language(match[2]), tag)
