"""Programs whose data, state or example order led to different numbers on several workers.

    python -m tests.keras_3.data_programs ANSWERS [NAME …]

Writes the result of each, with its warnings, to the file ANSWERS as JSON. None of them names the
package. `helpers.keras_3` is imported here, unless PLAIN is set.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

if "PLAIN" not in os.environ:
    import helpers.keras_3  # noqa: F401

Answer = dict[str, Any]
OFF = tf.data.experimental.AutoShardPolicy.OFF

_untuned = tf.data.Options()  # otherwise, deleting an iterator waits for the thread that tunes it
_untuned.autotune.enabled = False
_iterators: Any = importlib.import_module("tensorflow.python.data.ops.multi_device_iterator_ops")
_create = _iterators._create_device_dataset
_iterators._create_device_dataset = lambda *a: _create(*a).with_options(_untuned)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
WORKERS = strategy.num_replicas_in_sync
INDEX = strategy.cluster_resolver.task_id or 0


def numbers(rows: int = 48, columns: int = 3) -> Any:
    """Inputs and targets, the same on all workers."""
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype("float32")
    return x, x.sum(1, keepdims=True)


def linear(columns: int = 3, *layers: Any, rate: float = 0.05, **options: Any) -> Any:
    """A model with one Dense layer, in the scope."""
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Input((columns,)),
                *layers,
                keras.layers.Dense(1, kernel_initializer="zeros"),
            ]
        )
        model.compile(keras.optimizers.SGD(rate), "mse", **options)
    return model


def learned(model: Any, history: Any = None) -> Answer:
    """Weights, steps and losses."""
    weights = [weight.tolist() for weight in model.get_weights()]
    answer = {"weights": weights, "steps": int(np.asarray(model.optimizer.iterations))}
    if history is not None:
        answer["loss"] = [float(value) for value in history.history["loss"]]
    return answer


def off(dataset: Any) -> Any:
    """Disables auto-sharding."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = OFF
    return dataset.with_options(options)


class Look(keras.layers.Layer):
    """Records the first column of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def call(self, inputs: Any) -> Any:
        """Passes its inputs through."""

        def note(values: Any) -> Any:
            self.seen.extend(int(value) for value in values[:, 0])
            return values

        return tf.ensure_shape(tf.numpy_function(note, [inputs], tf.float32), inputs.shape)


def seen_times(look: Look, examples: int) -> list[int]:
    """How often all workers together saw each example."""
    times = np.zeros(examples)
    np.add.at(times, look.seen, 1)
    if WORKERS > 1:
        times = strategy.reduce("SUM", tf.constant(times), axis=None).numpy()
    return [int(value) for value in times]


# 8: different lengths


def shards_from_a_function() -> Answer:
    """49 examples, so the first worker has one batch more."""
    x, y = numbers(49)
    whole = tf.data.Dataset.from_tensor_slices((x, y))
    model = linear()
    data = strategy.distribute_datasets_from_function(
        lambda c: whole.shard(c.num_input_pipelines, c.input_pipeline_id).batch(
            c.get_per_replica_batch_size(24)
        )
    )
    history = model.fit(data, epochs=2, verbose=0)
    return learned(model, history) | {"evaluate": float(model.evaluate(data, verbose=0))}


def shards_of_ones_own() -> Answer:
    """Manual sharding, with auto-sharding off. Each worker's batch is still the global one."""
    x, y = numbers(48)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shard(WORKERS, INDEX).batch(12)
    model = linear()
    return learned(model, model.fit(off(data), epochs=2, verbose=0))


def uneven_shards_of_ones_own() -> Answer:
    """The same with 50 examples: one worker has more, all see everything."""
    look = Look()
    x = np.arange(50, dtype="float32")[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, x / 50)).shard(WORKERS, INDEX).batch(12)
    model = linear(1, look, rate=0.0)
    model.fit(off(data), verbose=0)
    return {"seen": seen_times(look, 50)}


def parts_of_very_unequal_length() -> Answer:
    """The first worker has 40 of 48 examples, in datasets of unknown length on the others."""
    look = Look()
    x = np.arange(48, dtype="float32")[:, None]
    bounds = [0, 40, *(range(44, 44 + 4 * (WORKERS - 2), 4) if WORKERS > 2 else ()), 48]
    low, high = (0, 48) if WORKERS == 1 else bounds[INDEX : INDEX + 2]
    part = tf.data.Dataset.from_tensor_slices((x[low:high], x[low:high] / 48))
    if INDEX:
        part = part.filter(lambda _x, _y: True)
    model = linear(1, look, rate=0.0)
    data = strategy.distribute_datasets_from_function(lambda _context: part.batch(4))
    model.fit(data, epochs=2, verbose=0)
    return {"seen": seen_times(look, 48)}


def steps_by_ones_own_length() -> Answer:
    """`steps_per_epoch` from the length of a worker's own part."""
    x, y = numbers(50)
    part = tf.data.Dataset.from_tensor_slices((x, y)).shard(WORKERS, INDEX)
    steps = len(x[INDEX::WORKERS]) // 5 + INDEX
    model = linear()
    data = strategy.distribute_datasets_from_function(lambda _context: part.repeat().batch(5))
    history = model.fit(data, epochs=2, steps_per_epoch=steps, verbose=0)
    return learned(model, history)


# 9: data that can be read only once


def batches(rows: int = 120, size: int = 12) -> Iterator[Any]:
    """A generator of batches."""
    x, y = numbers(rows)
    for low in range(0, rows, size):
        yield x[low : low + size], y[low : low + size]


def generator() -> Answer:
    """A generator given to `fit`."""
    model = linear()
    return learned(model, model.fit(batches(), verbose=0))


def generator_in_two_epochs() -> Answer:
    """An epoch uses half of it. Validation has a generator too."""
    model = linear()
    history = model.fit(
        batches(), epochs=2, steps_per_epoch=5, verbose=0, validation_data=batches(24)
    )
    return learned(model, history) | {"val": float(history.history["val_loss"][0])}


def dataset_of_a_generator() -> Answer:
    """A dataset whose generator is exhausted after one pass. The model is built by `fit`."""
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    once = batches()
    spec = tf.TensorSpec((None, 3), tf.float32), tf.TensorSpec((None, 1), tf.float32)
    data = tf.data.Dataset.from_generator(lambda: once, output_signature=spec)
    return learned(model, model.fit(data, verbose=0))


# 10: arrays that are yielded in parts


def aligned(rows: int, columns: int) -> Any:
    """An array at an address that is divisible by 64, like NumPy's large arrays."""
    raw = np.zeros(rows * columns + 16, "float32")
    start = (-raw.ctypes.data % 64) // 4
    return raw[start : start + rows * columns].reshape(rows, columns)


def own_arrays() -> Any:
    """Inputs and targets at such addresses, and copies."""
    x, y = aligned(192, 4), aligned(192, 1)
    x[:] = np.random.default_rng(0).normal(size=x.shape)
    y[:] = x.sum(1, keepdims=True)
    return x, y, x.copy(), y.copy()


def kept(model: Any, arrays: Any) -> Answer:
    """Whether the arrays are unchanged."""
    x, y, old_x, old_y = arrays
    changed = int((x != old_x).sum() + (y != old_y).sum())
    return learned(model) | {"changed": changed}


def py_dataset_of_slices() -> Answer:
    """Batches that are slices of the program's own arrays."""
    x, y, *_old = arrays = own_arrays()

    class Batches(keras.utils.PyDataset):
        num_batches = 4

        def __getitem__(self, number: int) -> Any:
            return x[48 * number : 48 * number + 48], y[48 * number : 48 * number + 48]

    model = linear(4)
    model.fit(Batches(), epochs=2, shuffle=False, verbose=0)
    return kept(model, arrays)


def generator_of_slices() -> Answer:
    """The same from a generator, which restarts endlessly."""
    x, y, *_old = arrays = own_arrays()

    def forever() -> Iterator[Any]:
        while True:
            for low in range(0, 192, 48):
                yield x[low : low + 48], y[low : low + 48]

    model = linear(4)
    model.fit(forever(), steps_per_epoch=4, epochs=2, verbose=0)
    return kept(model, arrays)


def function_of_slices() -> Answer:
    """A dataset that slices with `numpy_function`, in a custom loop over the batches."""
    x, y, *_old = arrays = own_arrays()

    def take(low: Any) -> Any:
        return x[low : low + 48], y[low : low + 48]

    def batch(low: Any) -> Any:
        inputs, targets = tf.numpy_function(take, [low], (tf.float32, tf.float32))
        return tf.ensure_shape(inputs, (None, 4)), tf.ensure_shape(targets, (None, 1))

    model = linear(4)
    model.fit(tf.data.Dataset.range(0, 192, 48).map(batch), epochs=2, verbose=0)
    return kept(model, arrays)


# 11: shuffling without a seed


def shuffled_arrays() -> Answer:
    """`fit(x, y)`."""
    look = Look()
    x = np.arange(100, dtype="float32")[:, None]
    model = linear(1, look, rate=0.0)
    model.fit(x, x / 100, batch_size=20, epochs=1, verbose=0)
    first = list(look.seen)
    model.fit(x, x / 100, batch_size=20, epochs=2, verbose=0)
    orders = [first, look.seen[len(first) :][: len(first)], look.seen[2 * len(first) :]]
    new = len({tuple(order) for order in orders}) == 3
    return {"seen": seen_times(look, 100), "each epoch has an order of its own": new}


def shuffled_py_dataset() -> Answer:
    """Batches in random order, also with threads."""
    x = np.arange(120, dtype="float32")[:, None]

    class Batches(keras.utils.PyDataset):
        num_batches = 10

        def __getitem__(self, number: int) -> Any:
            part = x[12 * number : 12 * number + 12]
            return part, part / 120

    answer = {}
    random.seed(INDEX)
    for threads in (1, 2):
        look = Look()
        model = linear(1, look, rate=0.0)
        model.fit(Batches(workers=threads), epochs=3, verbose=0)
        answer[f"{threads} threads"] = seen_times(look, 120)
    return answer


def shuffled_dataset() -> Answer:
    """A dataset's own shuffle, before and after `repeat`, and in a custom loop."""
    x = np.arange(64, dtype="float32")[:, None]
    data = tf.data.Dataset.from_tensor_slices((x, x / 64))
    answer = {}
    looks = [Look() for _ in range(3)]
    linear(1, looks[0], rate=0.0).fit(data.shuffle(64).batch(16), epochs=2, verbose=0)
    linear(1, looks[1], rate=0.0).fit(
        data.shuffle(64).repeat().batch(16).prefetch(2), epochs=2, steps_per_epoch=4, verbose=0
    )
    for inputs, _targets in strategy.experimental_distribute_dataset(
        data.map(lambda a, b: (a, b)).shuffle(32).shuffle(16).batch(16)
    ):
        local = strategy.experimental_local_results(inputs)[0]
        looks[2].seen.extend(int(value) for value in local[:, 0])
    for name, look in zip(("shuffle", "repeat", "loop"), looks, strict=True):
        answer[name] = seen_times(look, 64)
    return answer


def seeded_arrays() -> Answer:
    """With a seed, the results equal the results of one worker."""
    keras.utils.set_random_seed(3)
    x, y = numbers(48)
    model = linear()
    history = model.fit(x, y, batch_size=12, epochs=3, verbose=0)
    return learned(model, history)


# 12: state


class Centre(keras.layers.Layer):
    """Subtracts a moving mean."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options

    def build(self, shape: Any) -> None:
        """Creates the state."""
        self.mean = self.add_weight(
            shape=(shape[-1],), initializer="zeros", trainable=False, name="mean", **self._options
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Updates it during training."""
        if training:
            self.mean.assign(0.5 * self.mean + 0.5 * keras.ops.mean(inputs, axis=0))
        return inputs - self.mean


class Counts(keras.layers.Layer):
    """Counts steps."""

    def build(self, shape: Any) -> None:
        """Creates the state."""
        self.count = self.add_weight(
            shape=(), initializer="zeros", trainable=False, dtype="int32", name="count"
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Updates it during training."""
        if training:
            self.count.assign_add(1)
        return inputs * keras.ops.cast(self.count, "float32") / 10


def moving_mean() -> Answer:
    """State that is a mean."""
    x = np.arange(48, dtype="float32")[:, None] / 48
    model = linear(1, Centre())
    history = model.fit(x, x, batch_size=12, epochs=3, shuffle=False, verbose=0)
    return learned(model, history) | {"evaluate": float(model.evaluate(x, x, verbose=0))}


def moving_mean_of_uneven_parts() -> Answer:
    """The same with batches that no group size divides. The last one has one example."""
    x = np.arange(45, dtype="float32")[:, None] / 48
    model = linear(1, Centre())
    return learned(model, model.fit(x, x, batch_size=11, epochs=2, shuffle=False, verbose=0))


def counted_steps() -> Answer:
    """State that is a count."""
    x = np.arange(48, dtype="float32")[:, None] / 48
    model = linear(1, Counts())
    return learned(model, model.fit(x, x, batch_size=12, epochs=2, shuffle=False, verbose=0))


def stated_aggregation() -> Answer:
    """State whose aggregation is set by the reader."""
    x = np.arange(48, dtype="float32")[:, None] / 48
    model = linear(1, Centre(aggregation="mean"))
    return learned(model, model.fit(x, x, batch_size=12, epochs=2, shuffle=False, verbose=0))


def own_statistics() -> Answer:
    """BatchNormalization that is not synchronized."""
    x, y = numbers()
    model = linear(3, keras.layers.BatchNormalization())
    return learned(model, model.fit(x, y, batch_size=12, epochs=2, shuffle=False, verbose=0))


# 13: a callback that stops one worker


def one_stops_at_an_epochs_end() -> Answer:
    """The last worker sets `stop_training`: all stop."""

    class Limit(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if INDEX == WORKERS - 1 and epoch == 1:
                self.model.stop_training = True

    x, y = numbers()
    model = linear()
    options = {"batch_size": 12, "epochs": 5, "shuffle": False, "verbose": 0}
    return learned(model, model.fit(x, y, callbacks=[Limit()], **options))


def all_stop_in_an_epoch() -> Answer:
    """All set it at the same step."""

    class Limit(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 1

    x, y = numbers()
    model = linear()
    options = {"batch_size": 12, "epochs": 5, "shuffle": False, "verbose": 0}
    return learned(model, model.fit(x, y, callbacks=[Limit()], **options))


PROGRAMS: dict[str, Callable[[], Answer]] = {
    function.__name__: function
    for function in (
        shards_from_a_function,
        shards_of_ones_own,
        uneven_shards_of_ones_own,
        parts_of_very_unequal_length,
        steps_by_ones_own_length,
        generator,
        generator_in_two_epochs,
        dataset_of_a_generator,
        py_dataset_of_slices,
        generator_of_slices,
        function_of_slices,
        shuffled_arrays,
        shuffled_py_dataset,
        shuffled_dataset,
        moving_mean,
        moving_mean_of_uneven_parts,
        counted_steps,
        stated_aggregation,
        own_statistics,
        one_stops_at_an_epochs_end,
        all_stop_in_an_epoch,
        seeded_arrays,  # must be last, because it sets a seed
    )
}


def main() -> None:
    """Runs every program in turn."""
    path, names = Path(sys.argv[1]), sys.argv[2:] or list(PROGRAMS)
    answers = {}
    for name in names:
        print(name, flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answers[name] = PROGRAMS[name]()
            except Exception as error:
                answers[name] = {"error": f"{type(error).__name__}: {error}"[:1000]}
        answers[name]["warnings"] = [
            str(w.message) for w in caught if issubclass(w.category, UserWarning)
        ]
        print("  ", str(answers[name])[:600], flush=True)
    path.write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main()
