"""The memory planner: the formulas of the ZeRO paper, the course of a step, and real steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import memory_planner
from helpers.course.memory_planner import Layer, conv2d, dense, layers_of, plan
from helpers.errors import ConfigError
from tests.support.faults import needs_keras_3

BILLION = Layer("all", 10**9, 0)


@pytest.mark.parametrize(
    ("stage", "gigabytes"),
    [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)],  # figure 1 of the ZeRO paper
)
def test_the_model_states_are_those_of_the_zero_paper(stage: int, gigabytes: float) -> None:
    network = [Layer("7.5 billion weights", 7_500_000_000, 0)]
    found = plan(network, 0, 1, precision="mixed_float16", workers=64, stage=stage)
    assert found.states == pytest.approx(gigabytes * 1e9, rel=0.02)


def test_each_optimizer_has_its_bytes_per_weight() -> None:
    states = {name: plan([BILLION], 0, 1, optimizer=name).states for name in
              ("sgd", "momentum", "adam")}  # fmt: skip
    assert states == {"sgd": 8e9, "momentum": 12e9, "adam": 16e9}


def test_one_worker_gains_nothing_from_any_stage() -> None:
    plans = {plan([dense(8, 8)], 8, 4, stage=stage) for stage in range(4)}
    assert len(plans) == 1


def test_a_stage_that_divides_layers_still_holds_one_as_a_whole() -> None:
    network = [dense(100, 100), dense(100, 10)]
    second, third = (plan(network, 100, 1, workers=4, stage=stage) for stage in (2, 3))
    assert second.buffers == 4 * 101 * 100
    assert third.buffers == 2 * second.buffers


def test_activations_are_proportional_to_the_batch_and_no_stage_divides_them() -> None:
    one, ten = (plan([dense(8, 16)], 8, batch, workers=4, stage=3) for batch in (1, 10))
    assert one.activations == 4 * (8 + 16)
    assert ten.activations == 10 * one.activations


def test_gradients_and_activations_do_not_peak_together() -> None:
    balanced = plan([dense(1000, 1000)] * 8, 1000, 1000)
    assert balanced.states < balanced.peak < balanced.total


def test_the_update_needs_temporary_tensors_of_the_largest_layer() -> None:
    layers = [dense(1000, 1000)] * 8
    for optimizer, tensors in (("sgd", 1), ("momentum", 3), ("adam", 3)):
        one = plan(layers, 1000, 1, optimizer=optimizer)
        assert one.peak == pytest.approx(one.states + tensors * 4 * layers[0].weights, rel=0.01)


def test_layers_have_the_weights_that_keras_gives_them() -> None:
    assert dense(784, 10).weights == 7850
    assert conv2d(28, 28, 1, 16) == Layer("conv2d", 160, 28 * 28 * 16)


def test_layers_of_a_model_skip_those_without_a_tensor() -> None:
    class Dense(SimpleNamespace):
        def count_params(self) -> int:
            return 12

    class Flatten(Dense): ...

    output = SimpleNamespace(shape=(None, 4))
    layers = [Flatten(name="flatten", output=output), Dense(name="dense", output=output)]
    assert layers_of(SimpleNamespace(layers=layers)) == [Layer("dense", 12, 4)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"stage": 4}, "stage=4"),
        ({"optimizer": "adamw"}, "optimizer='adamw'"),
        ({"precision": "float64"}, "precision='float64'"),
        ({"workers": 0}, "workers=0"),
        ({"batch": 0}, "batch=0"),
    ],
)
def test_what_the_planner_does_not_know_is_refused(wrong: dict[str, object], message: str) -> None:
    options = {"batch": 1, **wrong}
    with pytest.raises(ConfigError, match=message):
        plan([dense(1, 1)], 1, **options)  # type: ignore[arg-type]


def test_a_network_without_layers_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one layer"):
        plan([], 1, 1)


@needs_keras_3
@pytest.mark.training
def test_the_planner_predicts_the_memory_of_real_steps_within_a_tenth() -> None:
    found = memory_planner.compare()
    assert len(found) == 4
    ratios = [one.predicted.peak / one.tensors for one in found]
    assert [ratio for ratio in ratios if abs(ratio - 1) > memory_planner.MAX_ERROR] == []
    for one in found:
        assert one.tensors < one.resident < 1.5 * one.tensors
