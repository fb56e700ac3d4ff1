"""Writes the input of Sphinx: the notebooks, documents and generated pages of one language."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.site import (
    exercises,
    experiments,
    generated_pages,
    pictures,
    previews,
    questions,
    reference,
)
from tools.site.anchors import anchors
from tools.site.recordings import page as recordings
from tools.site.tree import Page, Tree

NON_DISPLAY_MIME_PREFIX = "application/"  # widgets, and results as data, which readers do not see

FOLDED_TAG = "hide-input"  # a tag of myst-nb

Ids = dict[str, list[list[str]]]
"""The ids of the headings of each page."""


def write(tree: Tree, folder: Path, site: Path) -> Ids:
    """Writes the sources of a language into `folder`, and its notebooks' pictures into `site`.

    Returns: the ids of the headings of every page except the reference, whose ids Sphinx sets.
    """
    shutil.rmtree(folder, ignore_errors=True)
    ids: Ids = {}
    for page in tree.pages.values():
        path = folder / f"{page.name}{page.file.suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if page.file.suffix == ".ipynb":
            path.write_text(_notebook(page, site), "utf-8")
        else:
            path.write_text(_document(page, tree, folder), "utf-8")
        ids[page.name] = anchors(page)
    for name, text, own in generated_pages.pages(tree):
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        ids[name] = own
    reference.write(tree, folder)
    previews.write_picture(tree, site)
    recordings.write(tree, site / tree.lang)
    return ids


def _notebook(page: Page, site: Path) -> str:
    parsed = notebook.read(page.file)
    parsed["metadata"].pop("widgets", None)
    up = "../" * (page.name.count("/") + 1)
    for cell in notebook.cells(parsed, "code"):
        if notebook.is_folded(cell):
            notebook.add_tag(cell, FOLDED_TAG)
        for output in cell["outputs"]:
            _strip_machine_outputs(output.get("data", {}), site, up)
        questions.make_interactive(cell, page.lang)
        experiments.place(cell, page.lang, site)
    exercises.place(parsed, page.lang)
    return notebook.dumps(parsed)


def _strip_machine_outputs(data: Json, site: Path, up: str) -> None:
    """Removes data for programs from an output, and writes its pictures to files."""
    for kind in [kind for kind in data if kind.startswith(NON_DISPLAY_MIME_PREFIX)]:
        del data[kind]
    if "text/html" in data:
        data["text/html"] = pictures.as_files("".join(data["text/html"]), site, up)


def _document(page: Page, tree: Tree, folder: Path) -> str:
    """A document's text. Its pictures are copied to the same paths as in the repository."""
    root = tree.project.root
    text = pictures.from_root(page.file, root)
    for name in pictures.names(text):
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, copy)
    return text
