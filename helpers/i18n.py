"""The language of the messages that a reader sees.

`python -m tools.l10n build` compiles the catalogs that this module reads, from
locales/<lang>/LC_MESSAGES/helpers.po into locale/<lang>/LC_MESSAGES/helpers.mo next to it.
"""

from __future__ import annotations

import gettext
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCALE_DIR = Path(__file__).with_name("locale")
DOMAIN = "helpers"
ENGLISH = "en"
LANGUAGE = "LESSON_LANGUAGE"  # the notebook's language, for a worker

# The format of a language for Python's 1,234.5 or 98.1%.
_COMMA = str.maketrans({",": "\u00a0", ".": ",", "%": "\u00a0%"})
WITH_DECIMAL_COMMA = frozenset({"es", "ru"})
MIN_GROUPED = 9999.5  # four digits are not separated (Ortografía de la lengua española, 2010)

_translations: gettext.NullTranslations = gettext.NullTranslations()
_language = ENGLISH
_warned: set[str] = set()


def set_language(lang: str) -> str:
    """Sets the language of all messages, of this process and of workers that it starts.

    Returns: the language in use.

    Args:
      lang: a code such as ``"ru"``. Only the first part of ``"zh-CN"`` or ``"es_MX"`` counts. A
        language without a catalogue is replaced by English, with one warning.
    """
    global _translations, _language  # noqa: PLW0603  # a process speaks one language
    wanted = lang.replace("-", "_").partition("_")[0].lower()
    if wanted != ENGLISH and wanted not in languages():
        _warn_once(lang)
        wanted = ENGLISH
    _translations = (
        gettext.NullTranslations()
        if wanted == ENGLISH
        else gettext.translation(DOMAIN, LOCALE_DIR, [wanted])
    )
    _language = os.environ[LANGUAGE] = wanted
    return wanted


@contextmanager
def use_language(lang: str) -> Iterator[str]:
    """Sets the language, as `set_language` does, until the end of a `with` block.

    Yields: the language in use.
    """
    before = language()
    try:
        yield set_language(lang)
    finally:
        set_language(before)


def language() -> str:
    """The code of the language in use."""
    return _language


def languages() -> list[str]:
    """The languages that messages can be shown in."""
    found = {path.parts[-3] for path in LOCALE_DIR.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")}
    return sorted({ENGLISH, *found})


def _(message: str) -> str:
    """A message in the language in use. Call it when the message is shown, not at import."""
    return _translations.gettext(message)


def ngettext(singular: str, plural: str, n: int) -> str:
    """The form of a message that goes with the number `n`."""
    return _translations.ngettext(singular, plural, n)


def number(value: float, spec: str) -> str:
    """Formats a number in the language in use: `number(12345.6, ",.1f")` is 12 345,6 in Russian.

    Args:
      spec: a format specification of Python.
    """
    if _language not in WITH_DECIMAL_COMMA:
        return format(value, spec)
    if abs(value) < MIN_GROUPED:
        spec = spec.replace(",", "")
    return format(value, spec).translate(_COMMA)


class LocalNumber(float):
    """A number that `str.format` writes as the language in use does, as in ``"{seconds:g} s"``."""

    def __format__(self, spec: str) -> str:
        return number(float(self), spec)


def join_sentences(sentences: Iterable[str]) -> str:
    """Joins sentences, without a space between them in Chinese."""
    return ("" if _language == "zh" else " ").join(sentences)


def join_items(items: Iterable[str], lang: str | None = None) -> str:
    """Joins the items of a list as in the given language, by default the language in use."""
    return ("、" if (lang or _language) == "zh" else ", ").join(items)


def join_phrases(phrases: Iterable[str]) -> str:
    """Joins phrases about one subject, such as numbers with their names, or states."""
    return ("，" if _language == "zh" else ", ").join(phrases)


def join_clauses(clauses: Iterable[str]) -> str:
    """Joins clauses that contain lists or commas."""
    return ("；" if _language == "zh" else "; ").join(clauses)


def labeled(name: object, value: object) -> str:
    """A name and its value, with the language's colon between them: `loss: 0.5`."""
    return f"{name}：{value}" if _language == "zh" else f"{name}: {value}"


def gettext_noop(message: str) -> str:
    """Marks a message that is looked up later, with ``_(variable)``."""
    return message


def _warn_once(lang: str) -> None:
    if lang not in _warned:
        _warned.add(lang)
        known = ", ".join(languages())
        warnings.warn(
            f"There are no messages in {lang!r}; they are shown in English. "
            f"set_language takes one of: {known}.",
            stacklevel=3,
        )
