"""Looks for errors in the built pages: links, ids, pictures, and resources of other sites."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

SUBRESOURCES = {
    *((tag, "src") for tag in ("audio", "iframe", "img", "script", "source", "video")),
    ("video", "poster"),
}
SRCSET = re.compile(r"([^\s,]\S*[^\s,])[^,]*")  # addresses with a width or a density
STYLE_ADDRESS = re.compile(r"(?:url\(|@import\s+)\s*[\"']?(?!data:|#)([^\"')\s;]+)")
EXTERNAL = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
OTHER_SCHEME = re.compile(r"^(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass
class HtmlPage(HTMLParser):
    """The ids and links of a page.

    Attributes:
      ids: the ids of its elements.
      links: its links, each with whether the browser loads it to show the page.
    """

    path: Path
    ids: list[str] = field(default_factory=list)
    links: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by HTMLParser."""
        named = {name: value or "" for name, value in attrs}
        if "id" in named:
            self.ids.append(named["id"])
        fetched = tag == "link" and named.get("rel") not in (
            "canonical",
            "alternate",
            "next",
            "prev",
        )
        for name in ("href", "src", "poster"):
            if name in named and tag != "base":
                self.links.append((named[name], fetched or (tag, name) in SUBRESOURCES))
        found = SRCSET.findall(named.get("srcset", ""))
        found += STYLE_ADDRESS.findall(named.get("style", ""))
        self.links += [(address, True) for address in found]

    def handle_data(self, data: str) -> None:
        """Called by HTMLParser."""
        if self.cdata_elem == "style":
            self.links += [(address, True) for address in STYLE_ADDRESS.findall(data)]


@dataclass
class Site:
    """A built site in a folder."""

    folder: Path

    @cached_property
    def pages(self) -> dict[Path, HtmlPage]:
        """All pages by path."""
        return {path: HtmlPage(path) for path in sorted(self.folder.rglob("*.html"))}

    def problems(self) -> Iterator[str]:
        """A sentence for each error."""
        for path, page in self.pages.items():
            place = path.relative_to(self.folder)
            for id_ in sorted({one for one in page.ids if page.ids.count(one) > 1}):
                yield f"{place}: the id {id_!r} is not unique"
            for link, fetched in page.links:
                if what := self._broken(path, link, fetched):
                    yield f"{place}: {link}: {what}"
        for path in sorted(self.folder.rglob("*.css")):
            for address in STYLE_ADDRESS.findall(path.read_text("utf-8")):
                if what := self._broken(path, address, fetched=True):
                    yield f"{path.relative_to(self.folder)}: {address}: {what}"

    def _broken(self, path: Path, link: str, fetched: bool) -> str:
        if EXTERNAL.match(link):
            return "is loaded from another site" if fetched else ""
        if OTHER_SCHEME.match(link):
            return ""
        if link.startswith("/"):
            return "is not relative, so it is wrong unless the site is at the root of its server"
        return self._missing_target(path, urlsplit(link))

    def _missing_target(self, path: Path, parts: SplitResult) -> str:
        place = path.relative_to(self.folder)
        found = Path(normpath(place.parent / unquote(parts.path) if parts.path else place))
        if found.parts[:1] == ("..",):
            return "leads out of the site"
        target = self.folder / found
        if not target.is_file():
            return "there is no such file"
        fragment = unquote(parts.fragment)
        if fragment and target in self.pages and fragment not in self.pages[target].ids:
            return "there is no such anchor on that page"
        return ""
