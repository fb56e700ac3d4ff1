"""The language of the messages that helpers shows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import i18n
from helpers.i18n import _, ngettext
from tests.support.l10n_project import make_project, run, text_cell, translate

RUSSIAN = ("{n} шаг", "{n} шага", "{n} шагов")


@pytest.fixture(autouse=True)
def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiled Russian messages, and English again afterwards."""
    project = make_project(tmp_path, text_cell("a", "Text"), messages=True)
    run(project, "update", "--lang", "ru")
    texts = {"ready": "готово", "{n} step": RUSSIAN}
    translate(project, "ru", texts, domain="helpers")  # type: ignore[arg-type]
    run(project, "build")
    monkeypatch.setattr(i18n, "LOCALE_DIR", tmp_path / "helpers" / "locale")
    monkeypatch.setattr(i18n, "_warned", set())
    yield
    i18n.set_language("en")


def test_messages_are_english_at_first() -> None:
    assert (i18n.language(), _("ready")) == ("en", "ready")
    assert ngettext("{n} step", "{n} steps", 2) == "{n} steps"


def test_a_language_has_its_plural_forms() -> None:
    assert i18n.set_language("ru") == "ru"
    assert _("ready") == "готово"
    forms = [ngettext("{n} step", "{n} steps", n).format(n=n) for n in (1, 2, 5, 21)]
    assert forms == ["1 шаг", "2 шага", "5 шагов", "21 шаг"]


def test_a_message_without_translation_stays_english() -> None:
    i18n.set_language("ru")
    assert _("no such message") == "no such message"


@pytest.mark.parametrize("name", ["ru-RU", "ru_UA", "RU"])
def test_of_a_regional_name_the_language_counts(name: str) -> None:
    assert i18n.set_language(name) == "ru"


def test_an_unknown_language_falls_back_to_english_with_one_notice() -> None:
    i18n.set_language("ru")
    with pytest.warns(UserWarning, match=r"no messages in 'tlh'.*one of: en, ru"):
        assert i18n.set_language("tlh") == "en"
    assert _("ready") == "ready"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert i18n.set_language("tlh") == "en"


def test_a_message_marked_for_later_is_itself() -> None:
    assert i18n.gettext_noop("ready") == "ready"
