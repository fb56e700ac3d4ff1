"""Changes to TensorFlow inside a worker."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from helpers import LocalCluster
from helpers.course.model import make_network
from helpers.estimator import tf


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Tests a tensor in an `if`, which only works if AutoGraph has converted the function."""
    logits = make_network()(features)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    if loss > 1e9:
        loss = 0.0 * loss
    step = tf.compat.v1.train.get_or_create_global_step()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))


def input_fn() -> Any:
    conversion: Any = importlib.import_module("tensorflow.python.autograph.impl.conversion")
    from helpers.course import model

    left_alone = [tf.estimator.Estimator._call_model_fn, model.model_fn, model.make_network]
    assert all(conversion.is_allowlisted(function) for function in left_alone)
    assert not conversion.is_allowlisted(model_fn)
    images, labels = tf.zeros([8, 28, 28, 1]), tf.zeros([8], tf.int64)
    return tf.data.Dataset.from_tensors((images, labels)).repeat(4)


def test_autograph_translates_the_readers_model_fn_and_nothing_of_estimator_or_ours() -> None:
    with LocalCluster(workers=2) as cluster:
        options: Any = {"params": {"batch_size": 8}, "evaluate": None, "progress": False}
        result = cluster.train(model_fn, input_fn, steps=3, **options)
    assert result.steps == 3


def averaging_model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Counts steps in a variable that is averaged over the workers when it is saved."""
    mean = tf.compat.v1.get_variable(
        "mean",
        initializer=0.0,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.MEAN,
    )
    step = tf.compat.v1.train.get_or_create_global_step()
    train_op = tf.group(mean.assign_add(1.0), step.assign_add(1))
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(features), train_op=train_op)


def one_batch() -> Any:
    return tf.data.Dataset.from_tensors((tf.zeros([8]), tf.zeros([8], tf.int64))).repeat()


def test_the_chief_does_not_write_a_checkpoint_while_its_peers_restore_it(tmp_path: Path) -> None:
    index = tmp_path / "model.ckpt-3.index"
    options: Any = {"model_dir": tmp_path, "evaluate": None, "progress": False}
    with LocalCluster(workers=2) as cluster:
        cluster.train(averaging_model_fn, one_batch, steps=3, **options)
        written = index.stat().st_mtime_ns
        cluster.train(averaging_model_fn, one_batch, steps=5, **options)
    assert index.stat().st_mtime_ns == written
    assert tf.train.load_checkpoint(str(tmp_path / "model.ckpt-5")).get_tensor("mean") == 5.0
