"""The settings of Sphinx for one language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from babel import Locale

from tools.site import feed, strings
from tools.site.sources import Ids
from tools.site.tree import FAULT_LAB, START, Tree, languages

THEME = Path(__file__).with_name("theme")
SPHINX = {"zh": "zh_CN"}  # Sphinx's names of languages, if they differ from the code
EXTENSIONS = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "tools.site.extension"]


def html_lang(lang: str) -> str:
    """The value of a page's `lang` attribute."""
    return SPHINX.get(lang, lang).replace("_", "-")


def settings(tree: Tree, ids: Ids) -> dict[str, Any]:
    """The settings that a conf.py would contain."""
    _ = strings.translator(tree.project, tree.lang)
    name = _(strings.NAME)
    return {
        "project": name,
        "language": SPHINX.get(tree.lang, tree.lang),
        "extensions": EXTENSIONS,
        "root_doc": START,
        "templates_path": [str(THEME / "templates")],
        "default_role": "code",  # for docstrings
        "highlight_language": "none",
        "suppress_warnings": ["misc.highlighting_failure", "myst.header"],
        **_notebooks(_),
        **_reference(),
        **_html(tree, name, _(strings.MORE)),
        "site_tree": tree,
        "site_has_feed": bool(feed.feed(tree.project)),
        "site_ids": ids,
        "site_folders": _folders(tree),
        "site_words": _words(_),
        "site_languages": {
            code: Locale.parse(code).get_display_name(code) for code in languages(tree.project)
        },
    }


def _notebooks(_: strings.Translate) -> dict[str, Any]:
    return {
        "nb_code_prompt_show": _(strings.SHOW_CODE),
        "nb_code_prompt_hide": _(strings.HIDE_CODE),
        "nb_execution_mode": "off",
        "nb_merge_streams": True,
        "nb_ipywidgets_js": {},
        "myst_all_links_external": True,  # tools.site.extension resolves them
        "myst_enable_extensions": ["amsmath", "dollarmath", "strikethrough"],
        "myst_heading_anchors": 0,
    }


def _reference() -> dict[str, Any]:
    return {
        "add_module_names": False,
        "autodoc_typehints": "signature",
        "autodoc_member_order": "bysource",
        "autodoc_preserve_defaults": True,
        "maximum_signature_line_length": 80,
        "napoleon_numpy_docstring": False,
        "napoleon_use_ivar": True,
    }


def _html(tree: Tree, name: str, more: str) -> dict[str, Any]:
    return {
        "html_theme": "pydata_sphinx_theme",
        "html_title": name,
        "html_context": {"default_mode": "auto"},
        "html_favicon": str(THEME / "static" / "icon.svg"),
        "html_baseurl": f"{tree.project.site}/{tree.lang}/" if tree.project.site else "",
        "html_math_renderer": "mathml",
        "html_static_path": [str(THEME / "static")],
        "html_css_files": ["site.css"],
        "html_js_files": [("site.js", {"defer": "defer"})],
        "html_sidebars": {FAULT_LAB: [], "**": ["sidebar-nav-bs.html"]},
        "html_scaled_image_link": False,
        "html_copy_source": False,
        "html_show_sourcelink": False,
        "html_show_sphinx": False,
        "html_show_copyright": False,
        "html_use_index": False,
        "html_domain_indices": False,
        "html_permalinks_icon": "#",
        "html_theme_options": {
            "logo": {"text": name},
            "navbar_start": ["navbar-logo"],
            "navbar_end": ["theme-switcher"],
            "navbar_persistent": ["find", "languages"],
            "footer_start": [],
            "footer_end": [],
            "secondary_sidebar_items": ["page-toc"],
            "header_links_before_dropdown": 5,
            "header_dropdown_text": more,
            "show_toc_level": 2,
            "navigation_with_keys": False,
            "pygments_light_style": "a11y-high-contrast-light",
            "pygments_dark_style": "a11y-high-contrast-dark",
        },
    }


def _folders(tree: Tree) -> dict[str, tuple[str, str]]:
    """The language and the folder of the file of each page whose links are resolved."""
    found = {
        page.name: (page.lang, tree.project.short(page.file.parent)) for page in tree.pages.values()
    }
    readme = tree.pages["docs/README"]
    found[START] = found[readme.name]
    return {**dict.fromkeys(("lessons", "docs/index", FAULT_LAB), (tree.lang, "")), **found}


def _words(_: strings.Translate) -> dict[str, str]:
    return {
        "search": _(strings.SEARCH),
        "no_script": _(strings.NO_SCRIPT),
        "language": _(strings.LANGUAGE),
        "in_english": _(strings.IN_ENGLISH),
        "releases": _(strings.RELEASES),
        **{word: _(word) for word in strings.THEME_STRINGS},
    }
