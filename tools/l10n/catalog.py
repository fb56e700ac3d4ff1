"""Catalogs: a domain's messages with their translations, as `.po` and `.mo` files.

Babel reads the files and provides the plural rules. This module writes the files, because Babel
2.18 reads a ``#| msgid`` line as a translator's comment and wraps it if it is long. Babel's header
also contains the time and its own version, which would change files without a reason.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from pathlib import Path

from babel.core import Locale, UnknownLocaleError
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import PoFileError, denormalize, normalize, read_po

from tools.lessons.project import ToolError, read_text

LOCALES = {"zh": "zh_CN"}  # gettext's names of languages, if they differ from the folder's
PREVIOUS = "| "  # the rest of "#| " that Babel leaves in a comment
PERCENT, BRACES = "python-format", "python-brace-format"


class LessonCatalog(Catalog):
    """A catalog whose header has no fields that change by themselves."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        """The header's fields and values."""
        forms = [("Plural-Forms", self.plural_forms)] if self.locale else []
        return [
            ("Project-Id-Version", "multiworker-lessons"),
            ("Language", _gettext_name(self.locale)),
            *forms,
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
        ]


def locale_of(lang: str) -> Locale:
    """Babel's locale for a language's folder.

    Raises:
      ToolError: there is no such language.
    """
    try:
        return Locale.parse(LOCALES.get(lang, lang))
    except (UnknownLocaleError, ValueError):
        raise ToolError(
            f"{lang!r} is not a language code of Babel. Use an ISO 639 code such as fr or ja."
        ) from None


def _gettext_name(locale: Locale | None) -> str:
    return "_".join(filter(None, (locale.language, locale.territory))) if locale else ""


def msgid(message: Message) -> str:
    """The msgid, or the singular of a plural message."""
    return message.id if isinstance(message.id, str) else message.id[0]


def strings(message: Message) -> list[str]:
    """The translations: one, or one per plural form, including empty ones."""
    text = message.string or ""
    return [text] if isinstance(text, str) else [*text]


def translated(message: Message) -> bool:
    """Whether every plural form is translated."""
    return all(strings(message))


def is_current(message: Message | None) -> bool:
    """Whether a message has a translation of its current English text."""
    return message is not None and not message.fuzzy and translated(message)


def untranslated_reason(message: Message | None) -> str:
    """The reason why a message has no usable translation."""
    return "changed in English" if message is not None and message.fuzzy else "not translated"


def from_messages(messages: Iterable[Message], lang: str | None) -> LessonCatalog:
    """A catalog with these messages and a new header."""
    catalog = LessonCatalog(locale=locale_of(lang) if lang else None, charset="utf-8")
    for message in messages:
        if message.id:
            catalog[message.id] = message
    return catalog


def read(path: Path, lang: str) -> LessonCatalog:
    """Reads a `.po` file. A missing file is an empty catalog.

    Raises:
      ToolError: the file is damaged.
    """
    if not path.exists():
        return from_messages([], lang)
    lines = io.StringIO(read_text(path))
    try:
        raw = read_po(lines, locale=locale_of(lang), abort_invalid=True)
    except (PoFileError, ValueError, IndexError, AttributeError) as error:
        raise ToolError(
            f"{path} is damaged: {error}. `msgfmt --check` prints the line to fix."
        ) from None
    catalog = from_messages(raw, lang)
    catalog.obsolete = raw.obsolete
    for message in catalog:
        _restore_previous(message)
    return catalog


def dumps(catalog: LessonCatalog) -> str:
    """The text of a `.po` file, with one line per message, however long."""
    header = "".join(f'"{name}: {value}\\n"\n' for name, value in catalog.mime_headers)
    parts = [f'msgid ""\nmsgstr ""\n{header}']
    parts += [_entry(m, catalog.num_plurals) for m in catalog if m.id]
    parts += [_obsolete(m, catalog.num_plurals) for m in catalog.obsolete.values()]
    return "\n".join(parts)


def compiled(catalog: LessonCatalog) -> bytes:
    """The bytes of a `.mo` file, without fuzzy messages."""
    buffer = io.BytesIO()
    write_mo(buffer, catalog)
    return buffer.getvalue()


def drop_format_flags(message: Message, *, keep_braces: bool = False) -> None:
    """Removes the flags of formats that Babel has guessed.

    In prose, "100 % of" is not a format, and msgfmt would reject the flag.

    Args:
      keep_braces: whether the message belongs to code, which formats with braces.
    """
    message.flags -= {PERCENT} if keep_braces else {PERCENT, BRACES}


def _restore_previous(message: Message) -> None:
    previous = [c.removeprefix(PREVIOUS) for c in message.user_comments if c.startswith(PREVIOUS)]
    message.user_comments = [c for c in message.user_comments if not c.startswith(PREVIOUS)]
    texts: list[list[str]] = []
    for line in previous:
        keyword, _, rest = line.partition(" ") if line.startswith("msgid") else ("", "", line)
        if keyword:
            texts.append([])
        if texts:
            texts[-1].append(rest)
    message.previous_id = ["".join(denormalize(part) for part in text) for text in texts]


def _entry(message: Message, plurals: int) -> str:
    files = list(dict.fromkeys(file for file, _ in message.locations))
    lines = [f"# {text}".rstrip() for text in message.user_comments]
    lines += [f"#. {text}" for text in message.auto_comments]
    lines += [f"#: {' '.join(files)}"] if files else []
    lines += [f"#, {', '.join(sorted(message.flags))}"] if message.flags else []
    for keyword, text in zip(("msgid", "msgid_plural"), message.previous_id, strict=False):
        lines += [f"#| {line}" for line in f"{keyword} {normalize(text, width=0)}".split("\n")]
    return "\n".join([*lines, *_body(message, plurals)]) + "\n"


def _obsolete(message: Message, plurals: int) -> str:
    lines = [f"# {text}".rstrip() for text in message.user_comments]
    lines += ["#, fuzzy"] if message.fuzzy else []
    body = "\n".join(_body(message, plurals)).split("\n")
    return "\n".join([*lines, *(f"#~ {line}" for line in body)]) + "\n"


def _body(message: Message, plurals: int) -> Iterator[str]:
    if isinstance(message.id, str):
        yield f"msgid {normalize(message.id, width=0)}"
        yield f"msgstr {normalize(strings(message)[0], width=0)}"
        return
    yield f"msgid {normalize(message.id[0], width=0)}"
    yield f"msgid_plural {normalize(message.id[1], width=0)}"
    forms = [*strings(message), *[""] * plurals][:plurals]
    for number, text in enumerate(forms):
        yield f"msgstr[{number}] {normalize(text, width=0)}"
