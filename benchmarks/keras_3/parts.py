"""Programs in which the workers' parts of a batch differ: by worker, in number, or in weight.

49 examples in batches of 16: two workers have 8 and 8, three have 6, 6 and 4. The last batch has
one example, so only the first worker has an example.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.keras_3 import models
from benchmarks.keras_3.models import plain_layers
from benchmarks.keras_3.trial import Trial

EXAMPLES, BATCH, EPOCHS = 49, 16, 2


def classes_of_three() -> tuple[Any, Any]:
    """Inputs [49, 10], one-hot targets of three classes [49, 3]."""
    x, y, _weights = models.numbers()
    return x, np.eye(3, dtype="float32")[np.digitize(y[:, 0], [-1.0, 1.0])]


def tokens() -> tuple[Any, Any]:
    """Sequences of 7 tokens, in which 0 is padding, and a class for each token."""
    chance = np.random.default_rng(5)
    words = chance.integers(1, 20, (models.EXAMPLES, 7))
    for row, length in enumerate(chance.integers(1, 8, models.EXAMPLES)):
        words[row, length:] = 0
    return words, (words % 3).astype("int32")


def weighted_classes() -> tuple[Any, Any, Any]:
    """Two classes, and weights, some of which are 0."""
    x, y = models.classes()
    weights = np.random.default_rng(6).uniform(-0.5, 2.0, len(x)).clip(0).astype("float32")
    return x, y, weights


def masked(**options: Any) -> Callable[[], Any]:
    """An Embedding that masks padding, an LSTM, and a class for each token."""

    def model() -> Any:
        layers = keras.layers
        return keras.Sequential(
            [
                layers.Input((7,), dtype="int64"),
                layers.Embedding(20, 8, **options),
                layers.LSTM(6, return_sequences=True),
                layers.Dense(3, activation="softmax"),
            ]
        )

    return model


def three_classes() -> Any:
    """Maps [batch, 10] to probabilities of three classes."""
    layers = plain_layers()[:-1]
    return keras.Sequential([*layers, keras.layers.Dense(3, activation="softmax")])


def mean_of_squares(y_true: Any, y_pred: Any) -> Any:
    """A loss function that returns one number."""
    return tf.reduce_mean(tf.square(y_true - y_pred))


def root_of_mean(y_true: Any, y_pred: Any) -> Any:
    """Returns one number that is not a mean."""
    return tf.sqrt(tf.reduce_mean(tf.square(y_true - y_pred)))


def of_pairs(y_true: Any, y_pred: Any) -> Any:
    """A loss in which each example is compared with all others of the batch."""
    differences = tf.square(y_pred - tf.transpose(y_pred) - y_true + tf.transpose(y_true))
    return tf.reduce_mean(differences)


def of_large_targets(y_true: Any, y_pred: Any) -> Any:
    """Returns one entry for each example that counts. Their number differs between workers."""
    return tf.boolean_mask(tf.square(y_true - y_pred)[:, 0], y_true[:, 0] > 1.0)


class OneNumber(keras.losses.Loss):
    """A loss class that returns one number."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Returns the mean of all entries."""
        return keras.ops.mean(keras.ops.abs(y_true - y_pred))


class OwnLoss(keras.Sequential):
    """A model with a mean in `compute_loss`."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):  # type: ignore[no-untyped-def]
        """Computes the loss as in Keras's guide, with the model's own losses."""
        return tf.reduce_mean(tf.square(y - y_pred)) + 0.1 * keras.ops.sum(self.losses)


class Step(keras.Sequential):
    """A model with a `train_step` whose loss, gradients or results are changed by subclasses."""

    def __init__(self, layers: Any) -> None:
        super().__init__(layers)
        self.tracker = keras.metrics.Mean(name="tracked")

    @property
    def metrics(self) -> Any:
        """The metrics of Keras, and the tracker."""
        return [*super().metrics, self.tracker]

    def loss_of(self, y: Any, y_pred: Any) -> Any:
        """Returns the loss to minimize."""
        return self.compute_loss(y=y, y_pred=y_pred)

    def changed(self, gradients: Any) -> Any:
        """Returns the gradients for the optimizer."""
        return gradients

    def results(self, loss: Any) -> Any:
        """Returns the results of the step."""
        self.tracker.update_state(loss)
        return {"loss": loss, "tracked": self.tracker.result()}

    def train_step(self, data: Any) -> Any:
        """Runs one step."""
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.loss_of(y, self(x, training=True))
        gradients = self.changed(tape.gradient(loss, self.trainable_variables))
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return self.results(loss)


class KerasLoss(Step):
    """Calls Keras's loss in the step, as in Keras's guide."""

    def loss_of(self, y: Any, y_pred: Any) -> Any:
        """Returns the result of a Loss object."""
        return keras.losses.Huber(delta=0.5)(y, y_pred)


class OwnMean(Step):
    """Computes its own mean, without a reduction by Keras."""

    def loss_of(self, y: Any, y_pred: Any) -> Any:
        """Returns the mean of Keras's loss for each example, plus a term that is already a mean."""
        each = keras.losses.MeanSquaredError(reduction=None)(y, y_pred)
        return tf.reduce_mean(each) + 0.1 * tf.reduce_mean(tf.abs(y_pred))


class MixedLoss(Step):
    """Adds Keras's loss and a mean computed by the program."""

    def loss_of(self, y: Any, y_pred: Any) -> Any:
        """Returns their sum."""
        return keras.losses.MeanSquaredError()(y, y_pred) + tf.reduce_mean(tf.abs(y_pred))


class EachLoss(Step):
    """The gradient of a loss for each example, which is the gradient of their sum."""

    def loss_of(self, y: Any, y_pred: Any) -> Any:
        """Returns a loss for each example."""
        return 0.02 * keras.losses.mean_squared_error(y, y_pred)

    def results(self, loss: Any) -> Any:
        """Returns the mean loss."""
        self.tracker.update_state(loss)
        return {"tracked": self.tracker.result()}


class Clips(Step):
    """Clips by the norm of all gradients."""

    def changed(self, gradients: Any) -> Any:
        """Clips to norm 0.5."""
        return tf.clip_by_global_norm(gradients, 0.5)[0]


class AddsNoise(Step):
    """Adds the same noise on all workers."""

    def changed(self, gradients: Any) -> Any:
        """Adds noise in proportion to the gradient."""
        noise = [tf.random.stateless_normal(g.shape, (1, 2)) for g in gradients]
        return [g + 0.1 * tf.norm(g) * n for g, n in zip(gradients, noise, strict=True)]


class Normalizes(Step):
    """Normalizes each gradient, and returns the norm."""

    def changed(self, gradients: Any) -> Any:
        """Scales each gradient to norm 1."""
        self.norm = tf.linalg.global_norm(gradients)
        return [g / (tf.norm(g) + 1e-6) for g in gradients]

    def results(self, loss: Any) -> Any:
        """Also returns the norm."""
        return super().results(loss) | {"norm": self.norm}


class ClipsEach(Step):
    """Clips each example's gradient, by a Jacobian. A warning reports that it is summed late."""

    def train_step(self, data: Any) -> Any:
        """Applies the mean of the clipped gradients of single examples."""
        x, y = data
        with tf.GradientTape() as tape:
            each = keras.losses.mean_squared_error(y, self(x, training=True))
        rows = tape.jacobian(each, self.trainable_variables)
        means = [tf.reduce_mean(tf.clip_by_value(row, -0.1, 0.1), axis=0) for row in rows]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.optimizer.apply(means, self.trainable_variables)
        found = [warning for warning in caught if "GradientTape.gradient" in str(warning.message)]
        several = tf.distribute.get_strategy().num_replicas_in_sync > 1
        assert [warning.filename for warning in found] == [__file__] * several
        return {"loss": tf.reduce_mean(each)}


class Twice(Step):
    """Uses two tapes, one of them persistent, like an adversarial program."""

    def train_step(self, data: Any) -> Any:
        """Trains on the data, and on the data moved along the gradient."""
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = self.loss_of(y, self(x, training=True))
        direction = tf.sign(tape.gradient(loss, x))
        first = tape.gradient(loss, self.trainable_variables)
        with tf.GradientTape() as again:
            moved = self.loss_of(y, self(x + 0.01 * direction, training=True))
        second = again.gradient(moved, self.trainable_variables)
        both = [a + b for a, b in zip(first, second, strict=True)]
        both, _norm = tf.clip_by_global_norm(both, 0.5)
        self.optimizer.apply(both, self.trainable_variables)
        return self.results(loss + moved)


class SignedSGD(keras.optimizers.SGD):
    """Overrides `apply`."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Applies the signs of the gradients, times their mean size."""
        grads = [tf.sign(g) * tf.reduce_mean(tf.abs(g)) for g in grads]
        return super().apply(grads, trainable_variables)


class ClippingAdam(keras.optimizers.Adam):
    """Overrides `apply_gradients`."""

    def apply_gradients(self, grads_and_vars: Any) -> Any:
        """Clips the gradients to 0.01."""
        pairs = [(tf.clip_by_value(g, -0.01, 0.01), v) for g, v in grads_and_vars]
        return super().apply_gradients(pairs)


class Total(keras.metrics.Metric):
    """Returns its variable, like the example in Keras's documentation."""

    def __init__(self, name: str = "total", **options: Any) -> None:
        super().__init__(name=name, **options)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Counts the large predictions."""
        large = tf.cast(tf.abs(y_pred) > 0.3, self.dtype)
        self.total.assign(self.total + tf.reduce_sum(large))

    def result(self) -> Any:
        """Returns a variable, not a tensor."""
        return self.total


class Largest(Total):
    """Keeps a maximum, which starts below 0."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Updates the maximum over all examples so far."""
        largest = keras.ops.max(keras.ops.abs(y_true - y_pred), initial=-1.0)
        self.total.assign(tf.maximum(self.total, largest))

    def reset_state(self) -> None:
        """Resets below any value."""
        self.total.assign(-1.0)


class MeanOfBatches(keras.metrics.Mean):
    """A subclass of Keras's metric that passes it one number for each batch."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a ratio of sums."""
        ratio = tf.reduce_sum(tf.abs(y_true - y_pred)) / tf.reduce_sum(tf.abs(y_true))
        super().update_state(ratio)


class ReturnsVariable(Step):
    """Returns a metric's variable and a count from its step."""

    def results(self, loss: Any) -> Any:
        """Returns them with the loss."""
        self.tracker.update_state(loss)
        return {"loss": loss, "steps": self.optimizer.iterations, "total": self.tracker.count}


class Doubles(keras.layers.Layer):
    """Multiplies by a weight, and adds a loss that is a mean over the batch."""

    def build(self, _shape: Any) -> None:
        """Creates the factor."""
        self.factor = self.add_weight(shape=(), initializer="ones")

    def call(self, inputs: Any) -> Any:
        """Multiplies by the factor."""
        outputs = self.factor * inputs
        self.add_loss(0.1 * tf.reduce_mean(tf.square(outputs)))
        return outputs


def part(trial: Trial, batch: Any) -> Any:
    """Returns this worker's share of each array, as in `fit`: the first workers have more."""
    share = -(-len(batch[0]) // trial.workers)
    return [array[trial.index * share : (trial.index + 1) * share] for array in batch]


def batch_by_batch(trial: Trial) -> tuple[Any, Any]:
    """Calls `train_on_batch` and `test_on_batch`. The results of each batch are the history."""
    model, found = trial.make(), []
    columns = [column[: trial.case.examples] for column in trial.case.columns()]
    for start in range(0, trial.case.examples, trial.case.batch):
        own = part(trial, [column[start : start + trial.case.batch] for column in columns])
        for method in (model.train_on_batch, model.test_on_batch):
            found.append(method(*own, return_dict=True))
    return model, {"results": found}


def own_loop(trial: Trial) -> tuple[Any, Any]:
    """Runs a custom training loop with an optimizer of the program."""
    model, strategy = trial.make(), trial.strategy

    @tf.function  # type: ignore[untyped-decorator]
    def train(inputs: Any, targets: Any, count: Any) -> Any:
        def step(inputs: Any, targets: Any) -> None:
            with tf.GradientTape() as tape:
                each = tf.square(targets - model(inputs, training=True))
                loss = tf.reduce_sum(each) / count
            gradients = tape.gradient(loss, model.trainable_variables)
            pairs = zip(gradients, model.trainable_variables, strict=True)
            model.optimizer.apply_gradients(pairs)

        strategy.run(step, (inputs, targets))

    for batch in strategy.experimental_distribute_dataset(trial.data()):
        train(*batch, tf.constant(float(trial.case.batch)))
    return model, {}
