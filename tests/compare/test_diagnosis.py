"""The decision procedure of `helpers.compare`, tested on handwritten records."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import i18n
from helpers.compare import Cause, Comparison, Run, causes
from helpers.compare.diagnosis import diagnose


def step(rows: range, loss: float, weight: float, part: int) -> dict[str, Any]:
    return {
        "logs": {"loss": loss},
        "parts": [part],
        "x": list(rows),
        "y": list(rows),
        "sample_weight": 0.0,
        "trained": [weight],
        "state": [],
        "hashes": [0, 0],
        "gradients": {},
    }


def run(workers: int, epochs: int = 2, loss: float = 1.0, start: int = 0) -> Run:
    """Two steps per epoch of 6 examples, which are divided among the workers."""
    weights = {"names": [["w"], []], "norms": [[1.0], []], "numbers": [[1.0], []]}
    part = 6 // workers
    records = []
    for worker in range(workers):
        steps = []
        for number in range(2 * epochs):
            first = start + 6 * (number % 2) + part * worker
            steps.append(step(range(first, first + part), loss, 1.0, part))
        fit = {
            "steps": steps,
            "epochs": [2 * (epoch + 1) for epoch in range(epochs)],
            "history": {"loss": [loss] * epochs},
            "steps_per_execution": 1,
            "layers": [],
            "scope": workers,
            "initial": weights,
        }
        records.append({"fits": [fit], "results": [], "models": [weights], "returned": None})
    return Run(workers, records)


def cause(many: Run) -> Cause | None:
    found = diagnose(run(1), many, 1e-5)
    return found.cause if found else None


def test_what_agrees_has_no_fault() -> None:
    assert cause(run(2)) is cause(run(3)) is None


def test_a_loss_that_is_twice_as_large_is_a_matter_of_scale() -> None:
    assert cause(run(2, loss=2.0)) is Cause.LOSS_SCALE
    assert cause(run(2, loss=1.3)) is Cause.PARTIAL_MEANS
    assert cause(run(2, loss=float("nan"))) is Cause.UNKNOWN


def test_a_group_that_stops_early_but_agrees_was_stopped() -> None:
    assert cause(run(2, epochs=1)) is Cause.CONTROL_FLOW


def test_the_calls_of_each_worker_are_named() -> None:
    many = run(2)
    many.records[1]["fits"].append(many.records[1]["fits"][0])
    found = diagnose(run(1), many, 1e-5)
    assert found and found.cause is Cause.CONTROL_FLOW
    assert "calls or epochs of fit (worker 0: 2; worker 1: 2, 2)." in found.evidence


def test_numbers_of_evidence_are_those_of_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(i18n, "_language", "es")
    found = diagnose(run(1), run(2, loss=0.5), 1e-5)
    assert found and "is 0,5 times the loss of one worker" in found.evidence


def test_other_examples_are_another_order() -> None:
    assert cause(run(2, start=3)) is Cause.ORDER


@pytest.mark.parametrize(
    ("raised", "error", "expected"),
    [
        ("ValueError", "Cannot convert `input_tensor` to a `PerReplica` object", Cause.METRICS),
        ("UnboundLocalError", "cannot access local variable", Cause.STEPS_PER_EXECUTION),
        ("InternalError", "expected type 0 and data_type 9 but got 1", Cause.DATASET_LENGTH),
        ("ConfigError", "was created outside of strategy.scope()", Cause.SCOPE),
        ("ConfigError", "модель создана вне strategy.scope()", Cause.SCOPE),
        ("ClusterError", "worker 0 с соседями не продвигается 40 с", Cause.CONTROL_FLOW),
        ("DivergedError", "воркеры разошлись", Cause.CONTROL_FLOW),
        ("DifferentWeightsError", "у воркеров разные веса", Cause.STATE),
        ("ZeroDivisionError", "division by zero", Cause.UNKNOWN),
    ],
)
def test_an_error_is_classified_in_every_language(raised: str, error: str, expected: Cause) -> None:
    assert cause(Run(2, raised=raised, error=error)) is expected


def test_where_the_reference_failed_there_is_nothing_to_compare() -> None:
    assert diagnose(Run(1, error="no"), run(2), 1e-5) is None


def test_a_cause_is_shown_in_the_readers_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "_", str.upper)
    shown = Comparison([run(1), run(2, epochs=1)], tolerance=1e-5)
    assert "differ: CONTROL FLOW" in repr(shown)
    assert ": CONTROL FLOW. " in shown.sentences()[0]
