"""Small Keras 3 models and data, from [batch, 10] to [batch, 1] unless stated otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

EXAMPLES = 512
Layers = list[Any]


def plain_layers() -> Layers:
    """A network of two Dense layers."""
    layers = keras.layers
    return [layers.Input((10,)), layers.Dense(8, activation="relu"), layers.Dense(1)]


def sequential() -> Any:
    """The model of most programs."""
    return keras.Sequential(plain_layers())


def unbuilt() -> Any:
    """A model whose shape Keras infers from the first batch."""
    return keras.Sequential(plain_layers()[1:])


def functional() -> Any:
    """A model with two inputs and two outputs."""
    layers = keras.layers
    left, right = layers.Input((10,), name="left"), layers.Input((10,), name="right")
    body = layers.Dense(8, activation="relu")(layers.Concatenate()([left, right]))
    outputs = {name: layers.Dense(1, name=name)(body) for name in ("up", "down")}
    return keras.Model({"left": left, "right": right}, outputs)


class Subclassed(keras.Model):
    """A model with its own `call`."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = plain_layers()[1:]

    def call(self, inputs: Any) -> Any:
        """Maps [batch, 10] to [batch, 1]."""
        return self.outer(self.inner(inputs))


class OwnStep(keras.Sequential):
    """A model with a custom `train_step`."""

    def train_step(self, data: Any) -> Any:
        """Runs one step, in which the loss counts twice."""
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = 2 * self.compute_loss(y=y, y_pred=predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        for metric in self.metrics:
            if metric.name != "loss":
                metric.update_state(y, predicted)
        return {m.name: m.result() for m in self.metrics if m.name != "loss"}


class AddsLoss(keras.layers.Layer):
    """Passes its input through, and adds a loss."""

    def call(self, inputs: Any) -> Any:
        """Maps [batch, n] to [batch, n]."""
        self.add_loss(1e-2 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


def own_step() -> Any:
    """A Sequential model with a custom `train_step`."""
    return OwnStep(plain_layers())


def with_layer(place: int, make: Callable[[], Any]) -> Callable[[], Any]:
    """Adds one layer to the plain network."""

    def model() -> Any:
        layers = plain_layers()
        layers.insert(place, make())
        return keras.Sequential(layers)

    return model


def with_first(**options: Any) -> Callable[[], Any]:
    """The plain network with other options for its first Dense layer."""

    def model() -> Any:
        layers = plain_layers()
        layers[1] = keras.layers.Dense(8, activation="relu", **options)
        return keras.Sequential(layers)

    return model


def frozen() -> Any:
    """A model whose first layer does not learn."""
    model = sequential()
    model.layers[0].trainable = False
    return model


def convolutional() -> Any:
    """Convolutions over the ten numbers, and pooling."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((10,)),
            layers.Reshape((10, 1)),
            layers.Conv1D(4, 3, activation="relu"),
            layers.MaxPooling1D(2),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )


def recurrent() -> Any:
    """A GRU over the ten numbers."""
    layers = keras.layers
    return keras.Sequential(
        [layers.Input((10,)), layers.Reshape((10, 1)), layers.GRU(4), layers.Dense(1)]
    )


def attentive() -> Any:
    """Converts numbers to tokens, with an embedding, attention and a LayerNormalization."""
    layers = keras.layers
    given = layers.Input((10,))
    tokens = layers.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])(given)
    words = layers.Embedding(4, 8)(tokens)
    seen = layers.MultiHeadAttention(2, 4)(words, words)
    body = layers.LayerNormalization()(layers.Add()([words, seen]))
    return keras.Model(given, layers.Dense(1)(layers.GlobalAveragePooling1D()(body)))


def numbers() -> tuple[Any, Any, Any]:
    """Inputs [512, 10], targets [512, 1], weights [512]."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=(EXAMPLES, 10)).astype("float32")
    weights = chance.uniform(0.5, 1.5, size=EXAMPLES).astype("float32")
    return x, x.sum(1, keepdims=True), weights


def pairs() -> Any:
    """Inputs and targets."""
    return numbers()[:2]


def two_by_two() -> Any:
    """Two inputs, two targets."""
    x, y, _weights = numbers()
    return {"left": x, "right": -x}, {"up": y, "down": y * y}


def classes() -> Any:
    """Inputs and the indices of two classes."""
    x, y, _weights = numbers()
    return x, (y > 0).astype("int64")


def infinite() -> Any:
    """Inputs and targets. The gradient of the first example is not finite."""
    x, y, _weights = numbers()
    x[0] = np.inf
    return x, y


def as_shared(columns: Any, batch: int) -> Any:
    """A dataset whose batches are sharded example by example."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices(columns).batch(batch).with_options(options)
