"""Rewords: English messages whose wording changed, but not their meaning.

A translation of such a message is still valid. The pairs of old and new texts are in
locales/rewords, with one file per domain. `update` reads them, and a reviewer sees them in the
diff.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from babel.messages.catalog import Message

from tools.l10n.lesson_checks import compare
from tools.l10n.numbers import NUMBER_WORDS, find_numbers
from tools.l10n.text_checks import BARE_CODE, CODE, check_addresses, check_placeholders
from tools.lessons.project import Project, ToolError, read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Text = tuple[str, ...]  # a message's English: one text, or singular and plural
HEAD = """\
# English that changed in wording only, so that its translations still hold. Written by
# `python -m tools.l10n reword`; CONTRIBUTING.md describes it.
"""
COUNTS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
          "twelve", "twenty", "thirty", "sixty", "hundred", "thousand", "million")  # fmt: skip


@dataclass(frozen=True)
class Reword:
    """A message before and after a change of its wording.

    Attributes:
      old, new: the two texts.
      allow: the differences that are allowed, in the wording of `differences`.
    """

    old: Text
    new: Text
    allow: tuple[str, ...] = ()


def text_of(message: Message) -> Text:
    """The English of a message."""
    return (message.id,) if isinstance(message.id, str) else tuple(message.id)


def path_of(project: Project, domain: str) -> Path:
    """The file with the rewords of a domain."""
    return project.root / "locales" / "rewords" / f"{domain}.toml"


def read(project: Project, domain: str) -> list[Reword]:
    """The recorded rewords of a domain."""
    path = path_of(project, domain)
    return loads(read_text(path), project.short(path)).get(domain, []) if path.exists() else []


def loads(text: str, name: str) -> dict[str, list[Reword]]:
    """The rewords of each domain in a text that `dumps` wrote and a maintainer edited.

    Raises:
      ToolError: it is not such a text.
    """
    try:
        tables: dict[str, list[dict[str, Any]]] = tomllib.loads(text)
        return {
            domain: [
                Reword(_text(row["old"]), _text(row["new"]), tuple(row.get("allow", ())))
                for row in rows
            ]
            for domain, rows in tables.items()
        }
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ToolError(
            f"{name} is not a list of rewords: {error}. Start from the output of "
            "`python -m tools.l10n reword --list`."
        ) from None


def dumps(domain: str, rewords: Iterable[Reword], notes: Mapping[Reword, str] | None = None) -> str:
    """The rewords of a domain as TOML, each with its note and its differences as comments."""
    blocks = []
    for reword in rewords:
        lines = [f"# {notes[reword]}"] if notes else []
        lines += [f"[[{_quote(domain)}]]"]
        lines += [f"old = {_toml(reword.old)}", f"new = {_toml(reword.new)}"]
        if reword.allow:
            lines.append(f"allow = [{', '.join(map(_quote, reword.allow))}]")
        elif notes and (found := differences(reword.old, reword.new)):
            lines.append(
                "# Rejected unless each of these is right. If so, remove the first two characters."
            )
            lines.append(f"# allow = [{', '.join(map(_quote, found))}]")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def differences(old: Text, new: Text) -> list[str]:
    """Differences that a reword must not have, as sentences without a period."""
    if len(old) != len(new):
        return ["a plural form is missing or new"]
    pairs = zip(old, new, strict=True)
    return list(dict.fromkeys(found for pair in pairs for found in _differences(*pair)))


def objections(reword: Reword) -> list[str]:
    """The differences that the reword does not allow."""
    return [found for found in differences(reword.old, reword.new) if found not in reword.allow]


def earlier_texts(rewords: Iterable[Reword], new: Text) -> list[Text]:
    """The earlier texts of a message, the newest first."""
    before: dict[Text, list[Text]] = {}
    for reword in rewords:
        before.setdefault(reword.new, []).append(reword.old)
    found = [new]
    for text in found:  # the list grows during the loop
        found += [old for old in before.get(text, []) if old not in found]
    return found[1:]


def record(project: Project, domain: str, accepted: Iterable[Reword]) -> str:
    """The text of a domain's file with these rewords added."""
    rewords = {(known.old, known.new): known for known in read(project, domain)}
    rewords |= {(reword.old, reword.new): reword for reword in accepted}
    return HEAD + "\n" + dumps(domain, rewords.values())


def _differences(old: str, new: str) -> Iterator[str]:
    for check in (check_placeholders, check_addresses):
        for problem in check("en", old, new):
            yield problem.what.replace("the English text", "the old text")
    for problem, _text in compare(old, new):
        yield problem.what.replace("the English text", "the old text").replace(
            "in English: ", "before: "
        )
    yield from _lost_and_found("number", _numbers(old), _numbers(new))
    yield from _lost_and_found("code", _bare_code(old), _bare_code(new))


def _lost_and_found(name: str, old: Counter[str], new: Counter[str]) -> Iterator[str]:
    for item in sorted((old - new).elements()):
        yield f"{name} {item} is missing"
    for item in sorted((new - old).elements()):
        yield f"{name} {item} is not in the old text"


def _numbers(text: str) -> Counter[str]:
    """Numbers in digits or words, except "one" and "first", which often do not count anything."""
    words = re.findall(r"[a-z]+", CODE.sub(" ", text).lower())
    figures = (number.strip().replace(",", "") for number in find_numbers(text))
    return Counter([*figures, *(NUMBER_WORDS[word] for word in words if word in COUNTS)])


def _bare_code(text: str) -> Counter[str]:
    return Counter(BARE_CODE.findall(CODE.sub(" ", text)))


def _text(value: Any) -> Text:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise TypeError(f"{value!r} is neither a text nor a list of texts")


def _toml(text: Text) -> str:
    return _quote(text[0]) if len(text) == 1 else f"[{', '.join(map(_quote, text))}]"


def _quote(text: str) -> str:
    """A TOML string. Every JSON string is also a TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
