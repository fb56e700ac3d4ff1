"""Small networks for images: `make_network` for Keras 2 or 3, `model_fn` for Estimator."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from helpers.either_keras import tf
from helpers.errors import unknown_choice
from helpers.params import DEFAULT_PARAMS, param

NETWORKS = ("cnn", "resnet")
PRECISIONS = ("float32", "mixed_bfloat16")
BASE_BATCH = DEFAULT_PARAMS["batch_size"]  # the global batch to which a learning rate refers


def model_fn(
    features: tf.Tensor, labels: tf.Tensor | None, mode: str, params: Mapping[str, Any]
) -> tf.estimator.EstimatorSpec:
    """Builds the graph of one replica for training, evaluation or prediction.

    Args:
      features: images, float32 [batch, height, width, channels] in [0, 1].
      labels: class numbers, int64 [batch], or None for prediction.
      mode: a `tf.estimator.ModeKeys`.
      params: ``batch_size`` (examples per replica), ``learning_rate`` (for a global batch of
        64), ``momentum``, ``classes``, ``network`` ("cnn" or "resnet").

    Returns:
      An EstimatorSpec. For training, it has the loss, a mean over the global batch, and a train_op.
      For evaluation, it has the loss and the metric ``accuracy``. For prediction, it has ``class``
      (int64 [batch]) and ``probabilities`` (float32 [batch, classes]).

    Raises:
      PackageError: this process has imported TensorFlow with Keras 3, which has no Estimator.
    """
    from helpers.estimator import tf

    training = mode == tf.estimator.ModeKeys.TRAIN
    network = make_network(params.get("classes", 10), params.get("network", "cnn"))
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
    global_batch = param(params, "batch_size") * replicas
    loss = tf.reduce_sum(losses) / global_batch  # the sum over replicas is the mean loss
    step = tf.compat.v1.train.get_or_create_global_step()
    # A Keras optimizer, because under Estimator the optimizers of tf.compat.v1 divide the loss by
    # the number of replicas again.
    optimizer = tf.keras.optimizers.legacy.SGD(
        learning_rate(step, global_batch, param(params, "learning_rate")),
        momentum=param(params, "momentum"),
    )
    optimizer.iterations = step
    train_op = optimizer.get_updates(loss, network.trainable_variables)[0]
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make_network(
    classes: int = 10, name: str = "cnn", precision: str = "float32"
) -> tf.keras.Model:
    """A network for images [batch, height, width, channels], with logits [batch, classes].

    Args:
      name: "cnn" or "resnet". The logits are float32. For images of 28 × 28 × 1 and ten classes,
        "cnn" has 347,146 weights (1.4 MB of gradients) and needs 0.5 million multiplications per
        image. "resnet" has 77,418 weights (0.3 MB) and needs 2.5 million multiplications, which is
        21 times as much computation per byte of the all-reduce.
      precision: "float32" or "mixed_bfloat16". The latter computes in bfloat16, but the logits, the
        weights and the gradients of the all-reduce remain float32. It is for Keras and custom
        training loops. In the session of a distributed Estimator, TensorFlow 2.15 fuses the layers
        into an operation that does not support bfloat16, unless `remapping` is off in its
        RewriterConfig.

    Raises:
      ConfigError: there is no network or precision with this name.
    """
    if name not in NETWORKS:
        raise unknown_choice("network", name, NETWORKS)
    if precision not in PRECISIONS:
        raise unknown_choice("precision", precision, PRECISIONS)
    policy = tf.keras.mixed_precision.Policy(precision)
    body = _cnn(policy) if name == "cnn" else _resnet(policy)
    return tf.keras.Sequential([*body, tf.keras.layers.Dense(classes, dtype="float32")])


def _cnn(policy: tf.keras.mixed_precision.Policy) -> list[tf.keras.layers.Layer]:
    return [
        tf.keras.layers.Conv2D(32, 3, activation="relu", dtype=policy),
        tf.keras.layers.MaxPooling2D(dtype=policy),
        tf.keras.layers.Flatten(dtype=policy),
        tf.keras.layers.Dense(64, activation="relu", dtype=policy),
    ]


def _resnet(policy: tf.keras.mixed_precision.Policy) -> list[tf.keras.layers.Layer]:
    return [
        tf.keras.layers.Conv2D(16, 3, 2, padding="same", activation="relu", dtype=policy),
        ResidualBlock(16, dtype=policy),
        ResidualBlock(32, stride=2, dtype=policy),
        ResidualBlock(64, stride=2, dtype=policy),
        tf.keras.layers.GlobalAveragePooling2D(dtype=policy),
    ]


class ResidualBlock(tf.keras.layers.Layer):
    """Two convolutions whose result is added to their input: relu(x + f(x)).

    Source: He et al. (2016), "Deep Residual Learning for Image Recognition",
    https://arxiv.org/abs/1512.03385, section 3. The block has no batch normalization, because
    workers would have to synchronize its averages as well. Instead, f is initially zero, so that
    each block initially returns its input. Source: Zhang, Dauphin and Ma (2019), "Fixup
    Initialization", https://arxiv.org/abs/1901.09321, section 3.

    Args:
      filters: the number of output channels.
      stride: 1, or 2 to halve height and width. The input passes through a 1 × 1 convolution if the
        stride is 2 or the number of its channels is not `filters`.
    """

    def __init__(self, filters: int, stride: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filters = filters
        self.stride = stride

    def build(self, input_shape: Any) -> None:
        """Creates the convolutions for inputs [batch, height, width, channels]."""
        make: Any = functools.partial(tf.keras.layers.Conv2D, self.filters, padding="same")
        policy = self.dtype_policy
        self.first = make(kernel_size=3, strides=self.stride, activation="relu", dtype=policy)
        self.second = make(kernel_size=3, kernel_initializer="zeros", dtype=policy)
        changes = self.stride > 1 or input_shape[-1] != self.filters
        self.shortcut = make(kernel_size=1, strides=self.stride, dtype=policy) if changes else None
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the output [batch, height / stride, width / stride, filters]."""
        kept = self.shortcut(inputs) if self.shortcut else inputs
        return tf.nn.relu(kept + self.second(self.first(inputs)))

    def get_config(self) -> dict[str, Any]:
        """The arguments of the block, for Keras."""
        return {**super().get_config(), "filters": self.filters, "stride": self.stride}


def learning_rate(step: tf.Tensor, global_batch: int, base: float, warmup: int = 100) -> tf.Tensor:
    """The learning rate of a step: `base` × global_batch / 64, after a warm-up of `warmup` steps.

    It uses the linear scaling rule and the gradual warm-up of Goyal et al. (2017), "Accurate, Large
    Minibatch SGD", https://arxiv.org/abs/1706.02677, sections 2.1 and 2.2.

    Args:
      step: the global step, an integer scalar tensor.
      global_batch: the number of examples per step of all replicas together.
      base: the learning rate for a global batch of 64.
    """
    ramp = tf.minimum(1.0, tf.cast(step + 1, tf.float32) / warmup)
    return base * global_batch / BASE_BATCH * ramp
