"""Programs whose workers diverge, each of which must end with an error that explains this.

    python -m tests.keras_3.parting_programs ANSWERS NAME …

Writes the error of each to the file ANSWERS as JSON, and the seconds until the error. A program
whose collectives are aborted must be the last. `helpers.keras_3` is imported unless PLAIN is set.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

if "PLAIN" not in os.environ:
    import helpers.keras_3  # noqa: F401

strategy = tf.distribute.MultiWorkerMirroredStrategy()
WORKERS = strategy.num_replicas_in_sync
INDEX = strategy.cluster_resolver.task_id or 0
LAST = INDEX == WORKERS - 1
X = np.random.default_rng(0).normal(size=(48, 3)).astype("float32")
Y = X.sum(1, keepdims=True)
DATA = {"x": X, "y": Y, "batch_size": 12, "shuffle": False, "verbose": 0}


def linear(*layers: Any) -> Any:
    """A compiled model with one Dense layer, in the scope."""
    with strategy.scope():
        model = layered(*layers)
        model.compile("sgd", "mse")
    return model


def layered(*layers: Any) -> Any:
    """The same, but not compiled, and in the scope of the caller."""
    return keras.Sequential([keras.layers.Input((3,)), *layers, keras.layers.Dense(1)])


class When(keras.callbacks.Callback):
    """Calls a function after a batch of the last worker."""

    def __init__(self, act: Callable[[Any], None], batch: int = 1, last: bool = True) -> None:
        super().__init__()
        self._act, self._batch, self._acts = act, batch, LAST or not last

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Acts at its batch."""
        if self._acts and batch == self._batch:
            self._act(self.model)


# 12


def weights_loaded_by_the_chief() -> None:
    """Only the first worker loads weights."""
    model = linear()
    if INDEX == 0:
        model.set_weights([weight + 1 for weight in model.get_weights()])
    model.fit(**DATA)


def learning_rate_of_one() -> None:
    """A callback of the last worker changes its learning rate."""

    def slow_down(model: Any) -> None:
        model.optimizer.learning_rate = 1e-5

    linear().fit(**DATA, epochs=3, callbacks=[When(slow_down)])


def state_without_aggregation() -> None:
    """A variable of a layer without aggregation, so that its values differ."""

    class Largest(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.most = keras.Variable(0.0, trainable=False, name="most", dtype="float32")

        def call(self, inputs: Any, training: bool = False) -> Any:
            if training:
                self.most.assign(keras.ops.maximum(self.most, keras.ops.max(inputs)))
            return inputs - self.most

    linear(Largest()).fit(**DATA, epochs=3)


def weights_changed_in_a_long_epoch() -> None:
    """Detected in the middle of an epoch of 1,200 steps."""

    def change(model: Any) -> None:
        model.layers[-1].bias.assign([9.0])

    x = np.zeros((2400, 3), "float32")
    linear().fit(x, x[:, :1], batch_size=2, verbose=0, callbacks=[When(change, 100)])


def epoch_of_a_backup() -> None:
    """Backups of the workers are at different epochs."""
    model = linear()
    model._initial_epoch = INDEX
    model.fit(**DATA, epochs=4)


# 13


def chief_alone_in_evaluate() -> None:
    """The first worker evaluates while the others continue to train."""
    model = linear()
    model.fit(**DATA)
    if INDEX == 0:
        model.evaluate(X, Y, verbose=0)
    model.fit(**DATA)


def chief_alone_in_predict() -> None:
    """The first worker predicts after the others have ended."""
    model = linear()
    model.fit(**DATA)
    if INDEX == 0:
        model.predict(X, verbose=0)


def one_stops_in_an_epoch() -> None:
    """A callback stops the last worker after its second step."""

    def stop(model: Any) -> None:
        model.stop_training = True

    linear().fit(**DATA, epochs=3, callbacks=[When(stop)])


def one_fails_in_an_epoch() -> None:
    """A callback of the last worker raises."""

    def fail(_model: Any) -> None:
        raise ValueError("no more room")

    linear().fit(**DATA, epochs=3, callbacks=[When(fail)])


def one_stops_on_endless_data() -> None:
    """The same with endless data, for which the iterators need not agree on the end."""

    def stop(model: Any) -> None:
        model.stop_training = True

    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(12).repeat()
    options = {"epochs": 2, "steps_per_epoch": 4, "verbose": 0}
    linear().fit(data, callbacks=[When(stop)], **options)


def evaluation_in_a_callback_of_the_chief() -> None:
    """Like programs that print from the first worker."""

    class Evaluate(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if INDEX == 0:
                self.model.evaluate(X, Y, verbose=0)

    linear().fit(**DATA, epochs=2, callbacks=[Evaluate()])


def different_epochs() -> None:
    """Each worker has its own `epochs`."""
    linear().fit(**DATA, epochs=2 + INDEX)


# 8, 11: values on which the workers cannot agree


def endless_on_one() -> None:
    """One worker repeats its dataset."""
    model = linear()
    part = tf.data.Dataset.from_tensor_slices((X, Y)).shard(WORKERS, INDEX).batch(4)
    part = part.repeat() if INDEX == 0 else part
    data = strategy.distribute_datasets_from_function(lambda _context: part)
    model.fit(data, steps_per_epoch=4, verbose=0)


def seeds_by_worker() -> None:
    """A seed for each worker, and arrays that are shuffled."""
    keras.utils.set_random_seed(INDEX)
    linear().fit(X, Y, batch_size=12, verbose=0)


# 14


def model_outside_of_the_scope() -> None:
    """Created and compiled outside the scope."""
    model = layered()
    model.compile("sgd", "mse")
    model.fit(**DATA)


def compiled_outside_of_the_scope() -> None:
    """Created inside the scope, compiled outside."""
    with strategy.scope():
        model = layered()
    model.compile("sgd", "mse")
    model.fit(**DATA)


def created_outside_compiled_inside() -> None:
    """Created outside the scope, compiled inside."""
    model = layered()
    with strategy.scope():
        model.compile("sgd", "mse")
    model.fit(**DATA)


def two_strategies() -> None:
    """The model of one strategy, the optimizer of another."""
    global strategy  # noqa: PLW0603
    with strategy.scope():
        model = layered()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model.compile(keras.optimizers.Adam(), "mse")
    model.fit(**DATA)


def loaded_outside_of_the_scope() -> None:
    """`load_model` outside the scope."""
    model = linear()
    model.fit(**DATA)
    path = f"{sys.argv[1]}.keras"
    model.save(path)
    keras.models.load_model(path).fit(**DATA)


def lost_at_an_epochs_end() -> None:
    """The last worker dies in a callback, between the steps of two epochs."""
    end_last_worker(signal.SIGKILL)


def frozen_at_an_epochs_end() -> None:
    """The last worker freezes there."""
    end_last_worker(signal.SIGSTOP)


def end_last_worker(number: int) -> None:
    def end(_epoch: int, _logs: Any) -> None:
        if LAST:
            os.kill(os.getpid(), number)

    linear().fit(**DATA, epochs=3, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=end)])


def main() -> None:
    """Runs the named programs."""
    path, answers = Path(sys.argv[1]), {}
    for name in sys.argv[2:]:
        start, error = time.monotonic(), ""
        try:
            globals()[name]()
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        answers[name] = {"error": error, "seconds": time.monotonic() - start}
        print(name, str(answers[name])[:1500], flush=True)
        path.write_text(json.dumps(answers), encoding="utf-8")
    if sys.argv[2:] == [frozen_at_an_epochs_end.__name__]:
        os._exit(1)  # with a code that also ends the frozen worker


if __name__ == "__main__":
    main()
