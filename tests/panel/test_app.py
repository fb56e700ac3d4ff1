"""The panel as a page whose address names the language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from helpers import i18n
from helpers.course.panel.app import NAMES, app, links

CURRENT = re.compile(r'<a href="([^"]*)" lang="([^"]*)" hreflang="\2" aria-current="page">')


@pytest.fixture(autouse=True)
def english_afterwards() -> Iterator[None]:
    yield
    i18n.set_language("en")


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LESSON_LANG": "es"}, "es"),
        ({"LESSON_LANG": "es", "QUERY_STRING": "theme=dark&lang=ko"}, "ko"),
        ({"LESSON_LANG": "es", "QUERY_STRING": "lang="}, "es"),
        ({"QUERY_STRING": "lang=zh-CN"}, "zh"),
        ({"QUERY_STRING": "lang=RU&lang=es_MX"}, "es"),
        ({"LESSON_LANG": "ru", "QUERY_STRING": "lang=tlh"}, "en"),
    ],
)
def test_the_address_names_the_language_else_the_environment_does(
    environment: dict[str, str], language: str
) -> None:
    page = app(environment)
    head = page.children[0].value
    assert i18n.language() == language
    assert page.children[1].run_button.description == i18n._("Run")
    assert [tag.partition("-")[0] for _to, tag in CURRENT.findall(head)] == [language]
    assert ("tlh" in head and "English" in head) == ("tlh" in str(environment))
    page.children[1].close()


def test_there_is_a_link_for_each_language_in_its_own_words() -> None:
    assert set(NAMES) == set(i18n.languages())
    found = links("ko", {"theme": "dark", "lang": "ko", "q": '"><b>'})
    assert found.count("<a ") == len(NAMES) and found.count("aria-current") == 1
    assert all(f">{name}</a>" in found for name in NAMES.values())
    assert 'href="?theme=dark&amp;lang=zh&amp;q=' in found and "<b>" not in found
    assert 'lang="zh-Hans"' in found  # otherwise a browser may use Japanese glyphs


def test_what_stands_in_the_address_is_no_markup() -> None:
    page: Any = app({"QUERY_STRING": "lang=%3Cimg%20src%3Dx%3E"})
    assert "<img" not in page.children[0].value and "&lt;img" in page.children[0].value
    page.children[1].close()
