"""Changed English messages whose translations an update would make fuzzy or lose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from babel.messages.catalog import Message

from tools.l10n import catalog, extract, rewords, update
from tools.l10n.catalog import LessonCatalog, msgid
from tools.l10n.rewords import Reword
from tools.lessons.project import Project, ToolError

SAME_MEANING = 0.5  # the least similarity of a reword that is recorded without an option
LOST = 0.4  # the least similarity of a new text and a lost text of another cell


class Candidate(NamedTuple):
    """A changed message: its texts, their similarity from 0 to 1, and its location."""

    reword: Reword
    similarity: float
    place: str


def candidates(
    project: Project, domain: str, elsewhere: Mapping[str, Mapping[str, Message]]
) -> list[Candidate]:
    """The changed messages of a domain, in the order of the English source.

    Args:
      elsewhere: the results of `update.all_translations` by language.
    """
    template = extract.template(project, domain)
    recorded = rewords.read(project, domain)
    found: dict[tuple[str, str], Candidate] = {}
    for lang, translations in elsewhere.items():
        old = catalog.read(project.catalog(domain, lang), lang)
        new = update.merge(old, template, lang, recorded, translations)
        for message, before in _changes(old, new):
            reword = Reword(before, rewords.text_of(message))
            similar = update.similarity(before[0], msgid(message))
            place = "; ".join(message.auto_comments) or message.locations[0][0]
            found.setdefault((before[0], msgid(message)), Candidate(reword, similar, place))
    order = {msgid(message): number for number, message in enumerate(template)}
    return sorted(found.values(), key=lambda each: order[each.reword.new[0]])


def listing(domain: str, found: Iterable[Candidate]) -> str:
    """Candidates as TOML, to be edited and passed to `accept`."""
    notes = {each.reword: f"{each.place}; similarity {each.similarity:.2f}" for each in found}
    return rewords.dumps(domain, notes, notes)


def accept(
    project: Project,
    text: str,
    name: str,
    log: Callable[[str], None],
    least: float = SAME_MEANING,
) -> list[str]:
    """Records the rewords of a listing, so that an update keeps their translations.

    Args:
      name: the name of the file with the listing, for messages.
      least: the least similarity of the two texts of a reword, from 0 to 1.

    Returns:
      A sentence for each reword that was rejected and not recorded.

    Raises:
      ToolError: the text is not a listing, or names a domain that does not exist.
    """
    rejected = []
    for domain, listed in rewords.loads(text, name).items():
        if domain not in extract.domains(project):
            raise ToolError(f"{name}: no notebook or document has the name {domain!r}.")
        texts = {rewords.text_of(m) for m in extract.template(project, domain) if m.id}
        accepted = []
        for reword in listed:
            reasons = rewords.objections(reword)
            similar = update.similarity(reword.old[0], reword.new[0])
            if similar < least:
                reasons.append(
                    f"the similarity is {similar:.2f}, below {least:g}, so the meaning may have "
                    f"changed; if it has not, pass --similarity {similar - 0.005:.2f}"
                )
            if reword.new not in texts:
                reasons = ["the English source does not contain the new text"]
            if reasons:
                rejected.append(f"{domain}: {'; '.join(reasons)}: {reword.new[0]!r}")
            else:
                accepted.append(reword)
        if accepted:
            path = rewords.path_of(project, domain)
            update.write(path, rewords.record(project, domain, accepted))
            log(f"{project.short(path)}: {len(accepted)} recorded")
    return rejected


def _changes(old: LessonCatalog, new: LessonCatalog) -> Iterator[tuple[Message, rewords.Text]]:
    """Each message whose translation exists only for an earlier text, with that text."""
    places = {msgid(message): message for message in old if message.id}
    lost = [places.get(msgid(message), message) for message in new.obsolete.values()]
    for message in (message for message in new if message.id):
        if catalog.is_current(message):
            continue
        if message.fuzzy and message.previous_id:
            yield message, tuple(message.previous_id)
        elif not message.fuzzy and (before := _most_alike(message, lost)):
            lost.remove(before)
            yield message, rewords.text_of(before)


def _most_alike(message: Message, lost: Iterable[Message]) -> Message | None:
    """The most similar lost message of the same cell, or else of any cell."""
    scores = []
    for before in lost:
        near = update.share_place(before, message)
        similar = update.similarity(msgid(before), msgid(message), 0.0 if near else LOST)
        if near or similar >= LOST:
            scores.append((near, similar, before))
    return max(scores, key=lambda score: score[:2])[2] if scores else None
