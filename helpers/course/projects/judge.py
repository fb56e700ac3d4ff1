"""Failures that all projects share: a process that hangs, ends, raises an error, or sends much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, CheckSkipped, expect
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, Reply
from helpers.i18n import _, ngettext, number


def stage_reader(reason: str) -> Callable[[Mapping[str, Any], str], Any]:
    """A function that returns the observation of a stage, or skips the criterion.

    Args:
      reason: what must work first, an English text.
    """

    def stage(seen: Mapping[str, Any], name: str) -> Any:
        if name not in seen:
            raise CheckSkipped(_(reason))
        return seen[name]

    return stage


def expect_returned(
    replies: Iterable[Reply], method: str, situation: str, seconds: float, hint: str
) -> None:
    """Fails unless every process returned.

    Args:
      situation: the case in words, such as "3 processes, 7 numbers of float32".
      seconds: the deadline that a late process missed.
      hint: for a late process.
    """
    expected = _("{method} returns in every process ({situation})")
    expected = expected.format(method=method, situation=situation)
    late = None
    for rank, reply in enumerate(replies):
        if reply.kind == RAISED:
            raise CheckFailed(expected, raised(rank, reply), error_hint(reply))
        if reply.kind == DEAD:
            raise CheckFailed(expected, ended(rank, reply), _("Raise errors, and do not exit."))
        if reply.kind == LATE and late is None:  # possibly because another one failed
            late = _("process {rank} was still running after {seconds} s")
            late = late.format(rank=rank, seconds=number(seconds, "g"))
    if late is not None:
        raise CheckFailed(expected, late, hint)


def expect_connected(opened: Iterable[Reply], situation: str, seconds: float) -> None:
    """Fails unless `connect` returned in every process."""
    hint = _("Does connect wait for a process that is waiting for this one?")
    expect_returned(opened, "connect", situation, seconds, hint)


def expect_errors(
    replies: Mapping[int, Reply],
    expected: str,
    seconds: float,
    *,
    late: str,
    returned: tuple[str, str],
) -> None:
    """Fails unless all survivors of a fault raised an error.

    Args:
      replies: by rank.
      seconds: the deadline that a late process missed.
      late: the hint for a late process.
      returned: what a process did that returned, with the placeholder `rank`, and its hint.
    """
    for rank, reply in replies.items():
        if reply.kind == LATE:
            text = _("process {rank} was still waiting after {seconds} s")
            text = text.format(rank=rank, seconds=number(seconds, "g"))
            raise CheckFailed(expected, text, late)
        if reply.kind == RETURNED:
            text, hint = returned
            raise CheckFailed(expected, text.format(rank=rank), hint)
        if reply.kind == DEAD:
            raise CheckFailed(expected, ended(rank, reply), _("Raise errors, and do not exit."))


def expect_bytes(
    rank: int, sent: float, wanted: float, tolerance: float, *, expected: str, more: str, fewer: str
) -> None:
    """Fails unless a process sent this number of bytes.

    Args:
      tolerance: a share of the wanted number.
      more, fewer: the hints for too many and for too few bytes.
    """
    share = sent / wanted
    expect(
        abs(share - 1) <= tolerance,
        expected=expected,
        found=ngettext(
            "process {rank} sent {sent} byte, {share} of that",
            "process {rank} sent {sent} bytes, {share} of that",
            round(sent),
        ).format(rank=rank, sent=number(round(sent), ",d"), share=number(share, ".0%")),
        hint=more if share > 1 else fewer,
    )


def different_bits(found: Mapping[str, Any], situation: str, hint: str) -> CheckFailed:
    """The failure of an element that differs from process 0, see `observations.find_difference`."""
    return CheckFailed(
        _("the same bits in every process ({situation})").format(situation=situation),
        _("element {element} is {one} in process 0, but {other} in process {rank}").format(
            element=found["element"],
            one=number(found["wanted"], ".17g"),
            other=number(found["found"], ".17g"),
            rank=found["rank"],
        ),
        hint,
    )


def raised(rank: int, reply: Reply) -> str:
    """What a process raised, in words."""
    return _("process {rank} raised {error}").format(rank=rank, error=error_text(reply))


def error_text(reply: Reply) -> str:
    """An error, with the student's line."""
    if not reply.file:
        return reply.text
    text = _("{error} ({file}, line {line})")
    return text.format(error=reply.text, file=reply.file, line=reply.line)


def error_hint(reply: Reply) -> str:
    """Where to look after an error."""
    if reply.type == NotImplementedError.__name__ and reply.file:
        return _("Write your answer in place of the line that raises NotImplementedError.")
    if not reply.file:  # the error occurred in the call of the student's code
        return _("Compare the functions of your module and their arguments with the specification.")
    return _("Start at the line in parentheses.")


def ended(rank: int, reply: Reply) -> str:
    """The end of a process, with its last output."""
    if not reply.text:
        return _("process {rank} ended, and printed nothing").format(rank=rank)
    return _("process {rank} ended, and printed {lines}").format(rank=rank, lines=reply.text)


def processes(workers: int) -> str:
    """A number of processes, in words."""
    return ngettext("{count} process", "{count} processes", workers).format(count=workers)
