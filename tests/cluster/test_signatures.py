"""Functions with every signature that Estimator itself accepts, on two workers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.cluster.local import LocalCluster
from helpers.errors import ConfigError
from helpers.estimator import tf

v1 = tf.compat.v1
BATCH, STEPS = 8, 6
FEATURES = np.random.default_rng(0).normal(size=[64, 4]).astype("float32")
LABELS = FEATURES.argmax(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(workers=2) as group:
        yield group


def spec_of(logits: Any, labels: Any, mode: str, **more: Any) -> Any:
    """The result of all model functions here: a softmax model under plain gradient descent."""
    predictions = {"class": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    loss = tf.reduce_mean(losses) / tf.distribute.get_strategy().num_replicas_in_sync
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    metrics = {"accuracy": v1.metrics.accuracy(labels, predictions["class"])}
    return tf.estimator.EstimatorSpec(
        mode, predictions, loss, train_op, eval_metric_ops=metrics, **more
    )


def dense(features: Any) -> Any:
    return v1.layers.dense(features, 4)


def without_params(features: Any, labels: Any, mode: str) -> Any:
    return spec_of(dense(features), labels, mode)


def with_config(features: Any, labels: Any, mode: str, config: Any) -> Any:
    assert config.model_dir and config.task_type
    return spec_of(dense(features), labels, mode)


def with_params(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    assert params["rate"] == 3
    return spec_of(dense(features), labels, mode)


def of_a_dict(features: Mapping[str, Any], labels: Any, mode: str) -> Any:
    return spec_of(dense(features["x"]) * features["one"], labels, mode)


def with_everything_in_its_spec(features: Any, labels: Any, mode: str) -> Any:
    hooks = [v1.train.StepCounterHook(every_n_steps=2)]
    logits = dense(features)
    scaffold = v1.train.Scaffold(saver=v1.train.Saver(max_to_keep=2))
    export = {"scores": tf.estimator.export.PredictOutput({"scores": logits})}
    return spec_of(
        logits,
        labels,
        mode,
        training_hooks=hooks,
        evaluation_hooks=hooks,
        scaffold=scaffold if mode == tf.estimator.ModeKeys.TRAIN else None,
        export_outputs=export,
    )


class Callables:
    """Functions that are methods or callable objects."""

    def __call__(self, features: Any, labels: Any, mode: str) -> Any:
        return without_params(features, labels, mode)

    def model_fn(self, features: Any, labels: Any, mode: str) -> Any:
        return without_params(features, labels, mode)

    def input_fn(self) -> Any:
        return without_arguments()


def without_arguments() -> Any:
    return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).batch(BATCH)


def with_all_arguments(mode: str, params: Any, config: Any, input_context: Any = None) -> Any:
    assert config.model_dir and params["batch_size"] == BATCH
    data = tf.data.Dataset.from_tensor_slices((FEATURES, LABELS))
    if input_context:
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.batch(params["batch_size"])


def dicts() -> Any:
    return without_arguments().map(lambda x, y: ({"x": x, "one": tf.ones([])}, y))


def tensors() -> Any:
    return tf.constant(FEATURES[:BATCH]), tf.constant(LABELS[:BATCH])


def tensors_of_an_iterator() -> Any:
    return v1.data.make_one_shot_iterator(without_arguments().repeat(5)).get_next()


def tensors_of_a_queue(mode: str) -> Any:
    epochs = 1 if mode == tf.estimator.ModeKeys.EVAL else None
    one = v1.train.slice_input_producer([FEATURES, LABELS], num_epochs=epochs, shuffle=False)
    return v1.train.batch(one, BATCH)


METHODS = Callables()
FORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "no params": (without_params, without_arguments),
    "config": (with_config, with_all_arguments),
    "params": (with_params, without_arguments),
    "dicts": (of_a_dict, dicts),
    "partial": (functools.partial(with_params, params={"rate": 3}), without_arguments),
    "a method": (METHODS.model_fn, METHODS.input_fn),
    "an object": (METHODS, without_arguments),
    "hooks, scaffold, outputs": (with_everything_in_its_spec, without_arguments),
    "tensors": (without_params, tensors),
    "tensors of an iterator": (without_params, tensors_of_an_iterator),
    "tensors of a queue": (without_params, tensors_of_a_queue),
}


@pytest.mark.parametrize("form", FORMS)
def test_two_workers_train_and_evaluate(form: str, cluster: LocalCluster, tmp_path: Path) -> None:
    model_fn, input_fn = FORMS[form]
    result = cluster.train(
        model_fn,
        input_fn,
        steps=STEPS,
        params={"batch_size": BATCH, "rate": 3},
        model_dir=str(tmp_path),
        progress=False,
    )
    assert result.steps == STEPS
    assert result.global_batch == 2 * BATCH
    assert result.accuracy is not None and 0 <= result.accuracy <= 1
    assert not result.restarts


def test_the_size_of_batches_is_counted_where_params_are_not_asked_for(
    cluster: LocalCluster,
) -> None:
    result = cluster.train(
        without_params, without_arguments, epochs=1, evaluate=None, progress=False
    )
    assert (result.global_batch, result.steps) == (2 * BATCH, len(FEATURES) // BATCH)


@pytest.mark.parametrize(
    ("input_fn", "said"),
    [(tensors, "whose length TensorFlow can determine"), (lambda: "features", "returned str")],
)
def test_what_cannot_be_counted_or_read_gets_a_sentence(
    input_fn: Callable[..., Any], said: str, cluster: LocalCluster
) -> None:
    with pytest.raises(ConfigError, match=said):
        cluster.train(without_params, input_fn, epochs=1, evaluate=None, progress=False)
