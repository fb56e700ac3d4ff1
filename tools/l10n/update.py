"""Updates a catalog to its English source, and keeps translations that are still valid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from babel.messages.catalog import Message

from tools.l10n import catalog, extract, rewords
from tools.l10n.catalog import LessonCatalog, msgid
from tools.l10n.rewords import Reword
from tools.lessons.project import HELPERS, Project

NOTHING: Mapping[str, Message] = {}
SAME_PLACE, ANYWHERE = 0.3, 0.6  # the least similarity of an old and a new text


def update_text(
    project: Project,
    domain: str,
    lang: str,
    template: LessonCatalog,
    elsewhere: Mapping[str, Message] = NOTHING,
) -> str:
    """The updated text of a catalog file, in which translations are kept."""
    old = catalog.read(project.catalog(domain, lang), lang)
    new = merge(old, template, lang, rewords.read(project, domain), elsewhere)
    for message in new:
        catalog.drop_format_flags(message, keep_braces=domain == HELPERS)
    return catalog.dumps(new)


def merge(
    old: LessonCatalog,
    template: LessonCatalog,
    lang: str,
    recorded: Iterable[Reword] = (),
    elsewhere: Mapping[str, Message] = NOTHING,
) -> LessonCatalog:
    """The template's messages in its order, with the translations that `old` has.

    A message whose English text changed becomes fuzzy and stores its previous text. Its previous
    message is the most similar one that was removed from the same cell, or else from any cell. A
    recorded reword keeps its translation unchanged, and a moved message uses its translation from
    `elsewhere`. A removed message is kept as obsolete, and is restored with its English text.
    """
    known = {msgid(m): m for m in [*old.obsolete.values(), *old] if m.id}
    wanted = [m for m in template if m.id]
    present = {msgid(m) for m in wanted}
    moved = {name: m for name, m in elsewhere.items() if not _has_text(known.get(name))}
    kept = _reworded(wanted, {**known, **moved}, list(recorded))
    used = {msgid(before) for before in kept.values()} - present
    gone = {name: m for name, m in known.items() if name not in present | used and _has_text(m)}
    live = {msgid(m) for m in old}
    left = [m for name, m in gone.items() if name in live]
    new = catalog.from_messages([], lang)
    for message in wanted:
        name = msgid(message)
        same = kept.get(name) or moved.get(name) or known.get(name)
        if same is not None and isinstance(same.id, str) == isinstance(message.id, str):
            new[message.id] = _same(message, same)
            continue
        before = _previous_entry(message, left)
        if before is not None:
            left.remove(before)
            gone.pop(msgid(before), None)
        new[message.id] = _changed(message, before)
    new.obsolete.update(gone)
    return new


def write(path: Path, text: str | bytes) -> bool:
    """Writes a file unless its content is equal, and returns whether it was written."""
    data = text.encode() if isinstance(text, str) else text
    if path.exists() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return True


def update(project: Project, langs: Iterable[str], log: Callable[[str], None]) -> None:
    """Updates every catalog of these languages, and creates missing ones."""
    templates = {domain: extract.template(project, domain) for domain in extract.domains(project)}
    for lang in langs:
        catalog.locale_of(lang)
        memory = all_translations(project, lang)
        (project.root / "locales" / lang / "LC_MESSAGES").mkdir(parents=True, exist_ok=True)
        for domain, template in templates.items():
            path = project.catalog(domain, lang)
            if not len(template) and not path.exists():
                continue
            if write(path, update_text(project, domain, lang, template, memory)):
                log(summary(project.short(path), catalog.read(path, lang)))


def summary(name: str, messages: LessonCatalog) -> str:
    """One line about the state of a catalog."""
    real = [m for m in messages if m.id]
    done = sum(catalog.is_current(m) for m in real)
    fuzzy = sum(m.fuzzy for m in real)
    return f"{name}: {done} of {len(real)} messages translated, {fuzzy} fuzzy"


def all_translations(project: Project, lang: str) -> dict[str, Message]:
    """A current translation of each text, from all catalogs of a language."""
    found: dict[str, Message] = {}
    for path in project.catalogs_in(lang):
        messages = catalog.read(path, lang)
        for message in [*messages.obsolete.values(), *messages]:
            if message.id and catalog.is_current(message):
                found[msgid(message)] = message
    return found


def _has_text(message: Message | None) -> bool:
    return message is not None and any(catalog.strings(message))


def _reworded(
    wanted: Iterable[Message], known: Mapping[str, Message], recorded: list[Reword]
) -> dict[str, Message]:
    """The entries whose translations recorded rewords keep, by message."""
    found = {}
    for message in wanted if recorded else ():
        same = known.get(msgid(message))
        if not catalog.is_current(same):
            for text in rewords.earlier_texts(recorded, rewords.text_of(message)):
                if entry := _entry_of(text, same, known):
                    found[msgid(message)] = entry
                    break
    return found


def _entry_of(
    text: rewords.Text, same: Message | None, known: Mapping[str, Message]
) -> Message | None:
    """The entry that translates a text: its own, or the entry of a message that became fuzzy."""
    if same is not None and same.fuzzy and tuple(same.previous_id) == text:
        entry = same.clone()
        entry.flags.discard("fuzzy")
        return entry
    old = known.get(text[0])
    if old is not None and rewords.text_of(old) == text and _has_text(old):
        return old
    return None


def _same(message: Message, old: Message) -> Message:
    flags = (old.flags - {catalog.PERCENT, catalog.BRACES}) | message.flags
    return Message(
        message.id, old.string, message.locations, flags, message.auto_comments,
        old.user_comments, old.previous_id if old.fuzzy else (),
    )  # fmt: skip


def _changed(message: Message, old: Message | None) -> Message:
    if old is None:
        return Message(message.id, "", message.locations, message.flags, message.auto_comments)
    previous = old.previous_id if old.fuzzy and old.previous_id else old.id
    return Message(
        message.id, old.string, message.locations, {"fuzzy", *message.flags},
        message.auto_comments, old.user_comments, previous,
    )  # fmt: skip


def _previous_entry(message: Message, candidates: Iterable[Message]) -> Message | None:
    """The candidate from which this message originates."""
    best, best_score = None, 0.0
    for old in candidates:
        if isinstance(old.id, str) != isinstance(message.id, str):
            continue
        near = share_place(old, message)
        least = SAME_PLACE if near else ANYWHERE
        similar = similarity(msgid(old), msgid(message), least)
        if similar >= least and similar + near > best_score:
            best, best_score = old, similar + near
    return best


def share_place(one: Message, other: Message) -> bool:
    """Whether two messages are in the same cell and of the same kind."""
    return not {*one.auto_comments}.isdisjoint(other.auto_comments)


@cache
def similarity(old: str, new: str, matters: float = 0.0) -> float:
    """The similarity of two texts, from 0 to 1.

    Args:
      matters: the least relevant similarity. Below it, an upper bound is returned, which is much
        faster.
    """
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    bound = min(matcher.real_quick_ratio(), matcher.quick_ratio() if matters else 1.0)
    return bound if bound < matters else matcher.ratio()
