"""The experiments: their results are right at known points, and sliders show them."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipywidgets as widgets  # type: ignore[import-untyped]
import numpy as np
import pytest

from helpers.course import simulations
from helpers.course.cost_model import CostModel
from helpers.course.panel.widgets import WIDGET_MIME
from helpers.course.simulations import (
    async_sgd,
    autoshard_widget,
    checkpoints,
    learning_rates,
    number_format,
    ring,
    stale_gradients,
    step_costs,
)
from helpers.course.simulations.autoshard import Files, Reading, readings
from helpers.course.simulations.experiment import Experiment
from helpers.course.simulations.simulation import Simulation, View
from helpers.errors import ConfigError
from helpers.i18n import set_language
from tests.panel.test_view import NEW_IN_8, open_widgets

SIMULATIONS: dict[str, Callable[[], Experiment]] = {
    name: getattr(simulations, name) for name in simulations.__all__
}
DAY, MINUTE = 86_400.0, 60.0


@pytest.fixture(params=sorted(SIMULATIONS))
def experiment(request: pytest.FixtureRequest) -> Iterator[Experiment]:
    made = SIMULATIONS[request.param]()
    yield made
    made.close()


def values(slider: Any) -> list[Any]:
    """All values that a slider can have."""
    if isinstance(slider, widgets.IntSlider):
        return list(range(slider.min, slider.max + 1))
    return [value for _label, value in slider.options]


def corners(made: Experiment) -> Iterator[dict[str, Any]]:
    """The first and the last value of each slider, in all combinations."""
    ends = [(values(one)[0], values(one)[-1]) for one in made.sliders.values()]
    for chosen in itertools.product(*ends):
        yield dict(zip(made.sliders, chosen, strict=True))


def elements(view: View) -> list[ET.Element]:
    return list(ET.fromstring(view.drawing.svg()).iter())


# Sliders and pictures


MOVES = [
    *[("step_cost", one) for one in ("workers", "megabytes", "gigabits", "milliseconds")],
    ("step_cost", "microseconds"),
    *[("staleness", one) for one in ("workers", "slowness", "rate")],
    *[("checkpoint_interval", one) for one in ("write", "days", "machines", "restart")],
    *[("sharding_policies", one) for one in ("policy", "workers", "files", "per_file", "batch")],
    ("learning_rate_and_batch", "batch"),
    *[("ring_rounds", one) for one in ("workers", "done")],
    *[("memory_planner", one) for one in ("width", "layers", "batch", "workers")],
    *[("memory_planner", one) for one in ("device", "optimizer", "precision")],
]


@pytest.mark.parametrize(("name", "slider"), MOVES)
def test_moving_a_slider_changes_picture_and_sentence(name: str, slider: str) -> None:
    made = SIMULATIONS[name]()
    before, picture, words = made.view, made._picture.value, made._sentence.value
    made.sliders[slider].value = values(made.sliders[slider])[-1]
    assert made.view.drawing.svg() != before.drawing.svg()
    assert made.view.drawing.svg() in made._picture.value != picture
    assert made._sentence.value != words
    made.close()


@pytest.mark.parametrize(
    ("name", "slider", "prepared"),
    [
        ("learning_rate_and_batch", "scaled", {}),
        ("sharding_policies", "batched", {"policy": "DATA"}),
    ],
)
def test_a_button_changes_the_picture(name: str, slider: str, prepared: dict[str, Any]) -> None:
    made = SIMULATIONS[name]()
    for one, value in prepared.items():
        made.sliders[one].value = value
    before = made._picture.value
    made.sliders[slider].value = not made.sliders[slider].value
    assert made._picture.value != before
    made.close()


def test_every_slider_is_labelled_and_followed_while_it_moves(experiment: Experiment) -> None:
    for one in experiment.sliders.values():
        assert one.description
        assert isinstance(one, widgets.ToggleButtons) or one.continuous_update
    assert 'aria-live="polite"' in experiment._sentence.value


def test_a_slider_says_what_is_chosen_and_with_which_unit() -> None:
    made = simulations.step_cost()
    latency = made.sliders["microseconds"]
    assert latency.description == "Latency of a message, µs: 100"
    latency.value = 1000
    assert latency.description == "Latency of a message, µs: 1,000" and not latency.readout
    assert "Latency of a message, µs: 1,000; Computation" in made.settings()
    made.close()
    ring_of_four = simulations.ring_rounds()
    assert ring_of_four.settings() == "Workers: 4; Rounds done: 0"
    ring_of_four.close()
    shards = simulations.sharding_policies()
    assert shards.settings().startswith(
        "Auto-shard policy: OFF; Batches are created: before sharding;"
    )
    shards.close()


def test_pictures_of_all_corners_are_labelled_and_can_be_read(experiment: Experiment) -> None:
    for chosen in corners(experiment):
        view = experiment._simulation.draw(**chosen)
        drawing, parts = view.drawing, elements(view)
        assert parts[0].get("role") == "img" and drawing.label and view.sentence
        assert drawing.width <= 760 and len(parts) < 1500
        for part in parts:
            if part.tag.endswith("}text"):
                assert float(part.get("font-size", 12)) >= 11
                assert 0 <= float(part.attrib["x"]) <= drawing.width
                assert 0 <= float(part.attrib["y"]) <= drawing.height
            assert "nan" not in " ".join(part.attrib.values())


def test_a_viewer_without_widgets_gets_a_picture_and_the_settings(experiment: Experiment) -> None:
    bundle = experiment._bundle()
    assert bundle[WIDGET_MIME]["model_id"] == experiment.model_id
    assert '<img alt="' in bundle["text/html"] and "data:image/svg+xml" in bundle["text/html"]
    for one in experiment.sliders.values():
        assert one.description in bundle["text/html"]
        assert one.description in bundle["text/plain"]
    assert bundle["text/plain"] == repr(experiment)


def test_a_closed_experiment_leaves_no_widget_behind() -> None:
    kept = set(open_widgets())
    for make in SIMULATIONS.values():
        made = make()
        assert len(set(open_widgets()) - kept) > 10
        made.close()
        assert set(open_widgets()) == kept


def test_only_widgets_and_traits_that_colab_has_are_used(experiment: Experiment) -> None:
    def every(widget: Any) -> Iterator[Any]:
        yield widget
        for child in getattr(widget, "children", ()):
            yield from every(child)

    for widget in every(experiment):
        assert widget._model_module == "@jupyter-widgets/controls"
        if int(widgets.__version__.split(".")[0]) >= 8:
            changed = {name for name in widget.keys if widget.trait_has_value(name)}
            own = {n for n in changed & NEW_IN_8 if getattr(widget, n) not in (None, (), "")}
            assert not own, (widget, own)


def test_text_from_outside_is_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>"
    drawing = step_costs.draw(1, **NETWORK).drawing
    made = Experiment(Simulation(evil, lambda: View(drawing, evil), {}))
    assert evil not in made._sentence.value + made.children[1].value + made._bundle()["text/html"]
    made.close()


def test_amounts_have_the_digits_that_count_in_the_language_in_use() -> None:
    assert [number_format.significant(x) for x in (0, 0.0531, 9.97, 1.0, 1340.2)] == [
        *("0", "0.053", "10", "1", "1,340")
    ]
    assert [number_format.percent(x) for x in (0, 0.00021, 0.0214, 0.0996, 1)] == [
        *("0%", "0.02%", "2.1%", "10%", "100%")
    ]
    assert [number_format.duration(x) for x in (2e-6, 0.042, 59, 60, 7200, 10 * DAY)] == [
        *("2\u00a0µs", "42\u00a0ms", "59\u00a0s", "1\u00a0min", "2\u00a0h", "10\u00a0d")
    ]
    set_language("es")
    try:
        assert number_format.percent(0.0214) == "2,1\u00a0%"
    finally:
        set_language("en")


# The cost of a step


NETWORK = {"megabytes": 25, "gigabits": 10, "microseconds": 100, "milliseconds": 100}


def test_the_parts_of_a_step_are_those_of_the_cost_model() -> None:
    model = CostModel(compute=0.1, latency=100e-6)
    for workers in (1, 2, 8, 256):
        found = step_costs.cost(workers, **NETWORK)
        assert found.seconds == pytest.approx(model.step_seconds(workers, 25e6, 10e9))
        assert found.latency == pytest.approx(2 * (workers - 1) * 100e-6)
        assert found.efficiency == model.efficiency(workers, 25e6, 10e9)
    alone = step_costs.cost(1, **NETWORK)
    assert (alone.bytes, alone.latency, alone.efficiency) == (0, 0, 1)


def test_the_sentence_says_the_numbers_of_the_step() -> None:
    view = step_costs.draw(8, **NETWORK)
    found = step_costs.cost(8, **NETWORK)
    assert f"{1000 * found.seconds:.0f}\u00a0ms, of which 100\u00a0ms" in view.sentence
    assert f"does {found.efficiency:.0%}" in view.sentence
    assert "1 worker:" in step_costs.draw(1, **NETWORK).sentence


def test_a_step_without_workers_is_refused() -> None:
    with pytest.raises(ConfigError, match="workers=0"):
        step_costs.draw(0, **NETWORK)


# Staleness


def test_one_worker_is_never_stale_and_trains_as_if_it_waited() -> None:
    training = async_sgd.simulate(1, 1, 0.2)
    assert set(training.staleness) == {0}
    assert training.losses == training.synchronous
    assert training.same_time == async_sgd.UPDATES


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_a_gradient_is_stale_by_the_other_workers(workers: int) -> None:
    training = async_sgd.simulate(workers, 1, 0.05, updates=2000)
    assert training.mean == pytest.approx(workers - 1, rel=0.03)
    assert training == async_sgd.simulate(workers, 1, 0.05, updates=2000)


def test_a_slow_worker_is_stale_as_often_as_it_is_slow() -> None:
    training = async_sgd.simulate(8, 4, 0.05, updates=2000)
    slow = [k for k, own in zip(training.staleness, training.by_slow, strict=True) if own]
    assert sum(slow) / len(slow) == pytest.approx(7 * 4, rel=0.1)
    assert training.same_time < async_sgd.simulate(8, 1, 0.05, updates=2000).same_time / 2


@pytest.mark.parametrize("staleness", [0, 1, 3, 15])
def test_the_largest_rate_is_where_a_constant_staleness_begins_to_diverge(staleness: int) -> None:
    def end(rate: float) -> float:
        weights = [1.0] * (staleness + 1)
        for _step in range(4000):
            weights.append(weights[-1] - rate * weights[-1 - staleness])
        return max(map(abs, weights[-100:]))

    limit = async_sgd.largest_rate(staleness)
    assert end(0.97 * limit) < 0.1 and end(1.03 * limit) > 10


@pytest.mark.parametrize("workers", [4, 8, 16])
def test_a_rate_that_suits_one_worker_diverges_for_many(workers: int) -> None:
    rate = 2.5 * async_sgd.largest_rate(workers - 1)
    assert async_sgd.simulate(1, 1, rate).losses[-1] < 0.05
    assert async_sgd.simulate(workers, 1, rate).losses[-1] > 1
    assert async_sgd.simulate(workers, 1, rate).synchronous[-1] < 0.05
    assert async_sgd.simulate(workers, 1, rate / 5).losses[-1] < 0.05
    assert "training diverges." in stale_gradients.draw(workers, 1, rate).sentence


@pytest.mark.parametrize("wrong", [(0, 1, 0.1), (2, 0.5, 0.1), (2, 1, 0), (2, 1, math.nan)])
def test_what_cannot_be_simulated_is_refused(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(ConfigError):
        async_sgd.simulate(*wrong)


# Checkpoints


@pytest.mark.parametrize(("hours", "minutes"), [(24, 117), (6, 57), (0.25, 9.1)])
def test_the_best_interval_is_the_one_in_dalys_figures(hours: float, minutes: float) -> None:
    """Daly (2006), figures 3 to 5, where a checkpoint takes 5 minutes."""
    found = checkpoints.daly(5 * MINUTE, hours * 60 * MINUTE) / MINUTE
    assert found == pytest.approx(minutes, rel=0.01)


@pytest.mark.parametrize("write", [1, 30, 600])
@pytest.mark.parametrize("between", [1000, 3600, DAY, 365 * DAY])
def test_the_least_is_lost_where_daly_says(write: float, between: float) -> None:
    best = checkpoints.daly(write, between)
    tried = best * np.geomspace(0.5, 2, 601)
    lost = [checkpoints.losses(float(one), write, between, 60).total for one in tried]
    assert float(tried[int(np.argmin(lost))]) == pytest.approx(best, rel=0.03)


def test_the_limits_of_the_best_interval() -> None:
    assert checkpoints.daly(40, 20) == checkpoints.daly(500, 20) == 20
    assert checkpoints.young(2, DAY) == pytest.approx(9.8 * MINUTE, rel=0.01)  # as in lesson 8
    assert checkpoints.daly(1, 1e9) == pytest.approx(checkpoints.young(1, 1e9), rel=1e-3)


def test_the_shares_are_those_of_dalys_cost_function() -> None:
    interval, write, between, restart = 600.0, 30.0, 4000.0, 120.0
    whole = between * math.exp(restart / between) * math.expm1((interval + write) / between)
    lost = checkpoints.losses(interval, write, between, restart)
    assert 1 - lost.total == pytest.approx(interval / whole)
    assert lost.writing == pytest.approx(write / whole)
    assert min(lost) > 0
    # Each rare failure costs the work of half an interval and half a checkpoint.
    rare = checkpoints.losses(600, 30, 1e7, 120)
    assert rare.rework == pytest.approx((600 + 30) / 2 / 1e7, rel=0.01)
    assert rare.restart == pytest.approx(120 / 1e7, rel=0.01)


def test_the_sentence_about_checkpoints_says_the_best_interval() -> None:
    view = checkpoints.draw(2, 1, 1, 10)
    assert (
        "interval is 9.8\u00a0min of work" in view.sentence and "one of them" not in view.sentence
    )
    assert "hardly any progress" in checkpoints.draw(600, 0.25, 4096, 1800).sentence


@pytest.mark.parametrize("wrong", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, -1)])
def test_times_that_cannot_be_are_refused(wrong: tuple[float, float, int, float]) -> None:
    with pytest.raises(ConfigError):
        checkpoints.draw(*wrong)


# The data that each worker reads


CASES = [
    (Files(4, 4), 2, 2, True),
    (Files(3, 4), 2, 3, False),
    (Files(2, 5), 3, 2, True),  # the last global batch has 4 examples for 3 workers
    (Files(5, 3), 4, 2, False),
]


@pytest.mark.parametrize(("dataset", "workers", "batch", "batched"), CASES)
def test_workers_read_what_tf_data_gives_them(
    dataset: Files, workers: int, batch: int, batched: bool, tmp_path: Path
) -> None:
    for policy in ("OFF", "FILE", "DATA", "AUTO"):
        found = readings(dataset, workers, batch, policy.replace("AUTO", "FILE"), batched)
        real = [
            read_by_tf_data(dataset, (workers, w), batch, policy, batched, tmp_path)
            for w in range(workers)
        ]
        if found is None:
            errors = [w for w, one in enumerate(real) if isinstance(one, str)]
            assert errors == list(range(dataset.files))  # the others read nothing, without an error
            assert all("FILE based sharding" in str(real[w]) for w in errors)
        else:
            assert [(one.examples, one.steps) for one in found] == real, policy


def read_by_tf_data(  # noqa: PLR0917
    dataset: Files, place: tuple[int, int], batch: int, policy: str, batched: bool, folder: Path
) -> tuple[list[int], list[list[int]]] | str:
    """The data that one worker reads and trains on, built like a strategy does, or the error."""
    import tensorflow as tf

    # The public API needs a cluster.
    from tensorflow.python.data.experimental.ops import distribute

    paths = []
    for file in range(dataset.files):
        paths.append(str(folder / f"{file}.txt"))
        Path(paths[-1]).write_text("".join(f"{example}\n" for example in dataset.of(file)))
    read: list[int] = []

    def note(line: Any) -> Any:
        read.append(int(line))
        return int(line)

    lines = tf.data.Dataset.from_tensor_slices(paths).flat_map(tf.data.TextLineDataset)
    numbers = lines.map(lambda line: tf.py_function(note, [line], tf.int64))
    numbers = numbers.map(lambda number: tf.ensure_shape(number, []))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy[policy]
    workers, worker = place
    if batched:
        sizes = distribute.batch_sizes_for_worker(batch * workers, workers, 1, worker)
        numbers = numbers.batch(batch * workers).rebatch(sizes).prefetch(1)
    sharded = distribute._AutoShardDataset(
        numbers.with_options(options), workers, worker, num_replicas=workers
    )
    try:
        steps = sharded if batched else sharded.batch(batch)
        return read, [step.numpy().tolist() for step in steps]
    except tf.errors.InvalidArgumentError as error:
        return error.message


def test_a_policy_reads_as_often_as_its_sentence_says() -> None:
    chosen: dict[str, Any] = {"batched": True, "workers": 2, "files": 4, "per_file": 4, "batch": 2}
    off = autoshard_widget.draw(policy="OFF", **chosen).sentence
    assert "open 8 files and read 32 examples" in off and "each of them 2 times" in off
    file = autoshard_widget.draw(policy="FILE", **chosen).sentence
    assert "open 4 files and read 16 examples" in file and "8 examples, 4 steps" in file
    data = autoshard_widget.draw(policy="DATA", **chosen).sentence
    assert "read 32 examples" in data and "the other 16 reads are discarded" in data
    uneven = autoshard_widget.draw(policy="FILE", **{**chosen, "files": 3}).sentence
    assert "uneven" in uneven and "8 examples, 4 steps, another 4 examples, 2 steps" in uneven
    refused = autoshard_widget.draw(policy="FILE", **{**chosen, "files": 1})
    assert "cannot split 1 file" in refused.sentence
    assert "InvalidArgumentError" in refused.drawing.body


def test_nobody_and_everybody_can_be_told_in_the_picture() -> None:
    found = readings(Files(1, 2), 2, 1, "DATA", False)
    assert found == [Reading([0], [0, 1], [[0]]), Reading([0], [0, 1], [[1]])]
    chosen: dict[str, Any] = {"batched": False, "workers": 2, "files": 1, "per_file": 2, "batch": 1}
    view = autoshard_widget.draw(policy="DATA", **chosen)
    dashed = [part for part in elements(view) if part.get("stroke-dasharray") == "3 2"]
    assert len(dashed) == 2 + 1  # one for each worker, and one in the legend


@pytest.mark.parametrize(
    "wrong", [{"files": 0}, {"workers": 0}, {"batch": 0}, {"per_file": 1.5}, {"policy": "SOME"}]
)
def test_a_data_set_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    right = {"policy": "OFF", "batched": True, "workers": 1, "files": 1, "per_file": 1, "batch": 1}
    with pytest.raises(ConfigError):
        autoshard_widget.draw(**{**right, **wrong})


# Learning rates


def test_the_recording_is_whole() -> None:
    found = learning_rates.recording()
    assert sorted(found.accuracy) == [32, 64, 128, 256, 512, 1024]
    for runs in found.accuracy.values():
        assert len(runs) == len(found.rates)
        assert all(len(one) == 2 and 0 <= min(one) <= max(one) <= 1 for one in runs)


def test_the_recording_is_of_what_the_benchmark_trains() -> None:
    from benchmarks import learning_rate as benchmark  # imports TensorFlow

    found = learning_rates.recording()
    assert benchmark.OUTPUT == learning_rates.RECORDING
    assert tuple(found.rates) == benchmark.RATES and tuple(found.accuracy) == benchmark.BATCHES
    assert (found.trained, found.tested) == (benchmark.TRAINED, benchmark.TESTED)
    places = itertools.product(benchmark.SEEDS, benchmark.BATCHES, benchmark.RATES)
    trainings = [(seed, batch, rate, seed / 10) for seed, batch, rate in places]
    content = benchmark.report(found.trained, trainings)
    assert content["accuracy"]["64"] == [[0.1, 0.2]] * len(found.rates)


def test_a_batch_says_what_was_recorded_of_it() -> None:
    found = learning_rates.recording()
    for batch, runs in found.accuracy.items():
        means = [sum(one) / len(one) for one in runs]
        best = means.index(max(means))
        sentence = learning_rates.draw(batch, scaled=False).sentence
        assert f"the best learning rate was {found.rates[best]:g}," in sentence
        assert f"{min(runs[best]):.1%} to {max(runs[best]):.1%}" in sentence
        assert f"{found.trained // batch:,} steps" in sentence


def test_the_rules_start_at_the_best_rate_of_the_smallest_batch() -> None:
    found = learning_rates.recording()
    first = found.rates[found.best(32)]
    assert learning_rates.predictions(32) == (first, first)
    assert learning_rates.predictions(512) == (16 * first, 4 * first)
    assert found.between(64, found.rates[3]) == pytest.approx(found.means(64)[3])
    low, high = sorted(found.means(64)[3:5])
    middle = found.between(64, math.sqrt(found.rates[3] * found.rates[4]))
    assert middle == pytest.approx((low + high) / 2)
    assert found.between(64, 100) is None


def test_a_batch_that_was_not_trained_is_refused() -> None:
    with pytest.raises(ConfigError, match="batch=48"):
        learning_rates.draw(48, scaled=False)


# Rings


def test_the_rounds_of_the_slider_are_those_of_the_ring() -> None:
    made = simulations.ring_rounds(4)
    done, workers = made.sliders["done"], made.sliders["workers"]
    assert done.max == 6
    done.value = 6
    assert "sent 1.5 times" in made.view.sentence and "whole sum" in made.view.sentence
    workers.value = 3
    assert (done.max, done.value) == (4, 4)
    workers.value = 6
    assert (done.max, done.value) == (10, 4)
    made.close()


def test_the_sentence_of_a_round_says_what_a_worker_holds() -> None:
    sentences = [ring.draw(4, done).sentence for done in range(7)]
    assert "nothing but its own" in sentences[0]
    assert "sum of 3 workers" in sentences[2]
    assert "one part of the complete sum" in sentences[3] and "0.75 times" in sentences[3]
    assert "holds 3 of 4 parts" in sentences[5]
    assert len(set(sentences)) == 7


@pytest.mark.parametrize("wrong", [1, 7, 2.5, True, "4"])
def test_a_ring_that_there_is_no_room_for_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="workers="):
        simulations.ring_rounds(wrong)
