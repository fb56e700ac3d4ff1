"""Endless evaluation data, and metrics that are not numbers."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster.local import LocalCluster
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.worker.evaluation_input import MIN_BATCHES
from tests.worker.programs.models import BATCH, EXAMPLES, batches, examples, loss_of, spec

v1 = tf.compat.v1


def counting_model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Counts the evaluated examples."""
    loss, _weight = loss_of(features, labels)
    step = v1.train.get_or_create_global_step()
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    total = v1.get_variable(
        "count", [], collections=[v1.GraphKeys.LOCAL_VARIABLES], initializer=v1.zeros_initializer()
    )
    counted = {"examples": (total, total.assign_add(tf.cast(tf.size(labels), tf.float32)))}
    return spec(mode, loss, train_op, counted if mode == "eval" else None)


def for_both_modes() -> Any:
    """The most common form of input_fn."""
    return examples().shuffle(100).repeat().batch(7)


def repeated_last() -> Any:
    return batches("eval").cache().repeat(-1).prefetch(1)


def generated() -> Any:
    """A dataset of unknown length, which is endless."""

    def numbers() -> Iterator[Any]:
        for number in itertools.count():
            value = [number % 10 / 10.0]
            yield value, [2 * value[0]]

    kinds = (tf.TensorSpec([1]), tf.TensorSpec([1]))
    return tf.data.Dataset.from_generator(numbers, output_signature=kinds).batch(1)


@pytest.mark.parametrize(
    ("input_fn", "evaluate"),
    [
        (for_both_modes, "after"),
        pytest.param(for_both_modes, "sidecar", marks=pytest.mark.programs),
        pytest.param(repeated_last, "after", marks=pytest.mark.programs),
    ],
)
def test_what_repeats_forever_is_evaluated_once(
    input_fn: Callable[..., Any], evaluate: str, cluster: LocalCluster
) -> None:
    result = cluster.train(counting_model_fn, input_fn, steps=5, evaluate=evaluate, progress=False)
    assert result.evaluation["examples"] == EXAMPLES
    assert "repeats forever" in result.warnings[-1]
    assert "test_evaluation.py, line" in result.warnings[-1] and "repeat(" in result.warnings[-1]
    assert not result.restarts


@pytest.mark.parametrize("evaluate", ["after", pytest.param("sidecar", marks=pytest.mark.programs)])
def test_eval_steps_bounds_an_evaluation(evaluate: str, cluster: LocalCluster) -> None:
    result = cluster.train(
        counting_model_fn, for_both_modes, steps=5, evaluate=evaluate, eval_steps=3, progress=False
    )
    assert result.evaluation["examples"] == 3 * 7
    assert not result.warnings


@pytest.mark.programs
def test_data_of_unknown_length_without_an_end_ends_in_a_sentence(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="has no end, or is very large") as raised:
        cluster.train(counting_model_fn, generated, steps=5, model_dir=tmp_path, progress=False)
    assert f"{MIN_BATCHES:,}" in str(raised.value) or str(MIN_BATCHES) in str(raised.value)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-5")


def odd_metrics_model_fn(features: Any, labels: Any, mode: str) -> Any:
    loss, _weight = loss_of(features, labels)
    if mode != "eval":
        step = v1.train.get_or_create_global_step()
        return spec(mode, loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss, step))
    truth = tf.cast(labels[:, 0] > 1.0, tf.int64)
    matrix = v1.get_variable(
        "matrix",
        [2, 2],
        tf.int32,
        v1.zeros_initializer(),
        collections=[v1.GraphKeys.LOCAL_VARIABLES],
    )
    found = v1.confusion_matrix(truth, truth, 2)
    metrics = {
        "confusion": (matrix, matrix.assign_add(found)),
        "precision": v1.metrics.precision_at_thresholds(truth, features[:, 0], [0.1, 0.5, 0.9]),
        "text": (tf.constant("zwölf".encode()), tf.no_op()),
        "blob": (tf.constant(b"\xff\x00"), tf.no_op()),
        "accuracy": v1.metrics.accuracy(truth, truth),
    }
    return spec(mode, loss, metrics=metrics)


@pytest.mark.parametrize("evaluate", ["after", pytest.param("sidecar", marks=pytest.mark.programs)])
def test_metrics_that_are_no_numbers_are_kept(evaluate: str, cluster: LocalCluster) -> None:
    result = cluster.train(
        odd_metrics_model_fn, batches, steps=5, evaluate=evaluate, progress=False
    )
    found = result.evaluation
    assert sum(map(sum, found["confusion"])) == EXAMPLES and found["confusion"][0][1] == 0
    assert len(found["precision"]) == 3
    assert (found["text"], found["blob"]) == ("zwölf".encode(), b"\xff\x00")
    assert result.accuracy == 1.0 and "accuracy" in repr(result)
    result.plot()


def sharding_by_environment(mode: str) -> Any:
    assert json.loads(os.environ["TF_CONFIG"])["cluster"]
    return batches(mode)


@pytest.mark.programs
@pytest.mark.parametrize("evaluate", ["after", "sidecar"])
def test_tf_config_is_there_during_evaluations(evaluate: str, cluster: LocalCluster) -> None:
    result = cluster.train(
        counting_model_fn, sharding_by_environment, steps=5, evaluate=evaluate, progress=False
    )
    assert result.evaluation["examples"] == EXAMPLES // BATCH * BATCH
