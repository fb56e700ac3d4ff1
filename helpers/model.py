"""`model_fn`: a small convolutional network as an Estimator sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.estimator import tf


def model_fn(
    features: tf.Tensor, labels: tf.Tensor | None, mode: str, params: Mapping[str, Any]
) -> tf.estimator.EstimatorSpec:
    """Builds the graph of one replica for training, evaluation or prediction.

    Args:
      features: images, float32 [batch, height, width, channels] in [0, 1].
      labels: class numbers, int64 [batch]; None when predicting.
      mode: a `tf.estimator.ModeKeys`.
      params: ``batch_size`` (examples per replica), ``learning_rate`` (for a global batch of
        64), ``momentum``, ``classes``.

    Returns:
      An EstimatorSpec: the loss, a mean over the global batch, and a train_op; the metric
      ``accuracy``; or the predictions ``class`` (int64 [batch]) and ``probabilities``
      (float32 [batch, classes]).
    """
    training = mode == tf.estimator.ModeKeys.TRAIN
    network = make_network(params.get("classes", 10))
    logits = network(features, training=training)

    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"class": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.reduce_mean(losses), eval_metric_ops={"accuracy": accuracy}
        )

    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    global_batch = params.get("batch_size", 64) * replicas
    loss = tf.reduce_sum(losses) / global_batch  # the replicas' losses will be added up
    step = tf.compat.v1.train.get_or_create_global_step()
    # A Keras optimizer: those of tf.compat.v1 would, under Estimator, divide the loss by the
    # number of replicas once more.
    optimizer = tf.keras.optimizers.legacy.SGD(
        learning_rate(step, global_batch, params.get("learning_rate", 0.05)),
        momentum=params.get("momentum", 0.9),
    )
    optimizer.iterations = step
    train_op = optimizer.get_updates(loss, network.trainable_variables)[0]
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make_network(classes: int = 10) -> tf.keras.Model:
    """Images [batch, height, width, channels] to logits [batch, classes]; 347,146 weights."""
    return tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(classes),
        ]
    )


def learning_rate(step: tf.Tensor, global_batch: int, base: float, warmup: int = 100) -> tf.Tensor:
    """The learning rate of a step: `base` × global_batch / 64, reached over `warmup` steps.

    The linear scaling rule and the gradual warm-up of Goyal et al. (2017), "Accurate, Large
    Minibatch SGD", https://arxiv.org/abs/1706.02677, sections 2.1 and 2.2.

    Args:
      step: the global step, an integer scalar.
      global_batch: examples in one step of all replicas together.
      base: the learning rate that suits a global batch of 64.
    """
    ramp = tf.minimum(1.0, tf.cast(step + 1, tf.float32) / warmup)
    return base * global_batch / 64 * ramp
