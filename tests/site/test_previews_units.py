"""What other sites show of the site: previews of links, and the feed of releases."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.support import ROOT
from tools.lessons.project import Project, ToolError
from tools.site import feed, previews, strings, tree
from tools.site.tree import Page

PROJECT = Project.load(ROOT)
REPOSITORY = "https://github.com/Us/course"
PUBLISHED = replace(PROJECT, repository=REPOSITORY)
ATOM = "{http://www.w3.org/2005/Atom}"
CHANGES = """# Changelog

## 0.3.0 (not yet released)

- Secret.

## 0.2.0 (2026-12-01)

### Lessons

- More & `code` < 3.

## 0.1.0 (2026-11-01)

- First.
"""


def test_a_description_is_the_beginning_of_the_page() -> None:
    found = previews.description(["In this lesson you will", "start\ntwo processes.", "C"])
    assert found == "In this lesson you will start two processes. C"
    assert previews.description(["a" * 60, "b"]) == "a" * 60
    assert previews.description([]) == ""


@pytest.mark.parametrize("text", ["word " * 100, "字" * 300])
def test_a_long_description_is_cut_between_words(text: str) -> None:
    found = previews.description([text])
    assert previews.LONGEST - 10 < len(found) <= previews.LONGEST
    assert found.endswith(("word…", "字…"))


@pytest.mark.parametrize(
    ("lang", "locale"),
    [("en", "en_US"), ("ru", "ru_RU"), ("zh", "zh_CN"), ("ko", "ko_KR"), ("es", "es_ES")],
)
def test_a_page_names_its_picture_and_its_language(lang: str, locale: str) -> None:
    found = previews.tags(
        tree.tree(PUBLISHED, lang), f"{lang}/a.html", "<code>a</code> &amp; b", "c"
    )
    site = "https://us.github.io/course"
    assert '<meta property="og:title" content="a &amp; b">' in found
    assert f'<meta property="og:locale" content="{locale}">' in found
    assert f'<meta property="og:url" content="{site}/{lang}/a.html">' in found
    assert f'<meta property="og:image" content="{site}/pictures/preview-{lang}.png">' in found
    assert '<meta name="description" content="c">' in found


def test_without_an_address_a_page_has_only_its_description() -> None:
    found = previews.tags(tree.tree(PROJECT, "en"), "en/a.html", "a", '"b"')
    assert found == '<meta name="description" content="&quot;b&quot;">'


@pytest.mark.parametrize("lang", tree.languages(PROJECT))
def test_the_picture_is_large_and_light(lang: str, tmp_path: Path) -> None:
    previews.write_picture(tree.tree(PROJECT, lang), tmp_path)
    path = tmp_path / previews.picture_name(lang)
    with Image.open(path) as picture:
        assert picture.size == (1200, 630)
    assert path.stat().st_size < 200_000


def test_a_readme_without_a_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# a\n")
    page = Page("docs/README", tmp_path / "README.md", tmp_path / "README.md", "en")
    with pytest.raises(ToolError, match="has no picture"):
        previews.write_picture(tree.Tree(PROJECT, "en", {page.name: page}, {}), tmp_path)


def changed(folder: Path, text: str) -> Project:
    (folder / "CHANGELOG.md").write_text(text)
    return replace(PUBLISHED, root=folder)


def test_the_feed_has_the_releases_and_not_the_next_one(tmp_path: Path) -> None:
    text = feed.feed(changed(tmp_path, CHANGES))
    root = ET.fromstring(text.encode())
    entries = root.findall(f"{ATOM}entry")
    name = strings.NAME
    assert [one.findtext(f"{ATOM}title") for one in entries] == [f"{name} 0.2.0", f"{name} 0.1.0"]
    assert root.findtext(f"{ATOM}updated") == "2026-12-01T00:00:00Z"
    for one in (root, *entries):
        for required in ("id", "title", "updated"):
            assert one.findtext(f"{ATOM}{required}")
    assert root.find(f"{ATOM}author/{ATOM}name") is not None
    content = entries[0].findtext(f"{ATOM}content") or ""
    assert "<li>More &amp; <code>code</code> &lt; 3.</li>" in content
    assert "First" not in content and "Secret" not in text
    assert entries[1].find(f"{ATOM}link").get("href") == f"{REPOSITORY}/releases/tag/v0.1.0"  # type: ignore[union-attr]


def test_there_is_no_feed_without_an_address_or_a_release(tmp_path: Path) -> None:
    unreleased = changed(tmp_path, CHANGES.partition("## 0.2.0")[0])
    assert feed.feed(unreleased) == ""
    assert feed.feed(replace(changed(tmp_path, CHANGES), repository="")) == ""
