"""Brings a catalog up to its English source without touching what still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from pathlib import Path

from babel.messages.catalog import Message

from tools.l10n import catalog, extract
from tools.l10n.catalog import LessonCatalog, msgid
from tools.lessons.project import HELPERS, Project

SAME_PLACE, ANYWHERE = 0.3, 0.6  # how alike two texts must be to count as old and new


def update_text(project: Project, domain: str, lang: str, template: LessonCatalog) -> str:
    """The text that a catalog file should have; a translator's work in it is kept."""
    old = catalog.read(project.catalog(domain, lang), lang)
    new = merge(old, template, lang)
    for message in new:
        catalog.drop_format_flags(message, keep_braces=domain == HELPERS)
    return catalog.dumps(new)


def merge(old: LessonCatalog, template: LessonCatalog, lang: str) -> LessonCatalog:
    """The template's messages in its order, with the translations that `old` has.

    A message whose English changed becomes fuzzy and remembers its previous English; the
    most alike message that left the same cell, or else any, is taken for its old self.
    One that left for good is kept as obsolete, and comes back if its English does.
    """
    known = {msgid(m): m for m in [*old.obsolete.values(), *old] if m.id}
    wanted = [m for m in template if m.id]
    present = {msgid(m) for m in wanted}
    gone = {name: m for name, m in known.items() if name not in present and any(catalog.strings(m))}
    live = {msgid(m) for m in old}
    left = [m for name, m in gone.items() if name in live]
    new = catalog.from_messages([], lang)
    for message in wanted:
        same = known.get(msgid(message))
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
    """Writes a file unless it holds just this; whether it was written."""
    data = text.encode() if isinstance(text, str) else text
    if path.exists() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return True


def update(project: Project, langs: Iterable[str], log: Callable[[str], None]) -> None:
    """Updates every catalog of these languages, making those that are not there."""
    templates = {domain: extract.template(project, domain) for domain in extract.domains(project)}
    for lang in langs:
        catalog.locale_of(lang)
        (project.root / "locales" / lang / "LC_MESSAGES").mkdir(parents=True, exist_ok=True)
        for domain, template in templates.items():
            path = project.catalog(domain, lang)
            if not len(template) and not path.exists():
                continue
            if write(path, update_text(project, domain, lang, template)):
                log(summary(project.short(path), catalog.read(path, lang)))


def summary(name: str, messages: LessonCatalog) -> str:
    """One line on the state of a catalog."""
    real = [m for m in messages if m.id]
    done = sum(catalog.is_current(m) for m in real)
    fuzzy = sum(m.fuzzy for m in real)
    return f"{name}: {done} of {len(real)} messages translated, {fuzzy} fuzzy"


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
    """The candidate that this message was before somebody changed its English."""
    best, best_likeness = None, 0.0
    for old in candidates:
        if isinstance(old.id, str) != isinstance(message.id, str):
            continue
        near = set(old.auto_comments) & set(message.auto_comments)
        likeness = SequenceMatcher(None, msgid(old), msgid(message), autojunk=False).ratio()
        if likeness >= (SAME_PLACE if near else ANYWHERE) and likeness + bool(near) > best_likeness:
            best, best_likeness = old, likeness + bool(near)
    return best
