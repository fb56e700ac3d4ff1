"""Project 5: a parameter server whose workers may differ by a limited number of steps.

A worker in step c sees all pushes of steps before c - bound, and all its own ones. Source: Ho et
al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013,
section 3. With a bound of 0, this is the synchronous loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, Criterion, Exercise, expect
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED
from helpers.course.projects.judge import expect_bytes, stage_reader
from helpers.course.projects.observations import from_data
from helpers.course.projects.parameter_server_judge import (
    Session,
    describe_end,
    expect_complete,
    expect_no_failure,
    expect_own,
    expect_started,
    expect_whole,
    failed_call,
    situation_of,
)
from helpers.course.projects.parameter_server_loops import SERVER
from helpers.course.projects.parameter_server_runs import run
from helpers.i18n import _, gettext_noop, ngettext, number

Check = Callable[[Session], None]
TOLERANCE = 0.02  # of the bytes, for headers
_stage = stage_reader(gettext_noop("A single worker must train first."))


def steps_ahead(slow: int, bound: int) -> int:
    """The steps that the others complete while the slow worker has completed `slow` steps."""
    return slow + bound + 1


def _each(check: Check, *stages: str) -> Any:
    """A check of all sessions of these stages."""

    def criterion(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
        for stage in stages:
            for session in _stage(seen, stage):
                expect_started(session)
                check(session)

    return criterion


def _trains_alone(session: Session) -> None:
    expect_no_failure(session)
    for pull in session["pulls"]:
        expect_whole(session, pull)
        expect_own(session, pull)
    expect_complete(session)
    expect(
        not session["changed"],
        expected=_("push does not change its argument"),
        found=_("the argument has changed"),
        hint=_("Work on a copy. The worker may need its array again."),
    )


def _loses_nothing(session: Session) -> None:
    expect_no_failure(session)
    expect_complete(session)


def _pulls_are_consistent(session: Session) -> None:
    expect_no_failure(session)
    for pull in session["pulls"]:
        expect_whole(session, pull)
        expect_own(session, pull)


def _stays_within_the_bound(session: Session) -> None:
    for pull in session["pulls"]:
        expect_whole(session, pull)
        for rank, steps in enumerate(pull["steps"], start=1):
            behind = pull["at"] - steps
            expect(
                behind <= session["bound"],
                expected=ngettext(
                    "a pull misses at most {bound} step of each worker ({situation})",
                    "a pull misses at most {bound} steps of each worker ({situation})",
                    session["bound"],
                ).format(bound=session["bound"], situation=situation_of(session)),
                found=_(
                    "worker {by} pulled in step {step}, without step {missing} of worker {rank}"
                ).format(by=pull["by"], step=pull["at"], missing=steps, rank=rank),
                hint=_(
                    "A pull in step c waits until each worker has pushed c − bound times, "
                    "including a worker that has not pushed at all. Then it reads the parameters."
                ),
            )
    expect_no_failure(session)


def _runs_ahead(session: Session) -> None:
    for found in session["rounds"]:
        wanted = steps_ahead(found["slow"], session["bound"])
        for rank, steps in enumerate(found["steps"], start=1):
            if steps < 0 or steps >= wanted:
                continue
            failure = session["failure"]
            if failure and failure["reply"]["kind"] != LATE:
                expect_no_failure(session)
            raise CheckFailed(
                ngettext(
                    "while worker {other} has completed {slow} step, the others complete {wanted} "
                    "({situation})",
                    "while worker {other} has completed {slow} steps, the others complete "
                    "{wanted} ({situation})",
                    found["slow"],
                ).format(
                    slow=found["slow"],
                    other=session["slow"],
                    wanted=wanted,
                    situation=situation_of(session),
                ),
                _("worker {rank} has completed only {steps}, and is waiting").format(
                    rank=rank, steps=steps
                ),
                _(
                    "A pull in step c waits only for pushes of steps before c − bound. After "
                    "every push, the server must check again which pulls can return."
                ),
            )
    expect_no_failure(session)


def _equals_the_synchronous_loop(session: Session) -> None:
    for pull in [*session["pulls"], *_final(session)]:
        if pull["problem"] == "array":
            expect_whole(session, pull)
        if pull["problem"]:
            raise _difference(session, pull)
    expect_no_failure(session)


def _difference(session: Session, found: Session) -> CheckFailed:
    expected = _("element {element} is {wanted}, as in the synchronous loop ({situation})")
    expected = expected.format(
        element=found["element"],
        wanted=number(found["wanted"], ".17g"),
        situation=situation_of(session),
    )
    value = number(found["found"], ".17g")
    if "by" in found:
        pulled = _("worker {rank} pulled {found} in step {step}")
        text = pulled.format(rank=found["by"], step=found["at"], found=value)
    else:
        text = _("serve returned {found}").format(found=value)
    if found["problem"] == "bits":
        hint = _(
            "The difference is a rounding error. Add the updates of a step one by one, in the "
            "order of the ranks, and not in the order in which they arrive."
        )
    else:
        hint = _(
            "With a bound of 0, a pull contains all pushes of earlier steps, but none of the "
            "same step. Other workers may have pushed in this step already."
        )
    return CheckFailed(expected, text, hint)


def _sends_each_array_once(session: Session) -> None:
    expect_no_failure(session)
    pushes = session["steps"] * session["size"]
    for rank, sent in enumerate(session["sent"]):
        wanted = pushes * (session["workers"] if rank == SERVER else 1)
        expect_bytes(
            rank,
            sent,
            wanted,
            TOLERANCE,
            expected=ngettext(
                "process {rank} sends {wanted} byte, the size of its arrays ({situation})",
                "process {rank} sends {wanted} bytes, the size of its arrays ({situation})",
                wanted,
            ).format(rank=rank, wanted=number(wanted, ",d"), situation=situation_of(session)),
            more=_(
                "Does the server send parameters that no worker has pulled, or does a worker ask "
                "repeatedly?"
            ),
            fewer=_("Send each array as it is, through the address that connect receives."),
        )


def _survives_a_worker(session: Session) -> None:
    if "victim" not in session:
        expect_no_failure(session)
        return
    victim = session["victim"]
    expected = _("the others continue after worker {rank} was killed during a push ({situation})")
    expected = expected.format(rank=victim, situation=situation_of(session))
    expect(
        session["triggered"],
        expected=expected,
        found=_("its push sent less than an eighth of the array, so it was never killed"),
        hint=_("Send the array as it is, through the address that connect receives."),
    )
    if failure := session["failure"]:
        hint = _(
            "If a worker ends, recv returns b'' or raises ConnectionError in the server. Then "
            "stop waiting for this worker, and wake all pulls that wait, so that they check their "
            "condition again."
        )
        raise failed_call(failure, expected, hint)
    for found in [*session["pulls"], *_final(session)]:
        expect_whole(session, found)


def _reports_a_dead_server(session: Session) -> None:
    expect_no_failure(session)
    expected = _("a pull raises an error if the server is killed ({situation})")
    for rank, reply in enumerate(from_data(session["replies"]), start=1):
        if reply.kind == RAISED:
            continue
        hint = _("recv returns b'' if the server has ended. Raise an error in that case.")
        if reply.kind == RETURNED:
            hint = _("Do not catch socket errors in pull.")
        raise CheckFailed(
            expected.format(situation=situation_of(session)),
            describe_end(rank, "pull", reply),
            _("Raise errors, and do not exit.") if reply.kind == DEAD else hint,
        )


def _final(session: Session) -> Iterator[Session]:
    if session.get("final"):
        yield session["final"]


EXERCISE = Exercise(
    run,
    (
        Criterion(
            2, gettext_noop("A single worker pulls and pushes."), _each(_trains_alone, "single")
        ),
        Criterion(
            2,
            gettext_noop("When several workers push, no push is lost or added twice."),
            _each(_loses_nothing, "concurrent", "slow_push"),
        ),
        Criterion(
            2,
            gettext_noop(
                "Each pull returns one consistent version, with all earlier pushes of its worker."
            ),
            _each(_pulls_are_consistent, "concurrent", "slow_pull", "slow_push"),
        ),
        Criterion(
            1,
            gettext_noop("A pull and a push send the array once, within 2%."),
            _each(_sends_each_array_once, "concurrent"),
        ),
        Criterion(
            3,
            gettext_noop("The staleness of a pull never exceeds the bound."),
            _each(_stays_within_the_bound, "stragglers"),
        ),
        Criterion(
            4,
            gettext_noop(
                "While one worker is slow, the others run ahead as far as the bound permits."
            ),
            _each(_runs_ahead, "stragglers"),
        ),
        Criterion(
            3,
            gettext_noop(
                "With a bound of 0, the result equals that of the synchronous loop, bit for bit."
            ),
            _each(_equals_the_synchronous_loop, "synchronous"),
        ),
        Criterion(
            2,
            gettext_noop("If a worker is killed, the others continue."),
            _each(_survives_a_worker, "dead_worker"),
        ),
        Criterion(
            1,
            gettext_noop("If the server is killed, waiting workers raise an error."),
            _each(_reports_a_dead_server, "dead_server"),
        ),
    ),
    {
        "seed": 1,
        "rounds": 3,
        "concurrent": [(4, 6, "float32"), (3, 5, "float64")],
        "slow_pull": [2],
        "slow_push": [2],
        "stragglers": [(3, 2, 1), (2, 3, 2)],
        "synchronous": [(3, 5, "float32"), (2, 4, "float64")],
        "dead_worker": [(3, 1, 2)],
        "dead_server": [3],
    },
    independent=True,
)
