"""Project 3: Adam with sharded moments (ZeRO stage 1), compared with an unsharded Adam.

Each process needs memory for the parameters, the gradients, and 1/N of two moments, and sends as
much as for an all-reduce. Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models", 2020, sections 5.1 and 7, https://arxiv.org/abs/1910.02054.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, CheckSkipped, Criterion, Exercise, expect
from helpers.course.projects.group import RAISED
from helpers.course.projects.judge import (
    different_bits,
    expect_bytes,
    expect_returned,
    processes,
    stage_reader,
)
from helpers.course.projects.observations import from_data
from helpers.course.projects.ring_all_reduce import wanted_bytes
from helpers.course.projects.sharded_adam_expected import KIND, Shapes
from helpers.course.projects.sharded_adam_runs import HANG, Case, run, works
from helpers.i18n import _, gettext_noop, ngettext, number

BYTES_TOLERANCE = 0.02  # for the headers of messages
MEMORY_TOLERANCE = 0.1
MIN_STATE = 0.5  # of the size of the moments, because files may be compressed
MB = 1e6
HINTS = {
    "unchanged": gettext_noop(
        "This is its initial value. Does every process receive the new values of all others?"
    ),
    "copies": gettext_noop(
        "No parameter has changed. flatten() returns a copy, but reshape(-1) of a contiguous array "
        "returns a view. Assign to elements, as in parameter[...] = values."
    ),
    "not finite": gettext_noop(
        "Which division has 0 as its divisor, or which root a negative argument? In the first call "
        "of step, t is 1, so neither 1 − β₁ᵗ nor 1 − β₂ᵗ is 0."
    ),
    "corrected": gettext_noop(
        "This is the result if epsilon is added to the square root of the corrected v, as in "
        "PyTorch. Here, epsilon is added to the square root of v itself."
    ),
    "inside": gettext_noop(
        "This is the result if epsilon is added to v. Add it to the square root of v."
    ),
    "sum": gettext_noop("This is the result for the sum of the gradients. Use their mean."),
    "bias": gettext_noop(
        "This is the result without bias correction. In the first call of step, t is 1."
    ),
    "local": gettext_noop(
        "This is the result for the gradient of a single process. Use the mean of all processes."
    ),
    "steps": gettext_noop("This is the result if load does not restore the number of steps."),
    "moments": gettext_noop("This is the result if the moments are zero after load."),
    "steps moments": gettext_noop("This is the result if load restores nothing."),
}
_stage = stage_reader(gettext_noop("Two processes must compute the right parameters first."))


def parameter_bytes(shapes: Shapes) -> int:
    """The size of all parameters."""
    return KIND.itemsize * sum(math.prod(shape) for shape in shapes)


def wanted_memory(workers: int, size: float) -> float:
    """The bytes of parameters, gradients, and 1/N of two moments."""
    return (2 + 2 / workers) * size


def expect_right(session: Mapping[str, Any]) -> None:
    """Fails unless all calls of a session returned, and all parameters are right."""
    situation = _situation(session)
    hint = _(
        "Do all processes call the same collectives, in the same order? A collective returns after "
        "all processes have called it."
    )
    for call in session["calls"]:
        expect_returned(from_data(call["replies"]), call["method"], situation, HANG, hint)
    if session["difference"]:
        raise _difference(session["difference"], session, situation)


def _difference(
    found: Mapping[str, Any], session: Mapping[str, Any], situation: str
) -> CheckFailed:
    rank, problem = found["rank"], found["problem"]
    if problem == "array":
        return CheckFailed(
            _("the parameters keep their shapes and types ({situation})").format(
                situation=situation
            ),
            _("process {rank} has {found}").format(rank=rank, found=found["found"]),
            _("Assign to the elements, as in parameter[...] = values."),
        )
    if problem == "bits":
        hint = _("Compute each new value in one process only, and send copies of it.")
        return different_bits(found, situation, hint)
    wanted, value = (number(found[key], ".9g") for key in ("wanted", "found"))
    mistake: str | None = found.get("mistake")
    unknown = _("Which elements are wrong, and which process owns them? Print their numbers.")
    if any(call["method"] == "load" for call in session["calls"]):
        unknown = _("Each moment belongs to an element, which another process may own after load.")
        if not session["sent"]:  # no step yet
            unknown = _("load restores only the state of the optimizer. It changes no parameter.")
    return CheckFailed(
        _(
            "element {element} of all parameters, joined in one array, is {wanted} ({situation})"
        ).format(element=found["element"], wanted=wanted, situation=situation),
        _("it is {found} in process {rank}").format(rank=rank, found=value),
        _(HINTS[mistake]) if mistake else unknown,
    )


def _parameters(stage: str) -> Any:
    """A check that all parameters of a stage are right."""

    def check(seen: Mapping[str, Any], case: Case) -> None:
        for session in _stage(seen, stage):
            expect_right(session)

    return check


def _sends_little(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "traffic"):
        expect_right(session)
        for step in session["sent"]:
            for rank, sent in enumerate(step):
                _expect_bytes(session, rank, sent)


def _expect_bytes(session: Mapping[str, Any], rank: int, sent: int) -> None:
    """The two collectives send (N-1)/N each, together as much as an all-reduce."""
    wanted = wanted_bytes(session["workers"], parameter_bytes(session["shapes"]))
    expect_bytes(
        rank,
        sent,
        wanted,
        BYTES_TOLERANCE,
        expected=ngettext(
            "with N = {workers}, each process sends {wanted} byte per step, 2(N−1)/N of the "
            "parameters",
            "with N = {workers}, each process sends {wanted} bytes per step, 2(N−1)/N of the "
            "parameters",
            round(wanted),
        ).format(workers=session["workers"], wanted=number(round(wanted), ",d")),
        more=_(
            "In a step, each gradient needs reduce_scatter once, and each parameter needs "
            "all_gather once. The moments stay where they are. Are all arrays float32? A product "
            "with np.float64, such as a result of np.sqrt, is float64."
        ),
        fewer=_("All data must go through the collectives of group."),
    )


def _memory(moment: str, expected: str, too_much: str) -> Any:
    """A check of the memory at a moment, "held" or "peak"."""

    def check(seen: Mapping[str, Any], case: Case) -> None:
        for session in _stage(seen, "memory"):
            expect_right(session)
            size = parameter_bytes(session["shapes"])
            wanted = wanted_memory(session["workers"], size)
            for rank, found in enumerate(session["memory"][moment]):
                if found is None:
                    raise CheckSkipped(_("This system does not report the memory of a process."))
                share = found / wanted - 1
                too_little = _("The moments must be arrays of float32 in this process.")
                expect(
                    abs(share) <= MEMORY_TOLERANCE,
                    expected=_(expected).format(
                        workers=session["workers"], wanted=number(wanted / MB, ".1f")
                    ),
                    found=_("process {rank} needs {found} MB, {share} of that").format(
                        rank=rank,
                        found=number(found / MB, ".1f"),
                        share=number(1 + share, ".0%"),
                    ),
                    hint=_(too_much) if share > 0 else too_little,
                )

    return check


def _restores(seen: Mapping[str, Any], case: Case) -> None:
    for found in _stage(seen, "checkpoints"):
        expect_right(found["saved"])
        expect_right(found["restored"])


def _saves_once(seen: Mapping[str, Any], case: Case) -> None:
    for found in _stage(seen, "checkpoints"):
        expect_right(found["saved"])
        size = 2 * parameter_bytes(found["saved"]["shapes"])
        limit = round((1 + MEMORY_TOLERANCE) * size)
        expect(
            MIN_STATE * size <= found["bytes"] <= limit,
            expected=ngettext(
                "the files contain at most {limit} byte, the size of both moments plus 10%, and at "
                "least half of that size",
                "the files contain at most {limit} bytes, the size of both moments plus 10%, and "
                "at least half of that size",
                limit,
            ).format(limit=number(limit, ",d")),
            found=ngettext(
                "{count} file with {size} bytes", "{count} files with {size} bytes", found["files"]
            ).format(count=found["files"], size=number(found["bytes"], ",d")),
            hint=_(
                "float32 is enough: a file of float64 is twice as large. Together, the processes "
                "save each moment of each element once, and no more."
            )
            if found["bytes"] > limit
            else _("Together, the processes save each moment of each element once."),
        )


def _detects_loss(seen: Mapping[str, Any], case: Case) -> None:
    for found in _stage(seen, "checkpoints"):
        expect_right(found["saved"])
        if "broken" not in found or not works(found["restored"]):
            raise CheckSkipped(_("The state must be restored first."))
        [*_others, last] = found["broken"]["calls"]
        expect(
            any(reply.kind == RAISED for reply in from_data(last["replies"])),
            expected=_("load raises an error after a file has been deleted"),
            found=_("no process raised an error"),
            hint=_("Save the number of files, or check that every element has been restored."),
        )


def _situation(session: Mapping[str, Any]) -> str:
    workers, steps = processes(session["workers"]), len(session["sent"])
    if "saved_by" in session:
        after = _("{processes}, after load, saved by {others}")
        if steps:
            after = ngettext(
                "{processes}, {count} step after load, saved by {others}",
                "{processes}, {count} steps after load, saved by {others}",
                steps,
            )
        others = processes(session["saved_by"])
        return after.format(processes=workers, count=steps, others=others)
    if not steps:
        return workers
    return ngettext("{processes}, {count} step", "{processes}, {count} steps", steps).format(
        processes=workers, count=steps
    )


DIVISIBLE = [(24, 10), (24,), (48, 5)]
STATE = [(240, 250), (120,)]
EXERCISE = Exercise(
    run,
    (
        Criterion(
            2,
            gettext_noop("After a step, two processes have the parameters of an unsharded Adam."),
            _parameters("pair"),
        ),
        Criterion(
            2,
            gettext_noop(
                "So do 3 or more processes after 10 steps, with bit-identical parameters."
            ),
            _parameters("weights"),
        ),
        Criterion(
            3,
            gettext_noop(
                "The length of a parameter need not be divisible by N, and may be less than N."
            ),
            _parameters("lengths"),
        ),
        Criterion(
            3,
            gettext_noop("In each step, each process sends 2(N−1)/N of the parameters, within 2%."),
            _sends_little,
        ),
        Criterion(
            3,
            gettext_noop("Between two steps, memory is within 10% of the formula."),
            _memory(
                "held",
                gettext_noop(
                    "with N = {workers}, a process needs {wanted} MB between two steps, within 10%"
                ),
                gettext_noop(
                    "Keep the moments of this process's elements as float32, and do not keep "
                    "copies of the parameters or gradients."
                ),
            ),
        ),
        Criterion(
            2,
            gettext_noop("During a step, peak memory is within 10% of the formula."),
            _memory(
                "peak",
                gettext_noop(
                    "with N = {workers}, a process needs {wanted} MB in a step, within 10%"
                ),
                gettext_noop(
                    "Temporary arrays need memory, too. Handle a large parameter in blocks of "
                    "about 100,000 numbers."
                ),
            ),
        ),
        Criterion(
            3, gettext_noop("A different number of processes can restore the state."), _restores
        ),
        Criterion(1, gettext_noop("The files contain each moment once."), _saves_once),
        Criterion(1, gettext_noop("A missing file is an error."), _detects_loss),
    ),
    {
        "seed": 1,
        "settings": (0.01, 0.9, 0.98, 0.01),
        "weights": [(3, DIVISIBLE), (8, DIVISIBLE)],
        "lengths": [(4, [(7, 3), (3,), (1,), (5,)]), (5, [(2, 3), (1,), (11,)])],
        "traffic": [(2, [(700, 500)]), (4, [(700, 500), (500,)])],
        "memory": [(4, [(3000, 2000), (2000,)])],
        "restore": [(4, 3, STATE), (2, 4, STATE)],
    },
    independent=True,
)
