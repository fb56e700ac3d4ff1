"""What is changed in TensorFlow inside a worker."""

from __future__ import annotations

import importlib
from typing import Any

from helpers import LocalCluster
from helpers.estimator import tf
from helpers.model import make_network


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Asks a tensor, which works only where AutoGraph has translated the question."""
    logits = make_network()(features)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    if loss > 1e9:
        loss = 0.0 * loss
    step = tf.compat.v1.train.get_or_create_global_step()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))


def input_fn() -> Any:
    conversion: Any = importlib.import_module("tensorflow.python.autograph.impl.conversion")
    from helpers import model

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
