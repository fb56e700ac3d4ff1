"""The files that all languages share: the first page, the site map and the feed of releases.

The first page redirects to the reader's language.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from babel import Locale

from tools.lessons.project import SOURCE, Project
from tools.site import browser_python, feed, previews, search, strings, weight
from tools.site.generated_pages import introduction
from tools.site.settings import THEME, html_lang
from tools.site.tree import START, languages, tree

UNUSED = (
    *("*.html", "searchtools.js", "language_data.js", "doctools.js", "sphinx_highlight.js"),
    *("translations.js", "scripts/*.map", "scripts/fontawesome.*", "styles/*.map", "*.png"),
)
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def write(project: Project, site: Path) -> None:
    """Completes a site whose trees are built."""
    (site / "index.html").write_text(_first_page(project), "utf-8")
    if releases := feed.feed(project):
        (site / feed.NAME).write_text(releases, "utf-8")
    if project.site:
        (site / "sitemap.xml").write_text(sitemap(project, site), "utf-8")
    _drop_unused(site)
    weight.reduce(site)
    browser_python.write(project, site)
    search.write(project, site)


def _first_page(project: Project) -> str:
    codes = languages(project)
    links = "\n".join(
        f'<li><a lang="{html_lang(code)}" href="{code}/{START}.html">'
        f"{escape(Locale.parse(code).get_display_name(code) or code)} – "
        f"{escape(strings.translator(project, code)(strings.NAME))}</a></li>"
        for code in codes
    )
    page = (THEME / "first.html").read_text("utf-8")
    english = tree(project, SOURCE)
    text = previews.description([introduction(english)])
    for name, value in (
        ("NAME", escape(strings.NAME)),
        ("PREVIEW", previews.tags(english, "", strings.NAME, text)),
        ("LINKS", links),
        ("CODES", json.dumps(codes)),
    ):
        page = page.replace(f"@{name}@", value)
    return page


def sitemap(project: Project, site: Path) -> str:
    """The site map for search engines, for a site with an address."""
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
    """Removes files of the theme that no page uses."""
    for pattern in UNUSED:
        for path in site.glob(f"*/_static/{pattern}"):
            path.unlink()
