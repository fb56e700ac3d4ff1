"""Checks of a translation against its English text: numbers, placeholders, links and others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """A problem of a message, and the instruction to fix it."""

    what: str
    todo: str
    advisory: bool = False


Check = Callable[[str, str, str], Iterator[Problem]]  # (language, English, translation)

CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
MATH = re.compile(r"\$\$.+?\$\$|\$(?!\s)[^$\n]+?\$", re.DOTALL)
DESTINATION = re.compile(r"\]\((?:[^()]|\([^()]*\))*\)")
TAG = re.compile(r"</?[A-Za-z!][^<>]*>")
ADDRESS = re.compile(r"https?://[!-~]+")
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|\{[A-Za-z_]\w*(?:[.\[!:][^{}]*)?\}")
# Code without backquotes in a program's message: "RING", steps=, stop(), tf.data.Dataset,
# strategy.scope(), LocalCluster(workers=N), workers=(1, 2).
_ARGUMENTS = r"\((?:[ -'*-~…]|\([ -'*-~…]*\))*\)"  # ASCII, unlike the prose of translations
BARE_CODE = re.compile(
    rf"TensorFlow Datasets|\b(?a:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*){_ARGUMENTS}"
    rf'|"[!#-~]+"|(?:\b\w+|(?<=\}}))={_ARGUMENTS}'
    r"|\b\w+=(?!=)|\b\w+\(\)|\b[A-Za-z]\w*(?:\.[A-Za-z]\w*)+\b"
)
PLACEHOLDER_WORD = "x"  # the word that replaces code, math and placeholders


def strip_markup(text: str) -> str:
    """A message as prose, with code, math and placeholders as one letter and without markup."""
    text = DESTINATION.sub("]", MATH.sub(PLACEHOLDER_WORD, CODE.sub(PLACEHOLDER_WORD, text)))
    text = ADDRESS.sub(PLACEHOLDER_WORD, BARE_CODE.sub(PLACEHOLDER_WORD, TAG.sub("", text)))
    text = PLACEHOLDER.sub(PLACEHOLDER_WORD, text)
    return re.sub(r"\*+|~~|!?\[|\]|(?<!\w)_+|_+(?!\w)", "", text)


def check_placeholders(lang: str, english: str, text: str) -> Iterator[Problem]:
    """Checks that {name} and %(name)s are unchanged."""
    wanted, found = (
        Counter(PLACEHOLDER.findall(MATH.sub(" ", CODE.sub(" ", t)))) for t in (english, text)
    )
    yield from _difference("placeholder", wanted, found, "Write placeholders as in English.")


def check_addresses(lang: str, english: str, text: str) -> Iterator[Problem]:
    """Checks that addresses in the text are unchanged."""
    wanted, found = (
        Counter(a.rstrip(").,;:>*_\"'") for a in ADDRESS.findall(DESTINATION.sub("]", t)))
        for t in (english, text)
    )
    yield from _difference("address", wanted, found, "Copy the address from the English text.")


def check_toolkit(lang: str, english: str, text: str) -> Iterator[Problem]:
    """Applies translate-toolkit's filters that have no false positives for Markdown."""
    for name, problem in _toolkit(lang)(english, text).items():
        yield Problem(f"{problem} (pofilter: {name})", "Compare with the English text.")


# These filters are omitted because of false positives in correct sentences of lessons: urls and
# brackets (full-width punctuation), numbers (0,98), puncspacing, sentencecount, startpunc, endpunc,
# doublequoting («»), simplecaps. Checks of this package replace the first three.
TOOLKIT = [
    "doublewords", "endwhitespace", "escapes", "newlines", "startwhitespace", "tabs", "xmltags"
]  # fmt: skip


@cache
def _toolkit(lang: str) -> Callable[[str, str], dict[str, str]]:
    from translate.filters.checks import CheckerConfig, StandardChecker
    from translate.storage.pypo import pounit

    config = CheckerConfig(targetlanguage="zh_CN" if lang == "zh" else lang)
    checker = StandardChecker(config, limitfilters=TOOLKIT)

    def run(english: str, text: str) -> dict[str, str]:
        unit: Any = pounit(english)
        unit.target = text
        return {name: str(problem) for name, problem in checker.run_filters(unit).items()}

    return run


def _difference(
    name: str, wanted: Counter[str], found: Counter[str], todo: str
) -> Iterator[Problem]:
    for item in sorted((wanted - found).elements()):
        yield Problem(f"{name} {item} is missing", todo)
    for item in sorted((found - wanted).elements()):
        yield Problem(f"{name} {item} is not in the English text", todo)
