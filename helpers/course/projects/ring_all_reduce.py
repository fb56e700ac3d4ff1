"""Project 1: an all-reduce over sockets, whose traffic is as small as that of a ring.

Each process of a ring sends 2(N-1)/N of its array, and no all-reduce can send less. Source:
Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009,
https://doi.org/10.1016/j.jpdc.2008.09.002.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from helpers.course.criteria import CheckFailed, Criterion, Exercise, expect
from helpers.course.projects.group import GRACE, HANG
from helpers.course.projects.judge import (
    different_bits,
    expect_bytes,
    expect_connected,
    expect_errors,
    expect_returned,
    processes,
    stage_reader,
)
from helpers.course.projects.observations import from_data
from helpers.course.projects.ring_all_reduce_runs import Case, Size, run
from helpers.i18n import _, gettext_noop, ngettext, number

TOLERANCE = 0.02  # of the bytes, for headers
_stage = stage_reader(gettext_noop("Two processes must return the sum first."))


def wanted_bytes(workers: int, array_bytes: float) -> float:
    """The bytes that each process of a ring sends."""
    return 2 * (workers - 1) / workers * array_bytes


def _sums(stage: str) -> Any:
    """A check that all sums of a stage are right."""

    def check(seen: Mapping[str, Any], case: Case) -> None:
        for session in _stage(seen, stage):
            expect_sums(session)

    return check


def _same_bits(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "sizes"):
        expect_sums(session)
        for call in session["calls"]:
            if call["difference"]:
                situation = _situation(session["workers"], call["size"])
                raise _difference(call["difference"], situation, call["size"])


def expect_sums(session: Mapping[str, Any]) -> None:
    """Fails unless all calls of a session returned the sum in every process."""
    workers = session["workers"]
    expect_connected(from_data(session["opened"]), processes(workers), HANG)
    for call in session["calls"]:
        situation = _situation(workers, call["size"])
        hint = _(
            "Which process is sending, and which is receiving at that moment? If all of them wait "
            "in sendall, or all of them in recv, none can continue."
        )
        replies = from_data(call["replies"])
        expect_returned(replies, "all_reduce", situation, HANG, hint)
        if call["difference"] and call["difference"]["problem"] != "bits":
            raise _difference(call["difference"], situation, call["size"])


def _difference(found: Mapping[str, Any], situation: str, size: Size) -> CheckFailed:
    rank, problem = found["rank"], found["problem"]
    if problem == "array":
        expected = _("an array of {kind} of length {count} ({situation})").format(
            count=size[0], kind=size[1], situation=situation
        )
        value = _("process {rank} returned {found}").format(rank=rank, found=found["found"])
        return CheckFailed(
            expected, value, _("The result must have the same length and type as the argument.")
        )
    if problem == "bits":
        hint = _("Compute the sum of each element in one process only, and send copies of it.")
        return different_bits(found, situation, hint)
    wanted, value = (number(found[key], ".17g") for key in ("wanted", "found"))
    return CheckFailed(
        _("element {element} is {wanted} ({situation})").format(
            element=found["element"], wanted=wanted, situation=situation
        ),
        _("process {rank} returned {found}").format(rank=rank, found=value),
        _("Print the chunk that each process sends in each step. Is it the one received last?"),
    )


def _sends_little(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "traffic"):
        expect_sums(session)
        for call in session["calls"]:
            _expect_bytes(session["workers"], call)


def _expect_bytes(workers: int, call: Mapping[str, Any]) -> None:
    length, kind = call["size"]
    size = length * np.dtype(kind).itemsize
    wanted = wanted_bytes(workers, size)
    expected = ngettext(
        "with N = {workers}, each process sends {wanted} byte, 2(N−1)/N of its array",
        "with N = {workers}, each process sends {wanted} bytes, 2(N−1)/N of its array",
        round(wanted),
    ).format(workers=workers, wanted=number(round(wanted), ",d"))
    for rank, sent in enumerate(call["sent"]):
        expect_bytes(
            rank,
            sent,
            wanted,
            TOLERANCE,
            expected=expected,
            more=_(
                "Divide the array into N chunks. In each of the 2(N−1) steps, a process sends one "
                "chunk, and nothing else."
            ),
            fewer=_(
                "No all-reduce can send less. All traffic must go through the addresses passed to "
                "connect."
            ),
        )


def _can_be_repeated(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "repeated"):
        expect_sums(session)
        for call in session["calls"]:
            for rank, reply in enumerate(from_data(call["replies"])):
                expect(
                    not reply.changed,
                    expected=_("all_reduce does not change its argument"),
                    found=_("the argument of process {rank} has changed").format(rank=rank),
                    hint=_("Work on a copy. The caller may need its array again."),
                )
        first, last = session["calls"][0]["connections"], session["calls"][-1]["connections"]
        calls = len(session["calls"])
        expect(
            first == last,
            expected=_("{calls} calls use the same connections").format(calls=calls),
            found=ngettext(
                "{count} new connection after the first call",
                "{count} new connections after the first call",
                last - first,
            ).format(count=last - first),
            hint=_("Connect once, in connect, and keep the sockets in your object."),
        )
        hint = _("close only closes the sockets. It does not wait for other processes.")
        expect_returned(
            from_data(session["closed"]), "close", processes(session["workers"]), HANG, hint
        )


def _survives(kind: str, what: str) -> Any:
    """A check that all other processes raise an error after a fault."""

    def check(seen: Mapping[str, Any], case: Case) -> None:
        found = _stage(seen, kind)
        expect_sums(found["session"])
        expected = _("all_reduce raises an error within {seconds} s after process 1 was {what}")
        expected = expected.format(seconds=number(found["timeout"], "g"), what=_(what))
        sent = _("process 1 sent less than a quarter of its array, so it was never {what}")
        sent = sent.format(what=_(what))
        hint = _("Does a large array reach the second step? Each step needs all processes.")
        expect(found["triggered"], expected=expected, found=sent, hint=hint)
        late = _(
            "If the other process has ended, recv returns b''. If it is frozen, recv and sendall "
            "wait forever, unless you call settimeout(timeout) on each socket, which makes them "
            "raise TimeoutError."
        )
        _expect_errors(found, expected, late)
        if kind == "frozen":
            _expect_errors_without(_stage(seen, "absent"))

    return check


def _expect_errors_without(found: Mapping[str, Any]) -> None:
    """Fails unless all processes raised an error after one of them did not connect."""
    expected = _(
        "connect or all_reduce raises an error within {seconds} s if process 1 was frozen before "
        "it connected"
    )
    late = _(
        "accept waits forever for a process that does not connect. Call settimeout(timeout) on the "
        "listener and on each accepted socket."
    )
    _expect_errors(found, expected.format(seconds=number(found["timeout"], "g")), late)


def _expect_errors(found: Mapping[str, Any], expected: str, late: str) -> None:
    expect_errors(
        dict(zip(found["ranks"], from_data(found["replies"]), strict=True)),
        expected,
        found["timeout"] + GRACE,
        late=late,
        returned=(
            _("process {rank} returned a result, which cannot be the sum"),
            _("Do not catch socket errors in all_reduce."),
        ),
    )


def _situation(workers: int, size: Size) -> str:
    length, kind = size
    numbers = ngettext(
        "{workers} processes, {count} {kind} number",
        "{workers} processes, {count} {kind} numbers",
        length,
    )
    return numbers.format(workers=workers, count=number(length, ",d"), kind=kind)


EXERCISE = Exercise(
    run,
    (
        Criterion(2, gettext_noop("Two processes return the sum."), _sums("pair")),
        Criterion(
            3,
            gettext_noop("So do 2 to 8 processes, for both types, with bit-identical results."),
            _same_bits,
        ),
        Criterion(
            3,
            gettext_noop(
                "The array may be empty, or have fewer elements than there are processes."
            ),
            _sums("lengths"),
        ),
        Criterion(2, gettext_noop("A large array causes no deadlock."), _sums("large")),
        Criterion(
            4, gettext_noop("Each process sends 2(N−1)/N of its array, within 2%."), _sends_little
        ),
        Criterion(
            2,
            gettext_noop("Calls reuse the connections, and do not change their arguments."),
            _can_be_repeated,
        ),
        Criterion(
            2,
            gettext_noop("If a process is killed, the others raise an error."),
            _survives("killed", gettext_noop("killed")),
        ),
        Criterion(
            2,
            gettext_noop("If a process is frozen, the others raise an error."),
            _survives("frozen", gettext_noop("frozen")),
        ),
    ),
    {
        "seed": 1,
        "sizes": [(3, [(1000, "float32")]), (8, [(1003, "float32"), (1003, "float64")])],
        "lengths": [(5, [(0, "float32"), (1, "float32"), (4, "float64"), (6, "float32")])],
        "large": [(2, [(4_000_000, "float64")])],
        "traffic": [(2, [(350_000, "float32")]), (4, [(350_000, "float32")])],
        "repeated": [(3, [(3000, "float32"), (7, "float64"), (1, "float32"), (90, "float64")] * 3)],
        "killed": (500_000, "float64"),
        "frozen": (2_400_000, "float64"),  # so that a chunk does not fit into buffers
        "timeout": 2.0,
    },
    independent=True,
)
