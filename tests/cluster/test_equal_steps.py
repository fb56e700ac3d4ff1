"""Messages about workers that cannot end together, based on their events."""

from __future__ import annotations

from typing import Any

from helpers.cluster.equal_steps import EqualSteps
from helpers.protocol.events import EventType
from helpers.tf_config import build_tf_configs

FIRST, SECOND = build_tf_configs(["a:1", "b:2"])
BESIDE = build_tf_configs(["a:1", "b:2", "c:3"], chief=True, ps=1)


def event(kind: EventType, **fields: Any) -> dict[str, Any]:
    return {"event": kind.value, **fields}


def test_plans_that_differ_are_compared_once() -> None:
    equal = EqualSteps()
    assert equal.note(FIRST, event(EventType.RUN_INFO, total_steps=10)) is None
    assert equal.note(FIRST, event(EventType.RUN_INFO, total_steps=20)) is None  # it has measured
    assert equal.note(SECOND, event(EventType.RUN_INFO, total_steps=10)) is None
    said = EqualSteps()
    said.note(FIRST, event(EventType.RUN_INFO, total_steps=10))
    sentence = said.note(SECOND, event(EventType.RUN_INFO, total_steps=5)) or ""
    assert "10 steps on worker 0 and 5 steps on worker 1" in sentence


def test_a_step_that_lasts_is_no_fault_while_all_train() -> None:
    equal = EqualSteps()
    assert equal.note(FIRST, event(EventType.WAITING, batches=21)) is None
    assert equal.note(SECOND, event(EventType.TRAINED, step=21, batches=21)) is None


def test_one_that_ends_earlier_is_named_in_either_order() -> None:
    waiting, trained = (
        event(EventType.WAITING, batches=21),
        event(EventType.TRAINED, step=40, batches=20),
    )
    one, other = EqualSteps(), EqualSteps()
    assert one.note(FIRST, waiting) is None and other.note(SECOND, trained) is None
    for sentence in (one.note(SECOND, trained), other.note(FIRST, waiting)):
        assert (
            sentence
            and "after 20 batches (step 40), while worker 0 is training batch 21" in sentence
        )


def test_a_call_that_waits_is_named_when_a_peer_has_returned() -> None:
    equal = EqualSteps()
    waits = event(EventType.WAITING, batches=0)
    assert equal.note(FIRST, waits) is None
    equal.note(SECOND, event(EventType.RESULT, value=1))
    assert "worker 1 has finished" in (equal.note(FIRST, waits) or "")
    assert equal.explain(FIRST) is None  # it has not ended yet, so it may have been killed
    equal.end(SECOND)
    assert "worker 1 has finished" in (equal.explain(FIRST) or "")


def test_with_parameter_servers_no_task_waits_for_another() -> None:
    equal, (chief, worker, _ps) = EqualSteps(), BESIDE
    assert equal.note(chief, event(EventType.TRAINED, step=5, batches=2)) is None
    assert equal.note(worker, event(EventType.WAITING, batches=9)) is None
    equal.end(chief)
    assert equal.explain(worker) is None
