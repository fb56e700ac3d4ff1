"""Checks that a translation has the numbers of the English text, in its language's notation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.l10n.text_checks import ADDRESS, CODE, DESTINATION, MATH, PLACEHOLDER, TAG, Problem

SPACES = " \u00a0\u202f"
UNITS = {
    "thousand": 10**3, "million": 10**6, "billion": 10**9,
    "тыс": 10**3, "млн": 10**6, "млрд": 10**9, "миллион": 10**6, "миллиард": 10**9,
    "千": 10**3, "万": 10**4, "亿": 10**8, "천": 10**3, "만": 10**4, "억": 10**8,
    "mil": 10**3, "millón": 10**6, "millones": 10**6,
}  # fmt: skip
NUMBER = re.compile(
    rf"(?<![A-Za-z_\d])\d+(?:[{SPACES}]\d{{3}}(?!\d))*(?:[.,]\d+)*"
    rf"(?:[{SPACES}-]?({'|'.join(sorted(UNITS, key=len, reverse=True))}))?"
)
NUMBER_WORDS = {
    "half": "0.5", "zero": "0", "zeros": "0",
    "once": "1", "one": "1", "first": "1", "single": "1", "alone": "1",
    "two": "2", "twice": "2", "both": "2", "second": "2", "pair": "2", "double": "2",
    "three": "3", "third": "3", "thirds": "3", "four": "4", "fourth": "4", "five": "5",
    "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
    "fifteen": "15", "twenty": "20",
    "thirty": "30", "sixty": "60", "quarter": "4", "quarters": "4", "fifth": "5", "eighth": "8",
    "tenth": "10", "twentieth": "20",
    "hundred": "100", "thousand": "1000", "million": "1000000", "a": "1", "an": "1",
    "each": "1", "per": "1", "every": "1",
}  # fmt: skip

PHRASES = {
    "half an hour": "30", "half a minute": "30", "one and a half": "1.5", "sixty-fourth": "64",
    "four billion": "4000000000",
}  # fmt: skip


def check_numbers(lang: str, english: str, text: str) -> Iterator[Problem]:
    """Checks that numbers are equal, in any valid notation.

    0.98 may be 0,98. 60,000 may be 60 000 or 6 万. English words may be digits.
    """
    left = [(number, readings(number)) for number in find_numbers(text)]
    for number in find_numbers(english):
        match = next((pair for pair in left if pair[1] & readings(number)), None)
        if match is None:
            yield Problem(f"the number {number.strip()} is missing", _TODO)
        else:
            left.remove(match)
    words = english.lower()
    spelt = {NUMBER_WORDS[word] for word in re.findall(r"[a-z]+", words) if word in NUMBER_WORDS}
    spelt |= {value for phrase, value in PHRASES.items() if phrase in words}
    for number, values in left:
        if not values & spelt:
            yield Problem(f"the number {number.strip()} is not in the English text", _TODO)


_TODO = "Write the numbers of the English text in figures, as your language writes them."


def readings(number: str) -> set[str]:
    """The possible values of a written number, whose comma or point may be a decimal separator."""
    match = NUMBER.fullmatch(number)
    word = match[1] or "" if match else ""
    digits = re.sub(rf"[{SPACES}-]", "", number.removesuffix(word))
    found = {digits, digits.replace(",", ""), digits.replace(".", "").replace(",", ".")}
    if word:
        plain = [value for value in found if re.fullmatch(r"\d+(\.\d+)?", value)]
        found |= {f"{float(value) * UNITS[word]:.0f}" for value in plain}
    return found


def find_numbers(text: str) -> list[str]:
    """The numbers written in digits outside of code, math and addresses."""
    for pattern in (CODE, MATH, DESTINATION, TAG, ADDRESS, PLACEHOLDER):
        text = pattern.sub(" ` ", text)
    return [match[0] for match in NUMBER.finditer(text)]
