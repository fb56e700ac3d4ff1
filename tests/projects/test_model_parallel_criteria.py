"""The criteria of project 4 without processes: what is compared, and what a message says."""

from __future__ import annotations

import functools
import queue
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from helpers.course.projects import model_parallel_clock
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, Reply
from helpers.course.projects.model_parallel import EXERCISE
from helpers.course.projects.model_parallel_clock import (
    Clock,
    Operation,
    idle_share,
    wanted_share,
)
from helpers.course.projects.model_parallel_expected import (
    RATE,
    RULES,
    UPDATES,
    Block,
    Job,
    find_block_difference,
    find_difference,
    make_block,
    make_pass,
    make_training,
    train_alone,
)
from helpers.course.projects.model_parallel_network import (
    BACKWARD,
    COUNTS,
    FORWARD,
    Layer,
    Process,
)
from helpers.course.projects.observations import to_data
from tests.projects.criteria import failures_of

OK = Reply(RETURNED)
F, B = FORWARD, BACKWARD
JOB = Job((5, 4, 3), [8], 2)
# Two stages, two micro-batches, 1F1B.
OPERATIONS = [
    [0, F, 0, 1, 0], [0, F, 1, 2, 0], [1, F, 1, 1, 0], [1, B, 2, 1, 0],
    [0, B, 4, 2, 0], [1, F, 4, 1, 0], [1, B, 5, 1, 0], [0, B, 7, 1, 0],
]  # fmt: skip
# The same, but process 0 waits for each gradient.
NAIVE = [
    [0, F, 0, 1, 0], [1, F, 1, 1, 0], [1, B, 2, 1, 0], [0, B, 4, 1, 0],
    [0, F, 6, 1, 0], [1, F, 7, 1, 0], [1, B, 8, 1, 0], [0, B, 10, 1, 0],
]  # fmt: skip
PIPELINE, BLOCK = range(7), range(7, 12)  # the numbers of the criteria


def call(replies: Sequence[Reply] = (OK, OK), **changed: Any) -> dict[str, Any]:
    """What a right module does in one batch, with other replies or values."""
    counts = {"forward": 2, "backward": 2, "foreign": 0, "early": 0}
    right = {
        **JOB._asdict(),
        "method": "train_stage",
        "replies": to_data(replies),
        "deadline": 8.0,
        "difference": None,
        "counts": [counts, counts],
        "sent": list(JOB.sent),
    }
    return {**right, **changed}


def pipeline(*calls: dict[str, Any], **changed: Any) -> dict[str, Any]:
    right = {"workers": 2, "opened": to_data([OK, OK]), "calls": list(calls or [call()])}
    return {**right, "operations": OPERATIONS, **changed}


def block(*calls: dict[str, Any], **changed: Any) -> dict[str, Any]:
    methods = ("create_block", "forward", "backward", "update")
    right = {"widths": [100, 7, 50], "size": 10, "deadline": 8.0, "difference": None}
    done = [{**right, "method": method, "replies": to_data([OK, OK])} for method in methods]
    return {
        "workers": 2, "opened": to_data([OK, OK]), "calls": [*done, *calls],
        "widths": [100, 7, 50], "sizes": [10], "sent": [[4016, 4016], [8016, 8016], [0, 0]],
        "size": 16_000_000, "held": [8_100_000, 8_000_000], **changed,
    }  # fmt: skip


def broken(method: str, replies: Sequence[Reply], **changed: Any) -> dict[str, Any]:
    right = {"method": method, "ranks": [0, 2][: len(replies)], "replies": to_data(replies)}
    return {"broken": {**right, "timeout": 2.0, "triggered": True, **changed}}


def seen(**changed: Any) -> dict[str, Any]:
    error = Reply(RAISED, "TimeoutError", "TimeoutError")
    pipelines = ("pair", "steps", "uneven", "traffic", "bubble", "memory")
    right: dict[str, Any] = {stage: [pipeline()] for stage in pipelines}
    right |= {stage: [block()] for stage in ("block", "updates", "exchange")}
    right |= {
        "halves": block(),
        "killed": pipeline(**broken("train_stage", [error, error])),
        "frozen": block(**broken("forward", [error])),
    }
    return {**right, **changed}


failures = functools.partial(failures_of, EXERCISE, EXERCISE.case)


def test_a_right_observation_fulfills_all_criteria_which_are_worth_20_points() -> None:
    assert failures(seen()) == {}
    assert EXERCISE.points == 20


def test_each_half_is_judged_without_the_other_one() -> None:
    late = pipeline(call([OK, Reply(LATE)]))
    right = seen()
    blocks = {key: right[key] for key in ("block", "updates", "exchange", "halves", "frozen")}
    found = failures({**blocks, "pair": [late]})
    assert list(found) == list(PIPELINE)
    assert "process 1 was still running after 8 s | Does a process send while" in found[0]
    assert {found[place] for place in range(1, 7)} == {
        "skipped: This needs a pipeline of two processes that trains like one process."
    }
    raised = Reply(RAISED, "AttributeError: create_block")
    failed = block()
    failed["calls"] = [{**failed["calls"][0], "replies": to_data([raised, raised])}]
    pipelines = {key: value for key, value in right.items() if key not in blocks}
    found = failures({**pipelines, "block": [failed]})
    assert list(found) == list(BLOCK)
    assert "create_block returns in every process" in found[7]
    assert (
        found[8] == "skipped: This needs a block in two processes that computes the right results."
    )


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"forward": 1}, "process 1 called it 1 time | Each batch has micro_batches parts"),
        ({"foreign": 1}, "process 1 called layer.backward with inputs that had no"),
        ({"early": 1}, "in process 1, they changed between two micro-batches"),
    ],
)
def test_operations_are_counted(changed: dict[str, int], text: str) -> None:
    right = call()["counts"][0]
    found = failures(seen(steps=[pipeline(call(counts=[right, {**right, **changed}]))]))
    assert list(found) == [1]
    assert text in found[1]


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        ({"problem": "weights", "found": 0.25, "cause": "sum"}, "differs by 0.25 | This is the s"),
        ({"problem": "weights", "found": 3e-8, "cause": ""}, "Are all numbers of type float64"),
        ({"problem": "weights", "found": None, "cause": ""}, "that are not finite numbers"),
        ({"problem": "array", "found": "5"}, "process 1 has 5"),
        (
            {"problem": "loss", "batch": 2, "found": 1.5, "wanted": 0.5, "cause": "mean"},
            "loss of batch 2 is 0.5 (processes: 2, micro-batches per batch: 2, batches of 8) |",
        ),
    ],
)
def test_each_wrong_result_is_shown_with_its_cause(difference: Any, text: str) -> None:
    found = failures(seen(uneven=[pipeline(call(difference={"rank": 1, **difference}))]))
    assert list(found) == [2]
    assert text in found[2]


@pytest.mark.parametrize(
    ("share", "text"),
    [(1.04, ""), (1.06, "106% of that | Send the outputs"), (0.94, "94% of that | All bytes")],
)
def test_bytes_of_a_pipeline_may_differ_by_five_percent(share: float, text: str) -> None:
    sent = [JOB.sent[0], round(share * JOB.sent[1])]
    found = failures(seen(traffic=[pipeline(call(sent=sent))]))
    assert JOB.sent == [8 * 4 * 8, 8 * 4 * 8]
    assert Job((5, 4, 6, 3), [3, 4], 2).sent == [7 * 32, 7 * (48 + 32), 7 * 48]
    assert (text in found[3]) if text else not found


def test_bytes_of_a_block_are_judged_for_each_pass() -> None:
    for place, wrong in enumerate(("forward", "backward", "update")):
        sent = [[4000, 4000], [8000, 8000], [0, 0]]
        sent[place][1] += 500
        found = failures(seen(exchange=[block(sent=sent)]))
        assert list(found) == [9]
        assert f"bytes in {wrong} | " in found[9]


def test_the_bubble_is_that_of_the_formula_within_six_points() -> None:
    operations = [Operation(*one) for one in OPERATIONS]
    assert idle_share(operations, 2) == pytest.approx(wanted_share(2, 2)) == pytest.approx(1 / 3)
    assert [wanted_share(p, m) for p, m in ((1, 4), (2, 4), (4, 1))] == [0, 0.2, 0.75]
    found = failures(seen(bubble=[pipeline(operations=NAIVE)]))
    assert list(found) == [4]
    assert "on average, a process waits for 33% of the time" in found[4]
    assert "it waits for 50% of the time | Process 0 never has two micro-batches" in found[4]


def test_a_late_message_is_named_with_its_time() -> None:
    outputs = [
        [0, F, 0, 1], [0, F, 1, 2], [0, F, 2, 3], [1, F, 3, 1], [1, F, 4, 2], [1, F, 5, 3],
        [1, B, 6, 3], [0, B, 8, 3], [1, B, 8, 2], [0, B, 10, 2], [1, B, 10, 1], [0, B, 12, 1],
    ]  # fmt: skip
    found = failures(seen(bubble=[pipeline(call(micro_batches=2), operations=outputs)]))
    assert not found  # 36% with these micro-batches is close to the formula
    late = [[rank, kind, start + 2 * rank, held] for rank, kind, start, held in outputs]
    counts = [{**call()["counts"][0], "forward": 3, "backward": 3}] * 2
    three = call(micro_batches=3, counts=counts)
    found = failures(seen(bubble=[pipeline(three, operations=late)]))
    assert "Process 1 starts at time 5, but could start at 1. Send each output" in found[4]
    gradients = [
        [0, F, 0, 1], [0, F, 1, 2], [1, F, 1, 1], [1, F, 2, 2], [1, B, 3, 2], [1, B, 5, 1],
        [0, B, 8, 2], [0, B, 10, 1],
    ]  # fmt: skip
    found = failures(seen(bubble=[pipeline(operations=gradients)]))
    assert "Process 0 starts its backward passes at time 8, but could start at 5" in found[4]


def test_memory_is_compared_with_the_micro_batches_in_flight() -> None:
    large = call(widths=[100, 1900, 20], sizes=[1000], micro_batches=2)  # 8 MB in process 0
    for rank, in_flight, used, text in (
        (0, 2, 42_000_000, ""),
        (0, 2, 43_000_000, "with 2 micro-batches in flight, process 0 needs 16.0 MB"),
        (1, 1, 33_000_000, "it needs 33.0 MB before a backward pass | After its backward pass"),
    ):
        operations = [[rank, B, 0, in_flight, used]]
        found = failures(seen(memory=[pipeline(large, operations=operations)]))
        assert (text in found[5]) if text else not found
    unknown = [[0, F, 0, 1, None]]
    found = failures(seen(memory=[pipeline(operations=unknown)]))
    assert found == {5: "skipped: This system does not report the memory of a process."}


def test_each_process_keeps_half_of_the_weights() -> None:
    found = failures(seen(halves=block(held=[8_000_000, 16_000_000])))
    assert list(found) == [10]
    assert "half of the weights, 8.0 MB, within 10% | process 1 keeps 16.0 MB" in found[10]
    found = failures(seen(halves=block(held=[None, None])))
    assert found == {10: "skipped: This system does not report the memory of a process."}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(LATE), "process 0 was still waiting after 8 s | Limit every wait"),
        (OK, "process 0 returned, without the data of process 1"),
        (Reply(DEAD, "Killed"), "process 0 ended, and printed Killed"),
    ],
)
def test_a_fault_must_raise_an_error_in_the_other_processes(reply: Reply, text: str) -> None:
    killed = pipeline(**broken("train_stage", [reply]))
    frozen = block(**broken("forward", [reply]))
    found = failures(seen(killed=killed, frozen=frozen))
    assert list(found) == [6, 11]
    assert "train_stage raises an error within 2 s after process 1 was killed" in found[6]
    assert "forward raises an error within 2 s after process 1 was frozen" in found[11]
    assert all(text in message for message in found.values())
    unharmed = pipeline(**broken("train_stage", [reply], triggered=False))
    assert "so no fault was injected" in failures(seen(killed=unharmed))[6]


def results(job: Job, rule: str = "") -> list[Any]:
    """What the processes of a pipeline return."""
    weights, losses = train_alone(make_training(job, 1), rule)
    return [np.concatenate([np.zeros(len(COUNTS)), losses, one.ravel()]) for one in weights]


def test_losses_and_gradients_of_parts_are_those_of_the_batch() -> None:
    """The formulas of the layer, compared with differences of the loss."""
    training = make_training(Job((3, 4, 2), [5], 1), 3)
    [(examples, labels)] = training.batches

    def loss(weights: list[Any]) -> float:
        hidden = np.tanh(examples @ weights[0][:-1] + weights[0][-1])
        scores = hidden @ weights[1][:-1] + weights[1][-1]
        chosen = scores[np.arange(5), labels]
        return float((np.log(np.exp(scores).sum(axis=1)) - chosen).mean())

    after, [found] = train_alone(training)
    assert found == pytest.approx(loss(training.weights))
    for layer, element in ((0, (1, 2)), (0, (3, 0)), (1, (4, 1)), (1, (0, 0))):
        moved = [one.copy() for one in training.weights]
        moved[layer][element] += 1e-6
        slope = (loss(moved) - loss(training.weights)) / 1e-6
        change = training.weights[layer][element] - after[layer][element]
        assert change / RATE == pytest.approx(slope, abs=1e-5)


def test_frequent_mistakes_of_a_pipeline_are_recognized() -> None:
    even, uneven = Job((4, 3, 2), [6, 6], 3), Job((4, 3, 2), [7, 5], 3)
    assert find_difference(make_training(uneven, 1), results(uneven)) is None
    for rule in RULES:
        job = even if rule == "reversed" else uneven
        found = find_difference(make_training(job, 1), results(job, rule))
        assert found and (found["problem"], found["cause"]) == ("weights", rule)
    right = results(uneven)
    right[1][len(COUNTS)] += 1
    found = find_difference(make_training(uneven, 1), right)
    assert found and (found["problem"], found["batch"], found["cause"]) == ("loss", 0, "")
    found = find_difference(make_training(uneven, 1), [right[0], Reply(RETURNED, other="None")])
    assert found and (found["problem"], found["rank"]) == ("array", 1)


def test_frequent_mistakes_of_a_block_are_recognized() -> None:
    widths = (4, 6, 3)
    weights = make_block(widths, 1)
    inputs, gradient = make_pass(widths, 5, 1, 0)
    whole = Block(weights)
    wanted, biases = whole.forward(inputs), weights[3]
    part = np.tanh(inputs @ weights[0][:, :2] + weights[1][:2]) @ weights[2][:2]
    mistakes = {"bias": wanted + biases, "half": wanted / 2}
    for found, cause in (
        ([wanted + biases] * 2, "bias"),
        ([wanted / 2] * 2, "half"),
        ([part, wanted - part], "partial"),
        ([part + biases, wanted - part], "partial"),
        ([wanted + 1] * 2, ""),
    ):
        difference = find_block_difference("forward", wanted, found, mistakes)
        assert difference and difference["cause"] == cause
    assert find_block_difference("forward", wanted, [wanted, wanted], mistakes) is None
    whole.backward(gradient)
    outputs = []
    for factors in ((1, 1, 1, 1), *UPDATES.values()):
        other = Block(weights)
        other.forward(inputs)
        other.backward(gradient)
        other.update(RATE, factors)
        outputs.append(other.forward(inputs))
    distances = [np.abs(one - two).max() for one, two in pairwise(outputs)]
    assert min(distances) > 1e-3


def test_a_layer_counts_what_a_pipeline_must_not_do() -> None:
    layer = Layer(np.ones((3, 2)), is_last=False, operations=4)
    first, second = np.ones((1, 2)), np.zeros((1, 2))
    one, two = layer.forward(first), layer.forward(second)
    layer.backward(second, two, two)
    layer.backward(second, two, two)
    assert layer.counts == {"forward": 2, "backward": 2, "foreign": 1, "early": 0}
    layer.weights = layer.weights - 1  # between two batches
    layer.forward(first)
    assert layer.counts["early"] == 0
    layer.weights = layer.weights - 1
    layer.backward(first, one, one)
    assert layer.counts["early"] == 1


def test_the_last_process_must_return_losses() -> None:
    class Forgetful:
        def train_stage(self, *_arguments: Any) -> None:
            pass

    arguments = np.array([0.5, 1, 0]), np.array([1]), np.ones((1, 2)), np.array([0])
    first = Process(Forgetful(), 0, 2, "").train_stage(*arguments, np.ones((3, 2)))
    assert first.shape == (len(COUNTS) + 1 + 6,)
    with pytest.raises(TypeError, match="returned None in the last process, and not a list"):
        Process(Forgetful(), 1, 2, "").train_stage(*arguments, np.ones((3, 2)))


def stage(port: int, rank: int, order: str, data: Sequence[queue.Queue[int]]) -> None:
    """A process of a pipeline that only reports its operations to the clock.

    Args:
      order: the letters F and B, and L to send the outputs of all forward passes so far.
      data: what each process receives for its forward passes, and for its backward passes.
    """
    late = 0
    with socket.create_connection(("127.0.0.1", port), 10) as clock:
        clock.sendall(bytes([rank]))
        for letter in order:
            if letter == "L":
                for _output in range(late):
                    data[2].put(0)
                continue
            kind = "FB".index(letter)
            if (kind, rank) in ((F, 1), (B, 0)):
                data[2 if kind == F else 1].get(timeout=10)
            clock.sendall(bytes([kind]))
            clock.recv(1)
            if (kind, rank) == (F, 0) and "L" in order:
                late += 1
            elif (kind, rank) in ((F, 0), (B, 1)):
                data[2 if kind == F else 1].put(0)


@pytest.mark.parametrize(
    ("orders", "total", "in_flight"),
    [
        (("FFFFBBBB", "FFFFBBBB"), 15, (4, 4)),  # GPipe
        (("FFBFBFBB", "FBFBFBFB"), 15, (2, 1)),  # 1F1B
        (("FBFBFBFB", "FBFBFBFB"), 24, (1, 1)),  # one micro-batch at a time
        (("FFFFLBBBB", "FFFFBBBB"), 18, (4, 4)),  # outputs are sent late
    ],
)
def test_the_clock_measures_a_schedule(
    orders: Sequence[str], total: int, in_flight: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_parallel_clock, "WAIT", 0.2)
    data: list[queue.Queue[int]] = [queue.Queue() for _place in range(3)]
    with Clock(2, 4, lambda rank: 100 + rank) as clock:
        threads = [
            threading.Thread(target=stage, args=(clock.port, rank, order, data))
            for rank, order in enumerate(orders)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert max(operation.end for operation in clock.operations) == total
    for rank, most in enumerate(in_flight):
        own = [operation for operation in clock.operations if operation.rank == rank]
        assert "".join("FB"[one.kind] for one in own) == orders[rank].replace("L", "")
        assert max(one.in_flight for one in own) == most
        assert {one.memory for one in own} == {100 + rank}
    assert idle_share(clock.operations, 2) == pytest.approx(1 - 24 / (2 * total))


def test_the_clock_ends_with_its_block_although_processes_wait() -> None:
    with Clock(2, 4, lambda rank: None) as clock:
        end = socket.create_connection(("127.0.0.1", clock.port), 10)
        end.sendall(bytes([0]))
    with end, suppress(ConnectionResetError):  # if its rank was not read
        assert end.recv(1) == b""
