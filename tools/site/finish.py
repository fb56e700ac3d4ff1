"""What all languages share: the first page, which leads to the reader's own, and the search."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from babel import Locale

from tools.lessons.project import LocalisationError, Project
from tools.site import words
from tools.site.settings import THEME, html_lang
from tools.site.tree import START, languages

SECTION = re.compile(r'<section id="([^"]*)">(\s*(?:<span id="[^"]*"></span>)*)<(h[1-6])')
HEADER_LINK = re.compile(r'<a class="headerlink"[^>]*>[^<]*</a>')
UNUSED = (
    *("*.html", "searchtools.js", "language_data.js", "scripts/*.map", "scripts/fontawesome.*"),
    *("styles/*.map", "*.png"),
)
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def write(project: Project, site: Path) -> None:
    """Finishes a site whose trees are there."""
    (site / "index.html").write_text(_first_page(project), "utf-8")
    if project.site:
        (site / "sitemap.xml").write_text(sitemap(project, site), "utf-8")
    _drop_unused(site)
    _index(site)


def _first_page(project: Project) -> str:
    codes = languages(project)
    links = "\n".join(
        f'<li><a lang="{html_lang(code)}" href="{code}/{START}.html">'
        f"{escape(Locale.parse(code).get_display_name(code) or code)} – "
        f"{escape(words.translator(project, code)(words.NAME))}</a></li>"
        for code in codes
    )
    page = (THEME / "first.html").read_text("utf-8")
    for name, value in (
        ("NAME", escape(words.NAME)),
        ("LINKS", links),
        ("CODES", json.dumps(codes)),
    ):
        page = page.replace(f"@{name}@", value)
    return page


def sitemap(project: Project, site: Path) -> str:
    """Every page of a site that has an address, for search engines."""
    addresses = (
        f"{project.site}/{path.relative_to(site).as_posix()}"
        for lang in languages(project)
        for path in sorted((site / lang).rglob("*.html"))
        if "_static" not in path.parts and path.stem != "search"
    )
    lines = "\n".join(f"<url><loc>{escape(one)}</loc></url>" for one in addresses)
    head = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{SITEMAP}">'
    return f"{head}\n{lines}\n</urlset>\n"


def _drop_unused(site: Path) -> None:
    """Takes away what the theme brings along and no page asks for."""
    for pattern in UNUSED:
        for path in site.glob(f"*/_static/{pattern}"):
            path.unlink()


def _index(site: Path) -> None:
    """Pagefind reads the pages, and keeps the languages apart by the `lang` of each.

    It leads to the headings that have ids; Sphinx gives these to the section around a heading. So
    it reads copies.
    """
    with TemporaryDirectory() as folder:
        for path in site.rglob("*.html"):
            copy = Path(folder) / path.relative_to(site)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = HEADER_LINK.sub("", path.read_text("utf-8"))
            copy.write_text(SECTION.sub(r'<section>\2<\3 id="\1"', text), "utf-8")
        command = [sys.executable, "-m", "pagefind", "--site", folder]
        command += ["--output-path", str(site / "pagefind")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalisationError(f"The search could not be made:\n{done.stdout}{done.stderr}")
