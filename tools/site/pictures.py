"""Stores the pictures of notebooks and documents as files, in the colors of the page's theme.

In a notebook, a picture is an image with a `data:` address, whose style follows the reader's
system. This is wrong if a page is dark and the system is not. So this module removes the style, and
the page's style sheet changes the pictures' colors.
"""

from __future__ import annotations

import base64
import os
import re
from hashlib import sha256
from html import escape, unescape
from pathlib import Path

from tools.lessons.project import read_text

IMAGE = re.compile(
    r'<img alt="(?P<alt>[^"]*)" src="data:image/(?P<kind>svg\+xml|png|jpeg);base64,(?P<data>[^"]+)"'
    r"\s*/?>"
)
DARK_MODE_STYLE = re.compile(r"<style>@media \(prefers-color-scheme: dark\).*?</style>", re.DOTALL)
IN_MARKDOWN = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^):\s]+)\)")
SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)(pt)?" height="([\d.]+)(?:pt)?"', re.DOTALL)
PIXELS_PER_POINT = 4 / 3
FOLDER = "pictures"


def as_files(html: str, site: Path, up: str) -> str:
    """The HTML of an output with its pictures written into the site.

    Args:
      site: the folder of the site.
      up: the relative path from the page to that folder, such as ``../``.
    """
    return IMAGE.sub(lambda found: _linked(found, site, up), html)


def _linked(found: re.Match[str], site: Path, up: str) -> str:
    content = base64.b64decode(found["data"])
    suffix, attributes = f".{found['kind']}", 'class="mwl-picture"'
    if found["kind"] == "svg+xml":
        svg = DARK_MODE_STYLE.sub("", content.decode())
        content, suffix = svg.encode(), ".svg"
        attributes = f'class="{_class(svg)}"{_size(svg)}'
    name = sha256(content).hexdigest()[:16] + suffix
    path = site / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    address, alt = f"{up}{FOLDER}/{name}", escape(unescape(found["alt"]))
    return f'<a href="{address}"><img alt="{alt}" src="{address}" {attributes}></a>'


def _class(svg: str) -> str:
    """The class of a drawing: it may have dark colors, unless it contains a photograph."""
    return "mwl-picture" if "<image" in svg else "mwl-picture mwl-drawing"


def _size(svg: str) -> str:
    """Attributes that reserve a picture's space, so that it can be loaded when it is near."""
    size = SIZE.search(svg)
    if size is None:
        return ""
    scale = PIXELS_PER_POINT if size[2] else 1
    width, height = (round(float(size[k]) * scale) for k in (1, 3))
    return f' width="{width}" height="{height}" loading="lazy"'


def from_root(document: Path, root: Path) -> str:
    """The text of a document, with addresses of pictures from the root of the repository."""
    folder = document.parent

    def moved(found: re.Match[str]) -> str:
        path = os.path.normpath(folder / found["path"])
        return f"![{found['alt']}](/{Path(path).relative_to(root).as_posix()})"

    return IN_MARKDOWN.sub(moved, read_text(document))


def names(text: str) -> list[str]:
    """The pictures of a text whose addresses start at the root."""
    return [found["path"].removeprefix("/") for found in IN_MARKDOWN.finditer(text)]
