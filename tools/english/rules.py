"""Rules that find unidiomatic or hard-to-read technical English."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.english.sources import WORD, Passage

MAX_WORDS = 30  # of a sentence
MAX_SEMICOLONS = 1  # of a paragraph
SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\bvs)(?<!\betc)[.!?][\"”’)]*\s+")

# Correct uses, each with a reason, which are removed before the rules are applied.
EXCEPTIONS = {
    r"\bconnections? (?:is |was |were )?refused\b": "the name of an operating system's error",
    r"\bcopyright notices?\b": "a term of licences",
}


@dataclass(frozen=True)
class Rule:
    """Something to avoid.

    Attributes:
      name: the name in the baseline.
      todo: the instruction for the writer.
      find: returns the findings in a text.
    """

    name: str
    todo: str
    find: Callable[[str], Iterator[str]]


def findings(rule: Rule, passage: Passage) -> list[str]:
    """The findings of a rule in a passage."""
    text = passage.text
    for pattern in EXCEPTIONS:
        text = re.sub(pattern, " ", text, flags=re.IGNORECASE)
    return list(rule.find(text))


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [part for part in SENTENCE_END.split(text) if part]


def _long_sentences(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        if (count := len(WORD.findall(sentence))) > MAX_WORDS:
            yield f"{count} words: {sentence[:60]}…"


def _semicolons(text: str) -> Iterator[str]:
    if (count := text.count(";")) > MAX_SEMICOLONS:
        yield f"{count} semicolons: {text[:60]}…"


def _words(*patterns: str) -> Callable[[str], Iterator[str]]:
    """A function that finds words and phrases, given as patterns that match whole words."""
    pattern = re.compile(rf"\b(?:{'|'.join(patterns)})\b", re.IGNORECASE)
    return lambda text: (match[0] for match in pattern.finditer(text))


def _home_made(text: str) -> Iterator[str]:
    for pattern, term in TERMS.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            yield f"{match[0]} → {term}"


def _conditional_where(text: str) -> Iterator[str]:
    for match in WHERE.finditer(text):
        yield match[0][:60]


# Words that this project invented, with their standard terms.
TERMS = {
    r"exchanges? of (?:the )?gradients|the exchange": "all-reduce, communication",
    r"loops? of (?:your|one's|its) own|own loops?": "custom training loop",
    r"(?:longer|shorter) steps?|step is too (?:long|short)": "larger or smaller step",
    r"promises?": "future",
    r"dealt out|deals? out": "distributed, sharded, assigned round-robin",
    r"wait for some": "backup workers",
    r"held back": "held out",
    r"drawn? out to": "extrapolate",
    r"time of a processor": "CPU time",
    r"numbers of \d+ b\w+": "16-bit floating point, 4-byte floats",
    r"takes? (?:nobody|no one) in": "a worker cannot rejoin",
    r"no sign of life": "does not respond",
    r"makes? no step|stands? still|standstill": "makes no progress, hangs",
    r"notic(?:es|ed|ing)": "detect",
    r"harm(?:s|ed|ing)?|deeds?": "inject a fault, fault",
    r"laborator(?:y|ies)": "fault-injection lab",
    r"jail(?:s|ed)?": "sandbox",
    r"levers?": "optimization",
    r"bit by bit": "bit for bit",
    r"refus(?:e|es|ed|ing|al)": "reject, raise an error",
}

# Conditional "where" at the start of a sentence, and phrases with "where" that name no place.
WHERE = re.compile(
    r"(?:^|[.;:!?] )Where (?!(?:to|is|are|does|do|did|can)\b)[^.;:?]*,"
    r"|(?<!from )\bwhere (?:there (?:is|are|was|were)|(?:it|they|that) (?:can|cannot|could|does|do"
    r"|fits?|needs?|helps?|matters?|holds?)|needed|possible|necessary|nothing|none|no)\b"
)

RULES = (
    Rule(
        "archaic",
        "Write the everyday word: fix, again, forever, next to, continue, except for.",
        _words(
            "mend(?:s|ed|ing)?", "anew", "for ever", "besides?", "as ever", "but for",
            "so it (?:is|would be)", "the other way about", "(?:go|goes|going|went|gone) on",
            "beforehand", "whilst", "thereof", "therein", "lest", "hence", "whence", "henceforth",
            "alas", "save (?:for|in|where|that)", "upwards",
        ),
    ),
    Rule(
        "people",
        "Name the thing: no worker, each task, which process.",
        _words(
            "nobody", "somebody", "anybody", "everybody", "whom", "whoever", "whose turn", "no one",
            "is told", "are told", "was told", "were told", "being told",
        ),
    ),
    Rule(
        "of its own",
        "Write: its own, a separate, a custom.",
        _words("of (?:its|their|your|our|his|one's|my) own", "the one of", "the ones of"),
    ),
    Rule("where", "Write “if” or “when” for a condition.", _conditional_where),
    Rule("semicolons", "Write sentences, joined by because, so, but.", _semicolons),
    Rule("long sentence", f"Split it: at most {MAX_WORDS} words.", _long_sentences),
    Rule(
        "training",
        "Write: a training run, training runs; training waits.",
        _words(
            "a training(?! (?:run|loop|step|job|set|script|program|example|function|task|process|"
            "data|dataset|framework|API|epoch|operator|graph|session|strategy|batch))",
            "trainings",
            "the training (?:waits|ends|goes|starts|continues|stops|needs|lasts)",
        ),
    ),
    Rule(
        "home-made term",
        "Write the field's term.",
        _home_made,
    ),
)  # fmt: skip
