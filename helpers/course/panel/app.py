"""The panel as a separate page, in the language that the page's address names.

Voila starts a separate kernel for each visitor, and passes the query of the page's address, such as
`lang=ko`, in QUERY_STRING.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qsl, urlencode

import ipywidgets as widgets  # type: ignore[import-untyped]

from helpers.course.panel.view import Panel
from helpers.i18n import ENGLISH, _, languages, set_language

# Each language has its own name, so that all readers find theirs.
NAMES = {"en": "English", "ru": "русский", "zh": "中文", "ko": "한국어", "es": "español"}
CHINESE = "zh-Hans"  # the browser's code of simplified Chinese, for its fonts

STYLE = """<style>
.mwl-languages { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 10px 4px 6px;
  font-size: 14px; line-height: 1.6; }
.mwl-languages a { color: var(--jp-content-link-color, #1a5fb4); text-decoration: underline; }
.mwl-languages a[aria-current] { color: inherit; font-weight: 600; text-decoration: none; }
.mwl-languages a:focus-visible { outline: 2px solid #2f7de1; outline-offset: 2px; }
.mwl-unknown { padding: 0 4px 8px; font-size: 13px; }
</style>"""


def app(environment: Mapping[str, str] = os.environ) -> widgets.VBox:
    """The panel, below links to the page in every language.

    Args:
      environment: contains the language in QUERY_STRING, such as "lang=ko", or else in IN. The
        default is English.
    """
    query = dict(parse_qsl(environment.get("QUERY_STRING", "")))
    wanted = query.get("lang") or environment.get("LESSON_LANG") or ENGLISH
    lang = wanted.replace("_", "-").partition("-")[0].lower()
    known = lang in languages()
    lang = set_language(lang if known else ENGLISH)
    head = widgets.HTML(STYLE + links(lang, query) + ("" if known else _unknown(wanted)))
    return widgets.VBox([head, Panel()])


def links(lang: str, query: Mapping[str, str]) -> str:
    """A link to the page in each language, with the current language marked.

    Args:
      query: the query of the page's address, which the links keep except for the language.
    """
    items = "".join(_link(code, query, present=code == lang) for code in languages())
    return f'<nav class="mwl-languages" aria-label="{escape(_("Languages"))}">{items}</nav>'


def _link(code: str, query: Mapping[str, str], *, present: bool) -> str:
    tag = CHINESE if code == "zh" else code
    address = escape("?" + urlencode({**query, "lang": code}))
    current = ' aria-current="page"' if present else ""
    name = NAMES.get(code, code)
    return f'<a href="{address}" lang="{tag}" hreflang="{tag}"{current}>{name}</a>'


def _unknown(wanted: str) -> str:
    """The reason why the page is in English, which exists only in English."""
    sentence = (
        f"There is no page in {wanted[:20]!r}, so this one is in English. Choose a language above."
    )
    return f'<div class="mwl-unknown" role="status">{escape(sentence)}</div>'
