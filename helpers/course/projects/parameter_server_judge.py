"""Project 5: what fails in several criteria, and the messages for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, expect
from helpers.course.projects.group import DEAD, HANG, LATE, RAISED, Reply
from helpers.course.projects.judge import ended, error_hint, expect_returned, raised
from helpers.course.projects.observations import from_data
from helpers.i18n import _, ngettext, number

Session = Mapping[str, Any]  # the data of a session


def expect_started(session: Session) -> None:
    """Fails unless all processes of a session have started."""
    hint = _("connect must not wait for another worker, because it may not have started yet.")
    situation = situation_of(session)
    expect_returned(from_data(session["opened"]), "connect", situation, HANG, hint)


def expect_no_failure(session: Session) -> None:
    """Fails unless all calls of a session returned."""
    if not (failure := session["failure"]):
        return
    situation = situation_of(session)
    if failure["method"] == "serve":
        expected = _("serve returns after every worker has disconnected or ended ({situation})")
        hint = _("Which thread or connection does serve still wait for?")
    elif failure["method"] == "close":
        expected = _("close returns ({situation})")
        hint = _("close only closes the connection. It does not wait for other workers.")
    else:
        expected = _("{method} returns in step {step} ({situation})")
        hint = _(
            "Which condition does the server wait for? Each push and each lost worker must make "
            "it check the condition again."
        )
    expected = expected.format(method=failure["method"], step=failure["step"], situation=situation)
    raise failed_call(failure, expected, hint)


def failed_call(failure: Mapping[str, Any], expected: str, late: str) -> CheckFailed:
    """The failure of a call that did not return.

    Args:
      late: the hint if it is still running.
    """
    reply = from_data([failure["reply"]])[0]
    what = describe_end(failure["rank"], failure["method"], reply)
    if failure["printed"] and reply.kind != DEAD:
        text = _("{what}, and process 0 printed {lines}")
        what = text.format(what=what, lines=failure["printed"])
        return CheckFailed(expected, what, _("Start at the error that process 0 printed."))
    hints = {
        RAISED: error_hint(reply),
        DEAD: _("Raise errors, and do not exit."),
    }
    return CheckFailed(expected, what, hints.get(reply.kind, late))


def describe_end(rank: int, method: str, reply: Reply) -> str:
    """How a call ended in words, or that it did not."""
    if reply.kind == RAISED:
        return raised(rank, reply)
    if reply.kind == DEAD:
        return ended(rank, reply)
    if reply.kind == LATE:
        late = _("process {rank} was still in {method} after {seconds} s")
        return late.format(rank=rank, method=method, seconds=number(HANG, "g"))
    return _("{method} has already returned in process {rank}").format(method=method, rank=rank)


def expect_complete(session: Session) -> None:
    """Fails unless the final parameters contain each push once."""
    final = session["final"]
    expect_whole(session, final)
    for rank, steps in enumerate(final["steps"], start=1):
        expect(
            steps == session["steps"],
            expected=_("serve returns parameters that contain all pushes ({situation})").format(
                situation=situation_of(session)
            ),
            found=_("push {step} of worker {rank} is missing").format(step=steps, rank=rank),
            hint=_("Does the server read everything that a worker sent before it disconnected?"),
        )


def expect_own(session: Session, pull: Session) -> None:
    """Fails unless a pull contains all earlier pushes of the same worker."""
    rank, step = pull["by"], pull["at"]
    own = pull["steps"][rank - 1]
    expect(
        own == step,
        expected=_("the pull in step {step} contains all earlier pushes of its worker").format(
            step=step
        ),
        found=ngettext(
            "the pull of worker {rank} contains {own} push of worker {rank}",
            "the pull of worker {rank} contains {own} pushes of worker {rank}",
            own,
        ).format(rank=rank, own=own),
        hint=_(
            "A worker that is ahead of the others must see its own updates, even if they have "
            "not reached this step."
        ),
    )


def expect_whole(session: Session, found: Session) -> None:
    """Fails unless parameters contain whole pushes, each one once, and in order."""
    problem = found["problem"]
    if not problem:
        return
    what = _("the parameters that serve returned")
    if "by" in found:
        what = _("the pull of worker {rank} in step {step}")
        what = what.format(rank=found["by"], step=found["at"])
    if problem == "array":
        raise CheckFailed(
            _("an array with the length and the type of the initial parameters"),
            _("{what} is {found}").format(what=what, found=found["found"]),
            _(
                "pull and serve return a one-dimensional array of the same type as the initial "
                "parameters."
            ),
        )
    push = _("push {step} of worker {rank}").format(step=found["step"], rank=found["rank"])
    expected, text, hint = _broken_push(found["problem"])
    details = {
        "one": found.get("with"),
        "other": found.get("without"),
        "factor": number(found.get("factor", 1), ".3g"),
    }
    raise CheckFailed(
        expected.format(situation=situation_of(session)),
        text.format(what=what, push=push, **details),
        hint,
    )


def _broken_push(problem: str) -> tuple[str, str, str]:
    """What was expected, what was found, and a hint, all with placeholders."""
    if problem == "torn":
        text = _("{what}: element {one} contains {push}, but element {other} does not")
        hint = _(
            "Does a thread add an update while another one reads or sends the parameters? Copy "
            "them under the lock, and add an update only when all of it has arrived."
        )
        return _("every element contains the same pushes ({situation})"), text, hint
    if problem == "factor":
        return (
            _("each push is added at most once, to the initial parameters ({situation})"),
            _("{what}: {push} is added with the factor {factor}"),
            _("Where is an update added, and with which factor?"),
        )
    return (
        _("no push is lost, and the pushes of each worker stay in order ({situation})"),
        _("{what}: {push} is missing, but a later one is there"),
        _(
            "Two threads can read the parameters, add, and write them back at the same time. Then "
            "one of the updates is lost."
        ),
    )


def situation_of(session: Session) -> str:
    """The workers and the bound of a session, in words."""
    workers = session["workers"]
    text = ngettext("{workers} worker, bound {bound}", "{workers} workers, bound {bound}", workers)
    return text.format(workers=workers, bound=session["bound"])
