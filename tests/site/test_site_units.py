"""The code that builds the site, without building it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.l10n_project import code_cell, notebook_text
from tools.l10n import structure
from tools.lessons import notebook
from tools.lessons.project import Project, ToolError
from tools.site import (
    anchors,
    check,
    generated_pages,
    pictures,
    reference,
    serve,
    sources,
    strings,
    tree,
)
from tools.site.__main__ import MARKER_FILE, main, prepare_output
from tools.site.tree import Page, Place

PROJECT = Project.load(ROOT)
DARK = "<style>@media (prefers-color-scheme: dark) { :root { filter: invert(0.9) } }</style>"


def broken(folder: Path, **pages: str) -> list[str]:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return list(check.Site(folder).problems())


def test_a_sound_site_has_no_problem(tmp_path: Path) -> None:
    pages = {"a": '<a href="b.html#x">b</a> <a href="https://example.org">c</a>', "b": '<p id="x">'}
    assert broken(tmp_path, **pages) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="c.html">', "there is no such file"),
        ('<a href="b.html#y">', "there is no such anchor"),
        ('<a href="#y">', "there is no such anchor"),
        ('<img src="c.png">', "there is no such file"),
        ('<a href="/b.html">', "is not relative"),
        ('<script src="https://example.org/x.js">', "is loaded from another site"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "is loaded from another site"),
        ('<p id="z"><p id="z">', "is not unique"),
        ('<a href="../b.html">', "leads out of the site"),
        ('<img srcset="b.html 1x, c.png 2x">', "there is no such file"),
        ('<video poster="c.png">', "there is no such file"),
        ("<style>p { background: url(c.png) }</style>", "there is no such file"),
        ('<p style="background: url(https://example.org/c.png)">', "is loaded from another site"),
    ],
)
def test_a_problem_is_found(html: str, problem: str, tmp_path: Path) -> None:
    (found,) = broken(tmp_path, a=html, b='<p id="x">')
    assert problem in found


def test_a_style_sheet_that_fetches_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('@import "https://example.org/a.css"; a { b: url(data:c) }')
    (found,) = broken(tmp_path, a="")
    assert "is loaded from another site" in found


def test_links_lead_to_pages_in_the_language_of_the_tree() -> None:
    ru = tree.tree(PROJECT, "ru")
    assert ru.resolve_link("notebooks/ru", "ru", "glossary.ipynb#x") == Place("ru", "glossary", "x")
    assert ru.resolve_link("notebooks/ru/exercises", "ru", "../08_survive_failures.ipynb") == Place(
        "ru", "08_survive_failures"
    )
    assert ru.resolve_link("notebooks/ru", "ru", "../../docs/ru/KERAS_3.md") == Place(
        "ru", "docs/KERAS_3"
    )
    # A document without a translation links to English lessons, but its reader reads Russian ones.
    assert ru.resolve_link("", "en", "notebooks/en/glossary.ipynb") == Place("ru", "glossary")
    assert ru.resolve_link("", "en", "notebooks/ko/glossary.ipynb") == Place("ko", "glossary")


def test_an_english_document_is_in_the_tree_of_a_page_that_does_not_mean_the_english_one() -> None:
    ru = tree.tree(PROJECT, "ru")
    assert ru.resolve_link("", "en", "docs/KERAS_3.md") == Place("ru", "docs/KERAS_3")
    untranslated = ru.resolve_link("docs/ru", "ru", "../../locales/TRANSLATING.md")
    assert untranslated == Place("ru", "locales/TRANSLATING")
    # The table of languages in a README.
    assert ru.resolve_link("docs/ru", "ru", "../../README.md") == Place("en", "docs/README")
    assert ru.resolve_link("docs/ru", "ru", "README.md") == Place("ru", "docs/README")


def test_what_is_no_page_leads_to_the_repository_or_nowhere() -> None:
    nowhere = Project(PROJECT.root, PROJECT.released)
    assert tree.tree(nowhere, "en").resolve_link("", "en", "helpers/datasets/LICENSE.md") is None
    address = "https://example.org/us/course"
    somewhere = Project(PROJECT.root, PROJECT.released, repository=address)
    found = tree.tree(somewhere, "en")
    assert found.resolve_link("docs", "en", "../LICENSE") == f"{address}/blob/main/LICENSE"
    assert (
        found.resolve_link("", "en", "benchmarks/results")
        == f"{address}/tree/main/benchmarks/results"
    )


def test_every_language_has_the_same_pages() -> None:
    names = {code: set(tree.tree(PROJECT, code).pages) for code in tree.languages(PROJECT)}
    assert len(names) == 5 and len(names["en"]) > 40
    assert all(found == names["en"] for found in names.values())


def test_headings_have_equal_ids_in_all_languages() -> None:
    pages = {code: tree.tree(PROJECT, code).pages for code in tree.languages(PROJECT)}
    for name in ("01_train_on_two_workers", "glossary", "docs/FAULTS"):
        found = [[ids[0] for ids in anchors.anchors(pages[code][name])] for code in pages]
        assert len(found[0]) > 3
        assert all(ids == found[0] for ids in found)
        assert len(set(found[0])) == len(found[0])
    (glossary,) = [ids for ids in anchors.anchors(pages["ru"]["glossary"]) if "Сбои" in ids]
    assert glossary[0] != "Сбои"


def test_a_translation_with_another_heading_is_refused(tmp_path: Path) -> None:
    english, other = tmp_path / "a.md", tmp_path / "b.md"
    english.write_text("# One\n\n## Two\n")
    other.write_text("# Eins\n")
    with pytest.raises(ToolError, match=r"has 1 headings, and .* has 2"):
        anchors.anchors(Page("a", other, english, "de"))


def test_headings_are_named_as_on_a_page_of_a_repository() -> None:
    texts = ["What's new?", "A `b` & c", "Same", "Same", "故障 与 恢复"]
    assert structure.slugs(texts) == ["whats-new", "a-b--c", "same", "same-1", "故障-与-恢复"]


def test_a_picture_becomes_a_file_without_the_systems_colors(tmp_path: Path) -> None:
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="648pt" height="216pt">{DARK}</svg>'
    data = base64.b64encode(svg.encode()).decode()
    html = f'<img alt="a &amp; b" src="data:image/svg+xml;base64,{data}">'
    found = pictures.as_files(html, tmp_path, "../")
    (file,) = (tmp_path / "pictures").iterdir()
    assert "prefers-color-scheme" not in file.read_text()
    assert f'src="../pictures/{file.name}"' in found
    assert 'alt="a &amp; b"' in found and 'width="864" height="288"' in found
    assert "mwl-drawing" in found and 'loading="lazy"' in found


def test_a_photograph_keeps_its_colors(tmp_path: Path) -> None:
    data = base64.b64encode(b'<svg width="8" height="8"><image href="data:x"/></svg>').decode()
    found = pictures.as_files(
        f'<img alt="" src="data:image/svg+xml;base64,{data}">', tmp_path, "../"
    )
    assert "mwl-picture" in found and "mwl-drawing" not in found


def test_only_code_is_marked_as_code() -> None:
    def marked(*lines: str) -> bool:
        return "::" in reference.with_code(list(lines))

    assert marked("As here.", "", "    run()")
    assert not marked("- An item.", "", "  More of it.")
    assert not marked("1. An item.", "", "   More of it.")
    assert not marked("As here::", "", "    run()")
    assert not marked(".. code-block:: python", "", "    run()")


def test_an_appendix_has_its_place_after_the_lessons() -> None:
    written = {page.name: page for page in generated_pages.pages(tree.tree(PROJECT, "en"))}
    assert written["lessons"].ids[-1] == ["published_program"]
    assert "\n/13_beyond_data_parallelism\n/published_program\n" in written["lessons"].text
    link = "- [Run the published program](/notebooks/en/published_program.ipynb)"
    assert link in written["index"].text


def test_what_is_no_site_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "thesis.txt").write_text("years")
    assert main(["build", "--root", str(ROOT), "--output", str(tmp_path)]) == 1
    assert f"{tmp_path} contains en, which is not part of a built site" in capsys.readouterr().err
    (tmp_path / MARKER_FILE).touch()
    assert main(["build", "--root", str(ROOT), "--output", str(tmp_path)]) == 1
    assert "contains thesis.txt, which is not part of a built site" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER_FILE, "en", "thesis.txt"]
    assert main(["build", "--root", str(ROOT), "--output", str(tmp_path / "thesis.txt")]) == 1
    assert "The site cannot be stored in" in capsys.readouterr().err


def test_an_older_site_makes_room(tmp_path: Path) -> None:
    (tmp_path / "site" / "en").mkdir(parents=True)
    (tmp_path / "site" / "en" / "old.html").touch()
    (tmp_path / "site" / MARKER_FILE).touch()
    prepare_output(tmp_path / "site", {"en", MARKER_FILE})
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "site", tmp_path / "site" / MARKER_FILE]


def test_a_port_that_cannot_be_had_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index.html").touch()
    with serve.serving(tmp_path) as address:
        for port in (address.rpartition(":")[2], "70000"):
            assert main(["serve", "--output", str(tmp_path), "--port", port]) == 1
            assert f"Port {port} is not available: " in capsys.readouterr().err


def test_the_site_of_an_owner_is_at_the_root() -> None:
    def site(name: str) -> str:
        return Project(ROOT, repository=f"https://github.com/Us/{name}").site

    assert site("course") == "https://us.github.io/course"
    assert site("us.github.io") == "https://us.github.io"


def test_words_that_have_no_translation_stay_english() -> None:
    assert strings.translator(PROJECT, "ru")("no such words") == "no such words"


def test_a_folded_cell_is_folded_on_its_page(tmp_path: Path) -> None:
    cells = [code_cell("shown", "1"), {**code_cell("shown-check", "assert 1"), "metadata": {}}]
    notebook.fold(cells[1])
    path = tmp_path / "a.ipynb"
    path.write_text(notebook_text(*cells), "utf-8")
    written = json.loads(sources._notebook(Page("a", path, path, "en"), tmp_path))
    found = [notebook.tags(cell) for cell in written["cells"]]
    assert found == [[], [sources.FOLDED_TAG]]


def test_the_first_page_leads_each_path_in_reading_order() -> None:
    start = next(generated_pages.pages(tree.tree(PROJECT, "en")))
    keras, estimator = start.text.index("**Keras path**"), start.text.index("**Estimator path**")
    places = [start.text.index(f"/notebooks/en/{number}_", keras) for number in ("03", "04", "07")]
    assert keras < places[0] < places[1] < places[2] < estimator
    rest = start.text[estimator:]
    assert rest.index("[1. ") < rest.index("[9. ") < rest.index("[11. ")
    assert rest.index("- then the Keras path") < rest.index("**Optional: [2. ")
