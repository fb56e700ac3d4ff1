"""Punctuation and spacing by language, according to `locales/TRANSLATING.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.l10n.text_checks import Problem, strip_markup

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
CYRILLIC = "\u0400-\u04ff"
WIDE = "，。；：！？（）、"

Rule = tuple[str, str, str]  # a forbidden pattern, its name, and the instruction
RULES: dict[str, list[Rule]] = {
    "zh": [
        (
            rf"(?<=[{HAN}])\s?[,;:!?()]|(?<=[{HAN}])\.(?!\w)|[,;:!?()](?=\s?[{HAN}])"
            rf"|(?<=[\w）」”])[,;!?](?=\s|$)|(?<=[A-Za-z）])\.(?=\s|$)",
            "half-width punctuation",
            f"Use the full-width marks {WIDE}",
        ),
        (
            rf"[{HAN}][A-Za-z0-9]|[A-Za-z0-9%][{HAN}]",
            "Chinese and Latin letters without a space",
            "Put one space between Chinese and Latin letters, figures or code.",
        ),
        (
            rf"[ \u00a0][{WIDE}]|[{WIDE}][ \u00a0](?=\S)",
            "a space next to full-width punctuation",
            "Remove the space, because full-width marks include it.",
        ),
        (rf"[{HAN}][ \u00a0]+[{HAN}]", "a space between Chinese characters", "Remove it."),
        (rf"[{HAN}][\"']|[\"'][{HAN}]", "a straight quote", "Use “…”."),
    ],
    "ko": [
        (
            rf"[{WIDE}「」『』]",
            "full-width punctuation",
            "Korean uses the half-width marks , . ; : ! ? ( ).",
        ),
        (r"[가-힣][ ]+[,.;:!?)]", "a space before punctuation", "Remove the space."),
    ],
    "ru": [
        (r"[\"“”„]", "quotes that are not Russian", "Use «…»; „…“ only inside of them."),
        (r"(?<=\S)\s--?\s(?=\S)", "a hyphen for a dash", "Use an em dash: —."),
        (rf"[{CYRILLIC}]\s+[,.;:!?)]", "a space before punctuation", "Remove the space."),
        (
            rf"[A-Za-z][{CYRILLIC}]|[{CYRILLIC}][A-Za-z]|(?<=[{CYRILLIC}]\s)[aceoy](?=\s[{CYRILLIC}])",
            "a Latin letter in a Russian word",
            "Type the word again on a Russian keyboard, or put a hyphen between code and ending.",
        ),
    ],
    "es": [
        (r"[^\W\d_]\s+[,.;:!?)]", "a space before punctuation", "Remove the space."),
    ],
}
PAIRS = ("()", "（）", "«»", "“”", "「」", "『』")
INVERTED = {"es": ("¿?", "¡!")}


def check_punctuation(lang: str, english: str, text: str) -> Iterator[Problem]:
    """Checks the punctuation marks of the language and the spaces next to them."""
    prose = strip_markup(text)
    if lang == "zh" and not re.search(f"[{HAN}]", prose):
        return
    for pattern, what, todo in RULES.get(lang, []):
        for match in re.finditer(pattern, prose):
            around = prose[max(0, match.start() - 6) : match.end() + 6].strip()
            yield Problem(f"{what}: …{around}…", todo)


def check_pairs(lang: str, english: str, text: str) -> Iterator[Problem]:
    """Checks that brackets and quotes are closed, unless the English text does not close them."""
    prose, source = strip_markup(text), strip_markup(english)
    for first, last in (*PAIRS, *INVERTED.get(lang, ())):
        if prose.count(first) != prose.count(last) and (
            first in "¿¡" or source.count(first) == source.count(last)
        ):
            yield Problem(
                f"{first} and {last} are not paired: {prose.count(first)} and {prose.count(last)}",
                f"Begin with {first} and end with {last}.",
            )
