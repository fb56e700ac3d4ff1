"""Failures that all projects share: a process that hangs, ends or raises an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from helpers.course.criteria import CheckFailed
from helpers.course.projects.group import DEAD, LATE, RAISED, Reply
from helpers.i18n import _, number


def to_data(replies: Iterable[Reply]) -> list[dict[str, Any]]:
    """Replies as plain data, for an observation that another process judges."""
    return [reply._asdict() for reply in replies]


def from_data(replies: Iterable[Mapping[str, Any]]) -> list[Reply]:
    """The replies that `to_data` received."""
    return [Reply(**reply) for reply in replies]


def raise_if_empty(replies: Iterable[Reply]) -> None:
    """Raises NotImplementedError, which `check` reports as no answer, if the module raised it."""
    if any(reply.type == NotImplementedError.__name__ for reply in replies):
        raise NotImplementedError


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
            raise CheckFailed(expected, raised(rank, reply), _("Start at the line in parentheses."))
        if reply.kind == DEAD:
            raise CheckFailed(expected, ended(rank, reply), _("Raise errors, and do not exit."))
        if reply.kind == LATE and late is None:  # possibly because another one failed
            late = _("process {rank} was still running after {seconds} s")
            late = late.format(rank=rank, seconds=number(seconds, "g"))
    if late is not None:
        raise CheckFailed(expected, late, hint)


def raised(rank: int, reply: Reply) -> str:
    """What a process raised, in words."""
    return _("process {rank} raised {error}").format(rank=rank, error=reply.text)


def ended(rank: int, reply: Reply) -> str:
    """The end of a process, with its last output."""
    if not reply.text:
        return _("process {rank} ended, and printed nothing").format(rank=rank)
    return _("process {rank} ended, and printed {lines}").format(rank=rank, lines=reply.text)
