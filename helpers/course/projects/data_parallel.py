"""Project 2: a data-parallel training loop, with buckets that overlap with the backward pass.

Buckets are filled and reduced as in PyTorch's DistributedDataParallel. Source: Li et al., "PyTorch
distributed: experiences on accelerating data parallel training", 2020, section 3.2,
https://doi.org/10.14778/3415478.3415530.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, CheckSkipped, Criterion, Exercise, expect
from helpers.course.projects.data_parallel_expected import TOLERANCE
from helpers.course.projects.data_parallel_runs import SURVIVORS, WAIT, run
from helpers.course.projects.group import GRACE, HANG
from helpers.course.projects.judge import (
    expect_bytes,
    expect_connected,
    expect_errors,
    expect_returned,
    processes,
    stage_reader,
)
from helpers.course.projects.observations import from_data
from helpers.i18n import _, gettext_noop, ngettext, number

TRAFFIC_TOLERANCE = 0.05  # of the bytes, for headers and numbers of examples
HINTS = {  # by the mistake that explains the weights, see `data_parallel_expected`
    "start": gettext_noop(
        "These are the weights you get if each process starts with its own weights."
    ),
    "mean start": gettext_noop(
        "These are the weights you get if all processes start with the mean of their weights, and "
        "not with those of process 0."
    ),
    "mean at the end": gettext_noop(
        "This is the mean of weights that each process has trained alone. Reduce the gradients of "
        "every step."
    ),
    "mean": gettext_noop(
        "These weights result from the plain mean of the processes' gradients. Every example must "
        "have the same influence, so a process with more examples must count more."
    ),
    "sum": gettext_noop(
        "These weights result from the sum of the processes' gradients. Each of them is a mean "
        "over its own examples."
    ),
    "weighted sum": gettext_noop("Divide by the number of examples of all processes."),
    "own": gettext_noop("This process has used only its own gradients."),
    "last bucket": gettext_noop("Is the last bucket reduced too, even if it is not full?"),
    "": gettext_noop(
        "Print the layers of each bucket in every process, and when its all-reduce starts and "
        "ends. Two all-reduces that run at the same time, for example in two threads, mix their "
        "bytes."
    ),
}
_stage = stage_reader(gettext_noop("Two processes must train like one worker first."))


def _weights(stage: str) -> Any:
    """A check that all weights of a stage are right."""

    def check(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
        for session in _stage(seen, stage):
            expect_weights(session)

    return check


def _same_bits(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    for session in _stage(seen, "steps"):
        expect_weights(session)
        for call in session["calls"]:
            if call["difference"]:
                raise CheckFailed(
                    _("the same bits in every process ({situation})").format(
                        situation=_situation(call)
                    ),
                    _(
                        "the weights of process {rank} differ from those of process 0 by {found}"
                    ).format(
                        rank=call["difference"]["rank"],
                        found=number(call["difference"]["found"], ".2g"),
                    ),
                    _("Does your all-reduce return the same bits in every process?"),
                )


def expect_weights(session: Mapping[str, Any]) -> None:
    """Fails unless all calls of a session ended with the weights of one worker."""
    workers = session["workers"]
    expect_connected(from_data(session["opened"]), processes(workers), HANG)
    for call in session["calls"]:
        hint = _(
            "Does every process start the same all-reduces in the same order, even if it has no "
            "examples?"
        )
        replies = from_data(call["replies"])
        expect_returned(replies, "train", _situation(call), call["deadline"], hint)
        if call["difference"] and call["difference"]["problem"] != "bits":
            raise _difference(call["difference"], call)


def _difference(found: Mapping[str, Any], call: Mapping[str, Any]) -> CheckFailed:
    situation = _situation(call)
    if found["problem"] == "array":
        return CheckFailed(
            _("network.weights has arrays of the same shapes as before ({situation})").format(
                situation=situation
            ),
            _("process {rank} has {found}").format(rank=found["rank"], found=found["found"]),
            _(
                "Change the arrays in network.weights, or replace them with arrays of the same "
                "shape."
            ),
        )
    if found["found"] is None:
        text = _("process {rank} has weights in layer {layer} that are not finite numbers")
    else:
        text = _("process {rank} differs by {found}, most in layer {layer}")
    cause: str = found["cause"]
    hint = _(HINTS[cause])
    if not found["cause"] and any(0 in sizes for sizes in call["sizes"]):
        hint = _(
            "Some batches are empty. Every process takes part in each step, even without examples."
        )
    return CheckFailed(
        _("the weights of one worker, within {tolerance} ({situation})").format(
            tolerance=number(TOLERANCE, "g"), situation=situation
        ),
        text.format(
            rank=found["rank"], found=number(found["found"] or 0, ".2g"), layer=found["layer"]
        ),
        hint,
    )


def _sends_once(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    found = _stage(seen, "traffic")
    expect_weights(found["session"])
    wanted = found["gradients"]
    expected = ngettext(
        "each of 2 processes sends {wanted} byte per step, the size of its gradients",
        "each of 2 processes sends {wanted} bytes per step, the size of its gradients",
        wanted,
    )
    for rank, sent in enumerate(found["step"]):
        expect_bytes(
            rank,
            sent,
            wanted,
            TRAFFIC_TOLERANCE,
            expected=expected.format(wanted=number(wanted, ",d")),
            more=_(
                "Which arrays does a step send in addition to the gradients? Do the gradients have "
                "the type float32 when they are sent?"
            ),
            fewer=_("All traffic must go through the addresses passed to connect."),
        )


def _sends_while_computing(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    found = _overlap(seen)
    expect(
        _is_sent(found),
        expected=ngettext(
            "gradients are sent during the backward pass, after {full} byte of gradients "
            "(bucket_bytes={bucket})",
            "gradients are sent during the backward pass, after {full} bytes of gradients "
            "(bucket_bytes={bucket})",
            found["full"],
        ).format(full=number(found["full"], ",d"), bucket=number(found["bucket"], ",d")),
        found=ngettext(
            "the check stopped the backward pass after these gradients, and within {seconds} s all "
            "processes together sent only {sent} byte",
            "the check stopped the backward pass after these gradients, and within {seconds} s all "
            "processes together sent only {sent} bytes",
            found["during"],
        ).format(seconds=number(WAIT, "g"), sent=number(found["during"], ",d")),
        hint=_(
            "network.gradients yields one gradient at a time. Start the all-reduce of a full "
            "bucket before you ask for the next gradient."
        ),
    )


def _fills_buckets(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    found = _overlap(seen)
    _require_sent(found)
    expect(
        found["early"] <= found["smaller"],  # half of what both processes would send
        expected=ngettext(
            "nothing is sent before a bucket has {bucket} byte",
            "nothing is sent before a bucket has {bucket} bytes",
            found["bucket"],
        ).format(bucket=number(found["bucket"], ",d")),
        found=ngettext(
            "after the smaller gradients, all processes together had sent {sent} byte",
            "after the smaller gradients, all processes together had sent {sent} bytes",
            found["early"],
        ).format(sent=number(found["early"], ",d")),
        hint=_(
            "Each all-reduce has a latency. Collect small gradients, and reduce them as one array."
        ),
    )


def _continues(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    found = _overlap(seen)
    _require_sent(found)
    waits = found["waits"]
    expect(
        waits is None,
        expected=_("the backward pass continues while no data arrives"),
        found=waits
        and _(
            "{seconds} s after the gradient of layer {layer}, process {rank} had not asked for "
            "the next one"
        ).format(rank=waits["rank"], seconds=number(WAIT, "g"), layer=waits["layer"]),
        hint=_(
            "Run the all-reduces in a thread, and wait for their results after the backward pass."
        ),
    )


def _overlap(seen: Mapping[str, Any]) -> Any:
    found = _stage(seen, "overlap")
    expect_weights(found["session"])
    expect(
        "during" in found and "waits" in found,
        expected=_("each process iterates over network.gradients once in each step"),
        found=_("a different number of times"),
        hint=_("A process without examples iterates over it too, and gets zeros."),
    )
    return found


def _require_sent(found: Mapping[str, Any]) -> None:
    if not _is_sent(found):
        raise CheckSkipped(_("First, gradients must be sent during the backward pass."))


def _is_sent(found: Mapping[str, Any]) -> bool:
    """Whether half of a bucket was sent, which is a part of any all-reduce of two processes."""
    return found["during"] >= found["bucket"] // 2


def _survives(seen: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    found = _stage(seen, "killed")
    expect_weights(found["session"])
    expected = _("train raises an error within {seconds} s after process 1 was killed").format(
        seconds=number(found["timeout"], "g")
    )
    expect(
        found["triggered"],
        expected=expected,
        found=_("process 1 sent less data than its gradients contain, so it was never killed"),
        hint=_("All traffic must go through the addresses passed to connect."),
    )
    expect_errors(
        dict(zip(SURVIVORS, from_data(found["replies"]), strict=True)),
        expected,
        found["timeout"] + GRACE,
        late=_(
            "An error in a thread ends only that thread. Pass it to train, and raise it there. A "
            "Future of concurrent.futures does that."
        ),
        returned=(
            _("process {rank} returned from train, without the gradients of process 1"),
            _("Do not ignore errors from the all-reduce."),
        ),
    )


def _situation(call: Mapping[str, Any]) -> str:
    steps, workers = len(call["sizes"]), len(call["sizes"][0])
    text = ngettext(
        "{workers} processes, {count} step, bucket_bytes={bucket}",
        "{workers} processes, {count} steps, bucket_bytes={bucket}",
        steps,
    )
    return text.format(workers=workers, count=steps, bucket=number(call["bucket"], ",d"))


EXERCISE = Exercise(
    run,
    (
        Criterion(2, gettext_noop("Two processes train like one worker."), _weights("pair")),
        Criterion(
            2,
            gettext_noop("So do 2 to 5 processes over several steps, with bit-identical weights."),
            _same_bits,
        ),
        Criterion(3, gettext_noop("Batches may be uneven, or empty."), _weights("uneven")),
        Criterion(
            2,
            gettext_noop("All processes start with the weights of process 0."),
            _weights("starts"),
        ),
        Criterion(2, gettext_noop("A step sends each gradient once, within 5%."), _sends_once),
        Criterion(
            3,
            gettext_noop("A full bucket is sent during the backward pass."),
            _sends_while_computing,
        ),
        Criterion(2, gettext_noop("Small gradients share a bucket."), _fills_buckets),
        Criterion(2, gettext_noop("The backward pass does not wait for a bucket."), _continues),
        Criterion(
            2,
            gettext_noop("If a process is killed, the others raise an error."),
            _survives,
        ),
    ),
    {
        "seed": 1,
        "steps": [
            [((6, 5, 4, 3), [[4, 4]] * 10, 1)],
            [((6, 5, 4, 3), [[3] * 5] * 10, 10**9)],
        ],
        "uneven": [
            [
                ((6, 5, 4, 3), [[5, 2, 1], [1, 4, 3], [6, 6, 1]], 100),
                ((6, 5, 4, 3), [[5, 2, 1], [0, 4, 3], [1, 0, 0]], 100),
            ]
        ],
        "starts": [[((6, 5, 4, 3), [[4, 4, 4]] * 2, 100, False)]],
        "traffic": ((200, 100, 50, 10), [[4, 4]] * 4, 20_000),
        "overlap": ((600, 200, 200, 8, 8, 10), [[4, 4]] * 2, 65_536),
        "killed": ((200, 200, 10), [[4, 4, 4]] * 4, 65_536),
        "timeout": 2.0,
    },
    independent=True,
)
