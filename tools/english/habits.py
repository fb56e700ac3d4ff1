"""Frequencies of ten habits of English per 1,000 words, compared with TensorFlow's docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from tools.english.sources import Passage, count_words, paragraphs, plain

TENSORFLOW = ("distribute", "data")  # folders of tensorflow/python
ARCHAIC = (
    r"\b(?:(?:go|goes|going|went) on|besides?|(?:start|begin)s? again|for ever|anew|mend(?:s|ed)?"
    r"|so it (?:is|would be)|as ever|but for|on the way|the other way about)\b"
)
HABITS = {
    "processes as people": r"\b(?:nobody|somebody|anybody|everybody|whoever|whom|who|says?)\b",
    # A question may ask "what".
    "what, where for a noun, an if": (r"\bwhat\b(?![^.!?]*\?)|\bwhere (?:there|it|they|no)\b"),
    "semicolons": ";",
    "of its own": r"\bof (?:its|their|your|our) own\b",
    "that of, those of": r"\b(?:that|those|the ones?) of\b",
    "made, take, give, lie, stand": (r"\b(?:made|takes?|gives?|given by|lies?|stands?|comes?)\b"),
    "archaic words": ARCHAIC,
    "a training": r"\btrainings\b|\ba training(?= (?:that|is|of|on|with|which|ends)\b|[.,;:])",
    "home-made terms": (
        r"\b(?:the exchange|refus\w+|notic(?:es|ed)|levers?|deeds?|laborator\w+|jails?|harm\w*"
        r"|promises?|(?:longer|shorter) steps?|own loop)\b"
    ),
    "is told, has each keep, since": (
        r"\b(?:is|are|was|were) (?:told|refused|given)\b|\bha(?:s|ve) (?:each|every|the) \w+ \w+\b"
        r"|[,;] (?:since|for) (?:it|the|they|a|an|no|each)\b"
    ),
}


def table(texts: Iterable[Passage]) -> str:
    """The rates in the course's prose, in its code and in TensorFlow, as a Markdown table."""
    texts = list(texts)
    code = [text for text in texts if text.file.endswith(".py") and text.place != "message"]
    prose = [text for text in texts if not text.file.endswith(".py") or text.place == "message"]
    groups = [prose, code, list(tensorflow())]
    lines = [
        "| per 1,000 words | lessons, documents, messages | docstrings, comments | TensorFlow |",
        "|---|---|---|---|",
    ]
    for name, pattern in HABITS.items():
        cells = (f"{rate(pattern, group):.2f}" for group in groups)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    words = (f"{count_words(group):,}" for group in groups)
    return "\n".join([*lines, f"| words | {' | '.join(words)} |"])


def rate(pattern: str, texts: list[Passage]) -> float:
    """The number of occurrences of a pattern per 1,000 words."""
    found = sum(len(re.findall(pattern, text.text, re.IGNORECASE)) for text in texts)
    return 1000 * found / max(count_words(texts), 1)


def tensorflow() -> Iterator[Passage]:
    """The docstrings of `tensorflow/python/distribute` and `data`, if TensorFlow is installed."""
    spec = find_spec("tensorflow")
    if spec is None or spec.origin is None:
        return
    python = Path(spec.origin).parent / "python"
    for path in (p for folder in TENSORFLOW for p in sorted((python / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                for paragraph in paragraphs(ast.get_docstring(node) or ""):
                    yield Passage(path.name, "docstring", plain(paragraph))
