"""Cases of the table in which the workers' data, order, state or control flow may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.keras_3 import models
from benchmarks.keras_3.trial import BATCH, EPOCHS, Case, Trial
from benchmarks.keras_3.verdict import AGREE

Trained = tuple[Any, Any]
QUIET: dict[str, Any] = {"epochs": EPOCHS, "verbose": 0}
SHARDED_EXAMPLES, SHARDED_BATCH = 480, 48  # both divide by 2 and 3


def dataset() -> Any:
    """The examples, one by one."""
    return tf.data.Dataset.from_tensor_slices(models.pairs())


def sharded(trial: Trial, examples: int = SHARDED_EXAMPLES) -> Any:
    """This worker's own part of the examples."""
    return dataset().take(examples).shard(trial.workers, trial.index)


def trained(trial: Trial, data: Any, **options: Any) -> Trained:
    """Returns a model that was trained on `data`."""
    model = trial.make()
    return model, model.fit(data, **QUIET | options).history


def with_sharding_off(trial: Trial) -> Trained:
    """The program shards the data itself, in batches of the global size."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return trained(trial, sharded(trial).batch(SHARDED_BATCH).with_options(options))


def with_a_function(trial: Trial) -> Trained:
    """Each worker creates its dataset, and one of them has one batch more than the others."""

    def make(context: Any) -> Any:
        share = context.get_per_replica_batch_size(SHARDED_BATCH)
        return sharded(trial, SHARDED_EXAMPLES - SHARDED_BATCH + 1).batch(share)

    return trained(trial, trial.strategy.distribute_datasets_from_function(make))


def batches() -> Iterator[Any]:
    """Yields slices of the arrays, once."""
    inputs, targets = models.pairs()
    for low in range(0, len(inputs), BATCH):
        yield inputs[low : low + BATCH], targets[low : low + BATCH]


def with_a_generator(trial: Trial) -> Trained:
    """A generator, which can be read only once."""
    return trained(trial, batches(), epochs=1)


def with_a_dataset_read_once(trial: Trial) -> Trained:
    """A dataset of such a generator."""
    once, kinds = batches(), [(None, 10), (None, 1)]
    signature = tuple(tf.TensorSpec(shape, tf.float32) for shape in kinds)
    data = tf.data.Dataset.from_generator(lambda: once, output_signature=signature)
    return trained(trial, data, epochs=1)


def with_a_py_dataset(trial: Trial) -> Trained:
    """A PyDataset, whose arrays must remain unchanged."""
    inputs, targets = models.pairs()
    kept = inputs.copy(), targets.copy()

    class Batches(keras.utils.PyDataset):
        num_batches = len(inputs) // BATCH

        def __getitem__(self, number: int) -> Any:
            part = slice(number * BATCH, (number + 1) * BATCH)
            return inputs[part], targets[part]

    model, history = trained(trial, Batches(), shuffle=False)
    assert np.array_equal(inputs, kept[0]) and np.array_equal(targets, kept[1])
    return model, history


def without_a_seed(trial: Trial) -> Trained:
    """Shuffled arrays. Together, the workers see each example once in an epoch."""
    tf.random.set_seed(None)
    inputs, targets = models.pairs()
    seen = np.zeros(len(inputs))

    def note(indices: Any) -> Any:
        np.add.at(seen, indices[:, 0].astype(int), 1)
        return indices

    class Note(keras.layers.Layer):
        def call(self, indices: Any) -> Any:
            return tf.ensure_shape(tf.numpy_function(note, [indices], tf.float32), indices.shape)

    numbers = np.arange(len(inputs), dtype="float32")[:, None]
    with trial.strategy.scope():
        model = keras.Sequential([keras.layers.Input((1,)), Note(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e-9), "mse")
    history = model.fit(numbers, targets, batch_size=BATCH, **QUIET).history
    together = trial.strategy.reduce("SUM", tf.constant(seen), axis=None).numpy()
    assert (together == EPOCHS).all(), together
    return model, history


class Centre(keras.layers.Layer):
    """Subtracts a moving mean."""

    def build(self, shape: Any) -> None:
        """Creates the state."""
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Maps [batch, n] to [batch, n]."""
        if training:
            self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(inputs, axis=0))
        return inputs - self.mean


def stopped_by_one(trial: Trial) -> Trained:
    """The last worker stops after its second epoch."""

    class Limit(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if trial.index == trial.workers - 1 and epoch == 1:
                self.model.stop_training = True

    return trained(trial, trial.data(), callbacks=[Limit()])


def loaded_by_the_chief(trial: Trial) -> Trained:
    """Only the first worker has other weights."""
    model = trial.make()
    if trial.is_chief:
        model.set_weights([weight + 1 for weight in model.get_weights()])
    return model, trial.fit(model).history


def outside_of_the_scope(trial: Trial) -> Trained:
    """A model outside the scope of any strategy."""
    model = trial.case.model()
    model.compile("sgd", "mse")
    return model, trial.fit(model).history


def compiled_outside(trial: Trial) -> Trained:
    """The optimizer is created outside the scope."""
    with trial.strategy.scope():
        model = trial.case.model()
    model.compile("sgd", "mse")
    return model, trial.fit(model).history


def evaluated_by_the_chief(trial: Trial) -> Trained:
    """The first worker evaluates while the others train."""
    model = trial.make()
    if trial.is_chief:
        model.evaluate(trial.data(), verbose=0)
    return model, trial.fit(model).history


def epochs_by_worker(trial: Trial) -> Trained:
    """Each worker has its own number of epochs."""
    return trained(trial, trial.data(), epochs=1 + trial.index)


def data_cases() -> dict[str, Case]:
    """Returns the cases by name, like `cases.cases`."""
    group = "Data, order and state that may differ by worker"
    centred: Callable[[], Any] = models.with_layer(2, Centre)
    return {
        "auto-sharding off, sharded by the program": Case(group, train=with_sharding_off),
        "`distribute_datasets_from_function`, unequal parts": Case(group, train=with_a_function),
        "a generator": Case(group, train=with_a_generator),
        "a dataset that is read once": Case(group, train=with_a_dataset_read_once),
        "a PyDataset of slices": Case(group, train=with_a_py_dataset),
        "arrays shuffled without a seed": Case(group, train=without_a_seed, claim=AGREE),
        "state in a layer": Case(group, centred),
        "`stop_training` on one worker": Case(group, train=stopped_by_one),
        "weights loaded by the chief only": Case(
            group, train=loaded_by_the_chief, refused="The workers have different weights"
        ),
        "a model outside of the scope": Case(
            group, train=outside_of_the_scope, refused="would train on each worker alone"
        ),
        "`compile` outside of the scope": Case(
            group, train=compiled_outside, refused="was created outside of strategy.scope()"
        ),
        "`evaluate` by the chief alone": Case(
            group, train=evaluated_by_the_chief, refused="The workers' programs have diverged"
        ),
        "`epochs` that differs": Case(
            group, train=epochs_by_worker, refused="epochs differs between workers"
        ),
    }
