"""The feed of releases in the Atom format (RFC 4287), from CHANGELOG.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from tools.l10n.markdown import PARSER
from tools.lessons.project import Project, read_text
from tools.release import HEAD
from tools.site import strings

NAME = "releases.xml"
DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Release(NamedTuple):
    """A version, its date, and its changes as Markdown."""

    version: str
    date: str
    changes: str


def releases(project: Project) -> Iterator[Release]:
    """The released versions in the order of CHANGELOG.md, the newest one first."""
    path = project.root / "CHANGELOG.md"
    text = read_text(path) if path.exists() else ""
    heads = list(HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        if DATE.fullmatch(head[2]):
            yield Release(head[1], head[2], text[head.end() : end].strip())


def feed(project: Project) -> str:
    """The feed, or "" for a project without an address or without a release."""
    found = list(releases(project))
    if not project.site or not found:
        return ""
    address = f"{project.site}/{NAME}"
    title = f"{strings.NAME}: {strings.RELEASES}"
    head = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">',
        f"<id>{address}</id>",
        f"<title>{escape(title)}</title>",
        f"<author><name>{escape(strings.NAME)}</name></author>",
        f"<updated>{_time(max(release.date for release in found))}</updated>",
        f'<link rel="self" href="{address}"/>',
        f'<link href="{project.site}/"/>',
    ]
    return "\n".join([*head, *(_entry(project, release) for release in found), "</feed>", ""])


def _entry(project: Project, release: Release) -> str:
    address = f"{project.repository}/releases/tag/v{release.version}"
    title = f"{strings.NAME} {release.version}"
    lines = [
        f"<entry><id>{address}</id>",
        f"<title>{escape(title)}</title>",
        f"<updated>{_time(release.date)}</updated>",
        f'<link href="{address}"/>',
        f'<content type="html">{escape(PARSER.render(release.changes))}</content></entry>',
    ]
    return "\n".join(lines)


def _time(date: str) -> str:
    return f"{date}T00:00:00Z"
