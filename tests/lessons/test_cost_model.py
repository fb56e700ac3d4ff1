"""The α–β model, compared with the algorithm it describes, with itself, and with real steps."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import LocalCluster
from helpers.course.cost_model import (
    CostModel,
    Measurement,
    efficiency_chart,
    fit,
    rounds,
    wire_seconds,
)
from helpers.errors import ConfigError
from helpers.system.netns import netns_supported

GRADIENTS = 347_146 * 4  # bytes, of the lessons' CNN


def ring_all_reduce(vectors: list[Any]) -> tuple[list[Any], int, list[int]]:
    """The algorithm itself: the sums, the rounds, and how many numbers each worker sent."""
    workers = len(vectors)
    parts = [np.array_split(vector.copy(), workers) for vector in vectors]
    sent, count = [0] * workers, 0
    for phase in range(2):
        for turn in range(workers - 1):
            count += 1
            messages = [(k, (k + phase - turn) % workers) for k in range(workers)]
            payloads = [parts[k][part].copy() for k, part in messages]
            for (k, part), payload in zip(messages, payloads, strict=True):
                sent[k] += payload.size
                target = parts[(k + 1) % workers]
                target[part] = payload if phase else target[part] + payload
    return [np.concatenate(part) for part in parts], count, sent


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_the_model_counts_the_rounds_and_the_bytes_of_the_algorithm(workers: int) -> None:
    vectors = [np.arange(120.0) * (k + 1) for k in range(workers)]
    sums, count, sent = ring_all_reduce(vectors)
    assert all(np.allclose(total, sum(vectors)) for total in sums)
    assert count == rounds(workers)
    size, bandwidth = 120, 8.0  # a byte per second
    assert sent == [wire_seconds(workers, size, bandwidth)] * workers
    assert sum(sent) == wire_seconds(workers, size, bandwidth, shared_medium=True)


def measure(model: CostModel, cases: list[tuple[int, float]]) -> list[Measurement]:
    return [Measurement(n, GRADIENTS, b, model.step_seconds(n, GRADIENTS, b)) for n, b in cases]


@pytest.mark.parametrize("shared_medium", [False, True])
def test_a_fit_finds_the_numbers_that_made_the_measurements(shared_medium: bool) -> None:
    model = CostModel(0.003, 0.0005, 1.05, shared_medium)
    cases = [(1, 1e8), (2, 1e8), (2, 1e9), (4, 1e9), (8, 1e8)]
    found = fit(measure(model, cases), shared_medium=shared_medium)
    assert found.compute == pytest.approx(model.compute, rel=1e-6)
    assert found.latency == pytest.approx(model.latency, rel=1e-6)
    assert found.overhead == pytest.approx(model.overhead, rel=1e-6)
    assert found.shared_medium == shared_medium


def test_what_cannot_be_told_apart_goes_to_compute() -> None:
    model = CostModel(0.003, 0.0005, 1.05)
    found = fit(measure(model, [(2, 1e8), (2, 2e8), (2, 1e9)]))
    assert found.latency == 0
    assert found.compute == pytest.approx(model.compute + 2 * model.latency, rel=1e-6)
    assert found.step_seconds(2, GRADIENTS, 5e8) == pytest.approx(
        model.step_seconds(2, GRADIENTS, 5e8)
    )


seconds = st.floats(1e-4, 10)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([1e7, 1e8, 1e9]), seconds), min_size=2)
)
def test_no_fitted_number_is_negative_whatever_was_measured(
    cases: list[tuple[int, float, float]],
) -> None:
    found = fit([Measurement(n, GRADIENTS, b, s) for n, b, s in cases])
    assert min(found.compute, found.latency, found.overhead) >= 0
    errors = [found.step_seconds(n, GRADIENTS, b) / s - 1 for n, b, s in cases]
    assert sum(error**2 for error in errors) <= len(cases) + 1e-9  # no worse than predicting zero


def test_too_few_measurements_are_refused() -> None:
    with pytest.raises(ConfigError, match="1 measurement cannot be fitted"):
        fit([Measurement(2, GRADIENTS, 1e8, 0.2)])


def test_speed_ups_start_at_one_and_the_weak_one_is_the_larger() -> None:
    model = CostModel(0.003, 0.00002)
    for workers in (1, 2, 64, 4096):
        weak = model.weak_speedup(workers, GRADIENTS, 1e10)
        strong = model.strong_speedup(workers, GRADIENTS, 1e10)
        assert strong <= weak <= workers
        assert (workers > 1) or strong == weak == 1
    assert model.efficiency(2, GRADIENTS, 1e9) < model.efficiency(2, GRADIENTS, 1e11) < 1


def test_the_chart_has_a_picture_for_each_network_and_a_line_for_each_bandwidth() -> None:
    model = CostModel(0.003, 0.00002)
    networks = {"cnn": (model, GRADIENTS), "resnet": (model, 3e5)}
    chart = efficiency_chart(networks, {"1 Gbit/s": 1e9, "10 Gbit/s": 1e10})
    assert [len(axes.lines) for axes in chart.figure.axes] == [2, 2]
    assert max(np.asarray(chart.figure.axes[0].lines[0].get_xdata())) == 4096
    assert "<img" in chart._repr_html_()


def step_times(steps: int) -> Any:
    """A function for a worker: seconds of steps that sum as many numbers as the CNN has."""

    def run() -> list[float]:
        import time

        import tensorflow as tf

        options = tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)

        @tf.function  # type: ignore[untyped-decorator]
        def step() -> Any:
            def replica() -> Any:
                gradients = tf.random.uniform([GRADIENTS // 4])
                return tf.distribute.get_replica_context().all_reduce("SUM", gradients)

            return strategy.run(replica)

        times = [time.perf_counter()]
        for _ in range(steps + 2):
            step()
            times.append(time.perf_counter())
        return [end - start for start, end in itertools.pairwise(times[2:])]

    return run


@pytest.mark.benchmarks
@pytest.mark.skipif(not netns_supported(), reason="this machine forbids network namespaces")
def test_held_back_networks_and_numbers_of_workers_are_predicted_within_20_percent() -> None:
    measured = {}
    for workers, bandwidth in [(2, 1e8), (2, 4e7), (2, 6e7), (3, 1e8)]:
        with LocalCluster(workers, collective="RING", bandwidth=bandwidth) as cluster:
            times = cluster.run(step_times(6))
        measured[workers, bandwidth] = Measurement(
            workers, GRADIENTS, bandwidth, statistics.median(times[0])
        )
    held_back = measured.pop((2, 6e7)), measured.pop((3, 1e8))
    model = fit(list(measured.values()), shared_medium=True)
    for case in held_back:
        predicted = model.step_seconds(case.workers, case.gradient_bytes, case.bandwidth)
        assert predicted == pytest.approx(case.seconds, rel=0.2), (model, case)
    links = fit(list(measured.values()))  # as if each worker had its own link
    three = links.step_seconds(3, GRADIENTS, 1e8)
    assert three != pytest.approx(held_back[1].seconds, rel=0.2)  # so that the test above can fail
