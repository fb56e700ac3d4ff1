"""Project 4: a pipeline of layers with micro-batches, and two layers split by columns and rows.

Sources: Huang et al., "GPipe", 2019, https://arxiv.org/abs/1811.06965, for the pipeline, and
Shoeybi et al., "Megatron-LM", 2019, section 3, https://arxiv.org/abs/1909.08053, for the block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.course.criteria import CheckSkipped, Criterion, Exercise, expect
from helpers.course.projects.judge import expect_bytes
from helpers.course.projects.model_parallel_clock import (
    DURATIONS,
    IDLE_TOLERANCE,
    Operation,
    idle_share,
    wanted_share,
)
from helpers.course.projects.model_parallel_expected import KIND, Job
from helpers.course.projects.model_parallel_judge import (
    activation_bytes,
    describe_pipeline,
    expect_fault,
    expect_right,
)
from helpers.course.projects.model_parallel_network import BACKWARD, FORWARD
from helpers.course.projects.model_parallel_runs import Case, run
from helpers.i18n import _, gettext_noop, ngettext, number

PIPELINE = ("steps", "uneven", "traffic", "bubble", "memory", "killed")  # stages
TRAFFIC_TOLERANCE = 0.05  # of the bytes, for headers
SPARE = 3  # micro-batches whose arrays are received, sent, or copied
NOISE = 2 << 20  # bytes
MEMORY_TOLERANCE = 0.1
MB = 1e6


def _results(stage: str) -> Callable[[Mapping[str, Any], Case], None]:
    """A check that all results of a stage are right."""

    def check(seen: Mapping[str, Any], case: Case) -> None:
        for session in _stage(seen, stage):
            expect_right(session)

    return check


def _stage(seen: Mapping[str, Any], stage: str) -> Any:
    if stage in seen:
        return seen[stage]
    raise CheckSkipped(
        _("This needs a pipeline of two processes that trains like one process.")
        if stage in PIPELINE
        else _("This needs a block in two processes that computes the right results.")
    )


def _sends_once(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "traffic"):
        expect_right(session)
        for call in session["calls"]:
            job = Job(call["widths"], call["sizes"], call["micro_batches"])
            for rank, (wanted, sent) in enumerate(zip(job.sent, call["sent"], strict=True)):
                expect_bytes(
                    rank,
                    sent,
                    wanted,
                    TRAFFIC_TOLERANCE,
                    expected=ngettext(
                        "process {rank} sends {wanted} byte: outputs to the next process, and "
                        "gradients to the previous one",
                        "process {rank} sends {wanted} bytes: outputs to the next process, and "
                        "gradients to the previous one",
                        wanted,
                    ).format(rank=rank, wanted=number(wanted, ",d")),
                    more=_(
                        "Send the outputs of a layer and the gradient of its inputs, and no more."
                    ),
                    fewer=_("All bytes must go through the addresses that connect receives."),
                )


def _reduces_once(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "exchange"):
        expect_right(session)
        inputs, _hidden, outputs = session["widths"]
        steps = iter(session["sent"])
        for size in session["sizes"]:
            for method, count in (("forward", outputs), ("backward", inputs), ("update", 0)):
                for rank, sent in enumerate(next(steps)):
                    _expect_all_reduce(method, KIND.itemsize * size * count, rank, sent)


def _expect_all_reduce(method: str, wanted: int, rank: int, sent: int) -> None:
    expected = ngettext(
        "process {rank} sends {wanted} byte in {method}",
        "process {rank} sends {wanted} bytes in {method}",
        wanted,
    ).format(rank=rank, wanted=number(wanted, ",d"), method=method)
    hint = _(
        "Each process computes one part of a sum, and an all-reduce sends it once. A forward pass "
        "needs an all-reduce for the outputs, a backward pass needs one for the gradient of the "
        "inputs, and an update needs none."
    )
    if wanted:
        expect_bytes(
            rank, sent, wanted, TRAFFIC_TOLERANCE, expected=expected, more=hint, fewer=hint
        )
    else:
        found = ngettext("it sent {sent} byte", "it sent {sent} bytes", sent)
        expect(sent == 0, expected=expected, found=found.format(sent=number(sent, ",d")), hint=hint)


def _overlaps(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "bubble"):
        expect_right(session)
        operations, workers = _operations(session), session["workers"]
        wanted = wanted_share(workers, session["calls"][-1]["micro_batches"])
        found = idle_share(operations, workers)
        expect(
            found <= wanted + IDLE_TOLERANCE,
            expected=_("on average, a process waits for {share} of the time ({situation})").format(
                share=number(wanted, ".0%"), situation=describe_pipeline(session["calls"][-1])
            ),
            found=_("it waits for {share} of the time").format(share=number(found, ".0%")),
            hint=_pause(operations, workers),
        )


def _operations(session: Mapping[str, Any]) -> list[Operation]:
    return [Operation(*values) for values in session["operations"]]


def _pause(operations: Sequence[Operation], workers: int) -> str:
    """The first pause that a schedule without unnecessary pauses does not have, as a hint."""
    first = {rank: [one for one in operations if one.rank == rank] for rank in range(workers)}
    if max(one.in_flight for one in first[0]) == 1:
        return _(
            "Process 0 never has two micro-batches in flight. Start the forward pass of the next "
            "one before the gradient of the first one arrives."
        )
    for rank in range(1, workers):
        start, earliest = first[rank][0].start, rank * DURATIONS[FORWARD]
        if start > earliest:
            text = _(
                "Process {rank} starts at time {start}, but could start at {earliest}. Send each "
                "output as soon as it exists."
            )
            return text.format(rank=rank, start=start, earliest=earliest)
    for rank in range(workers - 1):
        start = min(one.start for one in first[rank] if one.kind == BACKWARD)
        earliest = min(one.end for one in first[rank + 1] if one.kind == BACKWARD)
        ready = max(one.end for one in first[rank] if one.start < start)
        if start > max(earliest, ready):
            text = _(
                "Process {rank} starts its backward passes at time {start}, but could start at "
                "{earliest}. Send each gradient as soon as it exists."
            )
            return text.format(rank=rank, start=start, earliest=max(earliest, ready))
    return _("Draw the operations of each process over time. Which operation waits for which data?")


def _frees_memory(seen: Mapping[str, Any], case: Case) -> None:
    for session in _stage(seen, "memory"):
        expect_right(session)
        call = session["calls"][-1]
        for operation in _operations(session):
            if operation.memory is None:
                raise CheckSkipped(_("This system does not report the memory of a process."))
            unit = activation_bytes(call, operation.rank)
            wanted = operation.in_flight * unit
            kind = (_("forward"), _("backward"))[operation.kind]
            expect(
                operation.memory <= wanted + SPARE * unit + NOISE,
                expected=ngettext(
                    "with {count} micro-batch in flight, process {rank} needs {wanted} MB for its "
                    "inputs and outputs, and at most {spare} MB for other arrays",
                    "with {count} micro-batches in flight, process {rank} needs {wanted} MB for "
                    "their inputs and outputs, and at most {spare} MB for other arrays",
                    operation.in_flight,
                ).format(
                    count=operation.in_flight,
                    rank=operation.rank,
                    wanted=number(wanted / MB, ".1f"),
                    spare=number((SPARE * unit + NOISE) / MB, ".1f"),
                ),
                found=_("it needs {found} MB before a {kind} pass").format(
                    found=number(operation.memory / MB, ".1f"), kind=kind
                ),
                hint=_(
                    "After its backward pass, a micro-batch no longer needs its inputs and "
                    "outputs. Remove them from every list, queue and variable."
                ),
            )


def _halves(seen: Mapping[str, Any], case: Case) -> None:
    session = _stage(seen, "halves")
    expect_right(session)
    wanted = session["size"] / 2
    for rank, held in enumerate(session["held"]):
        if held is None:
            raise CheckSkipped(_("This system does not report the memory of a process."))
        expect(
            abs(held / wanted - 1) <= MEMORY_TOLERANCE,
            expected=_("each process keeps half of the weights, {wanted} MB, within 10%").format(
                wanted=number(wanted / MB, ".1f")
            ),
            found=_("process {rank} keeps {found} MB after create_block").format(
                rank=rank, found=number(held / MB, ".1f")
            ),
            hint=_(
                "A slice of an array is a view, and keeps the whole array in memory. Copy the "
                "part that this process needs."
            ),
        )


def _raises(stage: str) -> Callable[[Mapping[str, Any], Case], None]:
    """A check that the other processes raise an error after a fault."""

    def check(seen: Mapping[str, Any], case: Case) -> None:
        session = _stage(seen, stage)
        expect_right(session)
        expect_fault(session["broken"], stage)

    return check


EXERCISE = Exercise(
    run,
    (
        Criterion(
            2, gettext_noop("Two stages of a pipeline train like one process."), _results("pair")
        ),
        Criterion(
            2,
            gettext_noop("So do 2 to 4 stages, with several batches and 1 to 8 micro-batches."),
            _results("steps"),
        ),
        Criterion(
            2,
            gettext_noop("The batch size need not be divisible by the number of micro-batches."),
            _results("uneven"),
        ),
        Criterion(
            2,
            gettext_noop(
                "A stage sends no more than its outputs and the gradient of its inputs, within 5%."
            ),
            _sends_once,
        ),
        Criterion(
            3, gettext_noop("On average, a stage waits for (p−1)/(m+p−1) of the time."), _overlaps
        ),
        Criterion(
            2,
            gettext_noop("Only micro-batches in flight need memory for inputs and outputs."),
            _frees_memory,
        ),
        Criterion(
            1, gettext_noop("If a stage is killed, the others raise an error."), _raises("killed")
        ),
        Criterion(
            2,
            gettext_noop("A block in two processes computes what one process computes."),
            _results("block"),
        ),
        Criterion(
            1,
            gettext_noop("It does so after updates and with an odd number of columns, too."),
            _results("updates"),
        ),
        Criterion(
            1,
            gettext_noop(
                "Each pass of a block sends what one all-reduce needs, within 5%, and an update "
                "sends nothing."
            ),
            _reduces_once,
        ),
        Criterion(1, gettext_noop("Each process keeps half of the weights of a block."), _halves),
        Criterion(
            1,
            gettext_noop("If a process of a block is frozen, the other one raises an error."),
            _raises("frozen"),
        ),
    ),
    {
        "seed": 1,
        "steps": [
            [((5, 4, 3), [8, 8, 8], 4), ((6, 3, 4), [6], 1)],
            [((5, 4, 6, 3), [12, 12], 6)],
            [((4, 3, 5, 4, 2), [16, 16], 8)],
        ],
        "uneven": [
            [((5, 4, 3), [7], 2), ((5, 4, 3), [7, 5, 9], 4)],
            [((4, 5, 6, 3), [11, 7], 5)],
        ],
        "traffic": [[((50, 400, 300, 10), [61, 60], 7)]],
        "bubble": [((6, 5, 4), [12], 4), ((6, 5, 5, 4), [18], 6)],
        "memory": [((10, 1000, 10), [9000], 6)],
        "killed": ((50, 400, 300, 10), [60] * 4, 6),
        "updates": [((4, 6, 3), [5, 4, 6]), ((5, 7, 2), [3, 3])],
        "exchange": [((300, 40, 200), [100, 50])],
        "halves": (1000, 1200, 800),
        "frozen": ((50, 60, 1000), 200),
        "timeout": 2.0,
    },
    independent=True,
)
