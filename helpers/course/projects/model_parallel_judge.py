"""Project 4, what its criteria share: results, bytes, and errors after faults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, expect
from helpers.course.projects.group import GRACE, HANG
from helpers.course.projects.judge import (
    expect_connected,
    expect_errors,
    expect_returned,
    processes,
)
from helpers.course.projects.model_parallel_expected import KIND, TOLERANCE
from helpers.course.projects.observations import from_data
from helpers.i18n import _, gettext_noop, join_items, ngettext, number

HINTS = {  # by the mistake that explains the result, see `model_parallel_expected`
    "mean": gettext_noop(
        "This is the mean of the micro-batches' means. Every example must have the same influence, "
        "so a larger micro-batch must have more."
    ),
    "sum": gettext_noop(
        "This is the sum of the micro-batches' means. Multiply each mean by the micro-batch's "
        "share of the batch."
    ),
    "divided": gettext_noop("This was divided by the number of micro-batches once too often."),
    "examples": gettext_noop("Divide by the number of examples in the batch."),
    "last": gettext_noop("This is the result of the last micro-batch alone. Add all of them."),
    "unchanged": gettext_noop("These are the initial weights."),
    "reversed": gettext_noop(
        "The first layer used the activations of the micro-batches in reverse order. Gradients "
        "arrive in the order in which the next process runs its backward passes."
    ),
    "bias": gettext_noop(
        "Both processes added b2, so the sum contains it twice. Add it once, after the all-reduce."
    ),
    "no bias": gettext_noop("b2 is missing."),
    "half": gettext_noop("This is the mean of both processes' results. Use their sum."),
    "half but bias": gettext_noop("This is the mean of both processes' results. Use their sum."),
    "double": gettext_noop("This is twice the right result. Is something added twice?"),
    "partial": gettext_noop(
        "The results of both processes are parts of a sum. An all-reduce must add them."
    ),
    "not updated": gettext_noop("This is the result without an update."),
    "all gradients": gettext_noop(
        "The update used gradients that were twice as large as they should be."
    ),
    "last biases": gettext_noop(
        "The update used twice the gradient of b2. Both processes already have all of it."
    ),
    "no last biases": gettext_noop("The update did not change b2."),
}


def expect_right(session: Mapping[str, Any]) -> None:
    """Fails unless all calls of a session returned, and their results are right."""
    workers = processes(session["workers"])
    expect_connected(from_data(session["opened"]), workers, HANG)
    for call in session["calls"]:
        pipeline = call["method"] == "train_stage"
        situation = describe_pipeline(call) if pipeline else _describe_block(call)
        hint = _(
            "Does a process send while the other one sends too, and neither receives? Large "
            "arrays do not fit into the buffers of a connection."
        )
        replies = from_data(call["replies"])
        expect_returned(replies, call["method"], situation, call["deadline"], hint)
        if pipeline:
            _expect_operations(call, situation)
        if call["difference"]:
            raise _difference(call, situation)


def _expect_operations(call: Mapping[str, Any], situation: str) -> None:
    """Fails if the numbers of operations, or their arguments, are certainly wrong."""
    wanted = call["micro_batches"] * len(call["sizes"])
    for rank, counts in enumerate(call["counts"]):
        own_inputs = _("each micro-batch has its own inputs in the backward pass ({situation})")
        one_change = _("the weights change once for each batch ({situation})")
        for method in ("forward", "backward"):
            expect(
                counts[method] == wanted,
                expected=ngettext(
                    "each process calls {method} {count} time ({situation})",
                    "each process calls {method} {count} times ({situation})",
                    wanted,
                ).format(method=f"layer.{method}", count=wanted, situation=situation),
                found=ngettext(
                    "process {rank} called it {count} time",
                    "process {rank} called it {count} times",
                    counts[method],
                ).format(rank=rank, count=counts[method]),
                hint=_(
                    "Each batch has micro_batches parts, and each part passes through a layer "
                    "once in each direction."
                ),
            )
        expect(
            not counts["foreign"],
            expected=own_inputs.format(situation=situation),
            found=_(
                "process {rank} called layer.backward with inputs that had no forward pass, or "
                "whose backward pass had already run"
            ).format(rank=rank),
            hint=_("Keep the inputs and outputs of each micro-batch until its backward pass."),
        )
        expect(
            not counts["early"],
            expected=one_change.format(situation=situation),
            found=_("in process {rank}, they changed between two micro-batches").format(rank=rank),
            hint=_(
                "Add the gradients of all micro-batches, and change the weights after the last one."
            ),
        )


def _difference(call: Mapping[str, Any], situation: str) -> CheckFailed:
    found = call["difference"]
    rank = found["rank"]
    if found["problem"] == "array":
        return CheckFailed(
            _("arrays of the right shapes ({situation})").format(situation=situation),
            _("process {rank} has {found}").format(rank=rank, found=found["found"]),
            _("Print the shapes of all arrays, before and after each product."),
        )
    if found["problem"] == "loss":
        expected = _("the mean loss of batch {batch} is {wanted} ({situation})").format(
            batch=found["batch"], wanted=number(found["wanted"], ".6g"), situation=situation
        )
        text = _("process {rank} returned {found}").format(
            rank=rank, found=number(found["found"], ".6g")
        )
    elif found["problem"] == "weights":
        expected = _("the same weights as in one process, within {tolerance} ({situation})").format(
            tolerance=number(TOLERANCE, "g"), situation=situation
        )
        text = _differs(rank, found["found"])
    else:
        expected = _("{method} returns what one process computes ({situation})").format(
            method=found["method"], situation=situation
        )
        text = _differs(rank, found["found"])
    unknown = _(
        "Do the inputs, outputs and gradients of a backward pass belong to the same examples? "
        "Are all numbers of type float64 when they are sent?"
    )
    if "size" in call and call["widths"][1] % 2:
        unknown = _("If the number of columns is odd, one process keeps one more than the other.")
    cause: str = found["cause"]
    return CheckFailed(expected, text, _(HINTS[cause]) if cause else unknown)


def _differs(rank: int, found: float | None) -> str:
    if found is None:
        return _("process {rank} has values that are not finite numbers").format(rank=rank)
    return _("process {rank} differs by {found}").format(rank=rank, found=number(found, ".2g"))


def expect_fault(found: Mapping[str, Any], stage: str) -> None:
    """Fails unless the survivors of a fault raised an error."""
    fault = {
        "killed": _("{method} raises an error within {seconds} s after process 1 was killed"),
        "frozen": _("{method} raises an error within {seconds} s after process 1 was frozen"),
    }[stage]
    expected = fault.format(method=found["method"], seconds=number(found["timeout"], "g"))
    expect(
        found["triggered"],
        expected=expected,
        found=_("process 1 sent less data than its arrays contain, so no fault was injected"),
        hint=_("All bytes must go through the addresses that connect receives."),
    )
    expect_errors(
        dict(zip(found["ranks"], from_data(found["replies"]), strict=True)),
        expected,
        found["timeout"] + GRACE,
        late=_("Limit every wait: for a connection, a message, a thread, or a queue."),
        returned=(
            _("process {rank} returned, without the data of process 1"),
            _("Do not ignore socket errors. An error in a thread ends only that thread."),
        ),
    )


def describe_pipeline(call: Mapping[str, Any]) -> str:
    """The processes, micro-batches and batches of a call, in words."""
    text = _("processes: {workers}, micro-batches per batch: {count}, batches of {sizes}")
    return text.format(
        workers=len(call["widths"]) - 1,
        count=call["micro_batches"],
        sizes=join_items(map(str, call["sizes"])),
    )


def _describe_block(call: Mapping[str, Any]) -> str:
    inputs, hidden, outputs = call["widths"]
    text = _("{inputs} inputs, {hidden} columns of w1, {outputs} outputs")
    return text.format(inputs=inputs, hidden=hidden, outputs=outputs)


def activation_bytes(call: Mapping[str, Any], rank: int) -> int:
    """The inputs and outputs of the largest micro-batch of a layer."""
    rows = -(-max(call["sizes"]) // call["micro_batches"])
    return KIND.itemsize * rows * sum(call["widths"][rank : rank + 2])
