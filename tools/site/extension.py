"""The site's extension of Sphinx: ids of headings, links, formulas, the search page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.locale import _ as sphinx_word
from sphinx.transforms import SphinxTransform
from sphinx.util.images import get_image_size

from tools.lessons.project import SOURCE
from tools.site import exercises, experiments, previews, questions, reference, settings
from tools.site.recordings import page as recordings
from tools.site.tree import Place

SIGNATURE = re.compile(r"<dl>\s*((?:<dd>(?:(?!</?d[ld]>).)*</dd>\s*)+)</dl>", re.DOTALL)
SEARCH_SCRIPTS = ("doctools.js", "sphinx_highlight.js", "translations.js")  # of Sphinx's own search
FEATURES = {  # what a page loads, by the class of an element that needs it
    questions.CLASS: (questions.SCRIPT,),
    recordings.CLASS: (recordings.SCRIPT, recordings.SHEET),
    experiments.CLASS: ("python.js", "experiments.js", "experiments.css"),
    exercises.CLASS: ("python.js", "exercises.js", "exercises.css"),
}
EXTERNAL_SCHEMES = ("http:", "https:", "mailto:", "data:", "#")
HREF = re.compile(r'(?<=<a )href="([^"]+)"')


class Anchors(SphinxTransform):
    """Sets the ids of a page's headings that are common to all languages."""

    default_priority = 15  # before Sphinx collects the headings for the table of contents

    def apply(self, **kwargs: Any) -> None:
        """Sets the ids, except on a page of the reference, which keeps Sphinx's ids."""
        ids = self.config.site_ids.get(self.env.docname)
        if ids is None:
            return
        sections = [node for node in self.document.findall(nodes.section)]
        if len(sections) != len(ids):
            raise ValueError(
                f"{self.env.docname} has {len(sections)} headings for Sphinx, and {len(ids)} for "
                "the site. A heading must not be inside a list or a quotation."
            )
        for section, own in zip(sections, ids, strict=True):
            section["ids"] = list(own)


def resolve_links(app: Sphinx, document: nodes.document, name: str) -> None:
    """Resolves links between files of the repository to pages or to the repository's address."""
    tree, here = app.config.site_tree, app.config.site_folders.get(name)
    if here is None:
        return
    lang, folder = here
    for node in list(document.findall(nodes.reference)):
        link = node.get("refuri", "")
        if node.get("internal") or not link or link.startswith(EXTERNAL_SCHEMES):
            continue
        match tree.resolve_link(folder, lang, link):
            case Place() as place:
                node["refuri"] = _address(app, name, place)
                node["internal"] = True
            case str(address):
                node["refuri"] = address
            case _:
                node.replace_self(node.children)

    def resolve(found: re.Match[str]) -> str:
        place = (
            None
            if found[1].startswith(EXTERNAL_SCHEMES)
            else tree.resolve_link(folder, lang, found[1])
        )
        address = _address(app, name, place) if isinstance(place, Place) else place
        return f'href="{address or found[1]}"'

    for raw in document.findall(nodes.raw):  # prose in HTML, such as a box
        if raw.get("format") == "html" and "href" in raw.astext():
            raw.children = [nodes.Text(HREF.sub(resolve, raw.astext()))]


def size_images(app: Sphinx, document: nodes.document, name: str) -> None:
    """Reserves the space of a document's pictures before they are loaded."""
    for image in document.findall(nodes.image):
        if get_image_size(app.srcdir / image["uri"]):
            image["scale"] = 100  # percent, so that Sphinx writes the size of the file


def _address(app: Sphinx, name: str, place: Place) -> str:
    address = app.builder.get_relative_uri(name, place.name)
    if place.lang != app.config.site_tree.lang:
        up = "../" * (name.count("/") + 1)
        address = f"{up}{place.lang}/{app.builder.get_target_uri(place.name)}"
    return f"{address}#{place.fragment}" if place.fragment else address


def visit_formula(self: Any, node: nodes.Node) -> None:
    """Writes a formula as MathML, which browsers render themselves."""
    block = isinstance(node, nodes.math_block)
    tex = node.astext().replace("…", r"\ldots ")  # docutils rejects the character
    formula = latex2mathml.tex2mathml(tex, as_block=block)
    self.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page on which Pagefind shows its results."""
    yield "search", {"title": app.config.site_words["search"]}, "search.html"


def without_own_search(app: Sphinx) -> None:
    """Removes Sphinx's own search, which finds no words inside of a Chinese sentence."""
    app.builder.search = False


def add_context(
    app: Sphinx, name: str, template: str, context: dict[str, Any], document: nodes.document | None
) -> None:
    """Adds the data of templates: the texts of the language, and the page in other languages."""
    up = "../" * (name.count("/") + 1)
    context["site_root"] = up
    context["words"] = app.config.site_words
    context["_"] = partial(_word, app.config.site_words)
    context["languages"] = [
        (code, own_name, f"{up}{code}/{name}.html")
        for code, own_name in app.config.site_languages.items()
    ]
    context["languages_by_code"] = app.config.site_languages
    context["reads"] = app.config.site_tree.lang
    written_in, _folder = app.config.site_folders.get(name, (context["reads"], ""))
    if name.startswith(f"{reference.FOLDER}/{reference.PACKAGE}"):
        written_in = SOURCE
        context["body"] = SIGNATURE.sub(_signature, context["body"])
    context["script_files"][:] = (  # in place, because others add scripts to this list
        script
        for script in context["script_files"]
        if Path(script.filename).name not in SEARCH_SCRIPTS
    )
    for file in _feature_files(context.get("body", "")):
        if file.endswith(".js"):
            # Otherwise a browser loads the page's pictures first.
            app.add_js_file(file, loading_method="defer", fetchpriority="high")
        else:
            app.add_css_file(file)
    context["in_english"] = written_in != context["reads"]
    context["tags"] = {code: settings.html_lang(code) for code in app.config.site_languages}
    tree = app.config.site_tree
    site, path = tree.project.site, f"{tree.lang}/{name}.html"
    context["alternates"] = {code: f"{site}/{code}/{name}.html" for code in context["tags"]}
    text = previews.description(_prose(document) if document else ())
    context["preview"] = previews.tags(tree, path, context.get("title", ""), text)
    context["has_feed"] = app.config.site_has_feed


def _feature_files(body: str) -> dict[str, None]:
    """The scripts and style sheets of the features that a page has, in the order of loading."""
    return dict.fromkeys(
        file
        for css_class, files in FEATURES.items()
        if re.search(rf'class="{css_class}[" ]', body)
        for file in files
    )


def _prose(document: nodes.document) -> Iterator[str]:
    """The paragraphs of a page outside of tables."""
    for paragraph in document.findall(nodes.paragraph):
        if not isinstance(paragraph.parent, nodes.entry):
            yield paragraph.astext()


def _signature(found: re.Match[str]) -> str:
    """Corrects Sphinx's markup of a function's parameters, which are definitions without terms."""
    lines = found[1].replace("<dd>", '<span class="mwl-parameter">').replace("</dd>", "</span>")
    return lines.strip()


def mark_code(*args: Any) -> None:
    """Marks indented text between the paragraphs of a docstring as code."""
    lines: list[str] = args[-1]
    lines[:] = reference.with_code(lines)


def _word(own: Mapping[str, str], text: str) -> str:
    """A text of the theme from the course's catalog, or else from Sphinx or the theme."""
    found = own.get(text, text)
    return found if found != text else str(sphinx_word(text))


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    own = ("ids", "tree", "folders", "words", "languages", "has_feed")
    for value in own:
        app.add_config_value(f"site_{value}", None, "")
    app.add_transform(Anchors)
    app.add_html_math_renderer("mathml", (visit_formula, None), (visit_formula, None))
    # Before napoleon, which parses the rest as its own sections.
    app.connect("autodoc-process-docstring", mark_code, priority=400)
    app.connect("builder-inited", without_own_search)
    app.connect("doctree-resolved", resolve_links)
    app.connect("doctree-resolved", size_images)
    app.connect("html-page-context", add_context)
    app.connect("html-collect-pages", search_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
