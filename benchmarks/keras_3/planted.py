"""Programs with one fault each, and the kind of fault that `helpers.compare` names.

    python -m benchmarks.keras_3.planted [NAME …]

Workers run without `helpers.keras_3`, because it repairs some of these faults. `let_keras_train`
has the minimum that Keras 3 needs to train on several workers. Prints a table. The exit code is 1
if more than one in ten is wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from helpers import compare
from helpers.compare import Cause, Comparison
from helpers.system.keras_version import FIX
from helpers.worker.context import WorkerContext

BATCH, EXAMPLES = 12, 48  # both divide by 2 and 3


def let_keras_train() -> None:
    """Replaces the two functions with which Keras 3 would fail before the first step."""
    import tensorflow as tf
    from keras.src import tree
    from keras.src.backend.tensorflow import trainer as trainers

    def symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self.distribute_strategy
        for *_steps, batches in iterator if iterator is not None else ():
            data_batch = tree.map_structure(
                lambda value: strategy.experimental_local_results(value)[0], next(batches)
            )
            break
        with strategy.scope():
            self._symbolic_build(data_batch=data_batch)

    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        return tree.map_structure(lambda v: strategy.reduce("MEAN", v, axis=None), values)

    trainers.TensorFlowTrainer._maybe_symbolic_build = symbolic_build
    trainers.reduce_per_replica = reduce_per_replica
    assert tf.distribute.MultiWorkerMirroredStrategy


def strategy() -> Any:
    """Creates the strategy of all programs."""
    import tensorflow as tf

    let_keras_train()
    return tf.distribute.MultiWorkerMirroredStrategy()


def pairs(examples: int = EXAMPLES) -> tuple[Any, Any]:
    """Features of shape [examples, 4], and labels."""
    import numpy as np

    x = np.random.default_rng(5).normal(size=(examples, 4)).astype("float32")
    return x, x.sum(axis=1, keepdims=True) + 1


def dense(*layers: Any) -> Any:
    """A small network that starts with these layers."""
    import keras

    rest = [keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((4,)), *layers, *rest])


def fit(model: Any, examples: int = EXAMPLES, **options: Any) -> None:
    """Trains two epochs in a fixed order."""
    settings = {"batch_size": BATCH, "epochs": 2, "shuffle": False, "verbose": 0, **options}
    model.fit(*pairs(examples), **settings)


def sound() -> None:
    """Has no fault."""
    import keras

    with strategy().scope():
        model = dense()
        model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    fit(model)
    model.evaluate(*pairs(), batch_size=BATCH, verbose=0)


def own_mean() -> None:
    """A loss that returns one number, which is not divided by the number of workers."""
    import keras

    with strategy().scope():
        model = dense()
        loss = lambda y, p: keras.ops.mean(keras.ops.square(y - p))  # noqa: E731
        model.compile(keras.optimizers.Adam(0.01), loss)
    fit(model)


def weighted_mean() -> None:
    """A mean with sample weights, where each worker uses only its own weights."""
    import keras
    import numpy as np

    with strategy().scope():
        model = dense()
        loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
        model.compile(keras.optimizers.SGD(0.05), loss)
    fit(model, sample_weight=np.random.default_rng(1).uniform(0.1, 3, EXAMPLES))


def last_example() -> None:
    """A last batch of one example, so that all workers but one have none."""
    import keras

    with strategy().scope():
        model = dense(keras.layers.ActivityRegularization(l2=0.01))
        model.compile(keras.optimizers.SGD(0.05), "mse")
    fit(model, EXAMPLES + 1)


def own_clipping() -> None:
    """Gradients that `train_step` clips before they are summed."""
    import keras
    import tensorflow as tf

    class Clipped(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.network = dense()

        def call(self, inputs: Any, training: bool = False) -> Any:
            return self.network(inputs, training=training)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
            gradients = tape.gradient(loss, self.trainable_variables)
            gradients, _norm = tf.clip_by_global_norm(gradients, 0.1)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss * tf.distribute.get_strategy().num_replicas_in_sync}

    with strategy().scope():
        model = Clipped()
        model.compile(keras.optimizers.SGD(0.05), "mse")
    fit(model)


def lost_results() -> None:
    """Several steps per execution. The data ends within an execution, so its results are lost."""
    import keras
    from keras.src.backend.tensorflow import trainer as trainers

    make = trainers.TensorFlowTrainer._make_function

    class OneStep:
        steps_per_execution = unrolled_steps_per_execution = 1

        def __init__(self, trainer: Any) -> None:
            self._trainer = trainer

        def __getattr__(self, name: str) -> Any:
            return getattr(self._trainer, name)

    def make_function(self: Any, step: Any) -> Any:
        if self.distribute_strategy.num_replicas_in_sync == 1:
            return make(self, step)
        one = make(OneStep(self), step)

        def function(iterator: Any) -> Any:
            for _step in range(self.steps_per_execution):
                logs = one(iterator)
            return logs

        return function

    with strategy().scope():
        trainers.TensorFlowTrainer._make_function = make_function
        model = dense()
        model.compile(keras.optimizers.SGD(0.05), "mse", steps_per_execution=8)
    fit(model)


def mean_of_scores() -> None:
    """A metric that is not a mean, in `train_on_batch`: R² of each worker's own part, averaged."""
    import keras

    with strategy().scope():
        model = dense()
        model.compile(keras.optimizers.SGD(0.05), "mse", metrics=[keras.metrics.R2Score()])
    x, y = pairs()
    for start in range(0, EXAMPLES, BATCH):
        part = slice(start, start + BATCH)
        model.train_on_batch(*whole(x[part], y[part]))


def whole(x: Any, y: Any) -> tuple[Any, Any]:
    """Returns this worker's part of a batch."""
    import json

    config = json.loads(os.environ["TF_CONFIG"])
    workers, index = len(config["cluster"]["worker"]), config["task"]["index"]
    return x[index::workers], y[index::workers]


def own_batches() -> None:
    """A dataset with equal batch sizes on all workers, so that a step has more examples."""
    import keras
    import tensorflow as tf

    group = strategy()
    with group.scope():
        model = dense()
        model.compile(keras.optimizers.SGD(0.05), "mse")
    data = tf.data.Dataset.from_tensor_slices(pairs())
    parts = lambda c: data.shard(c.num_input_pipelines, c.input_pipeline_id).batch(8)  # noqa: E731
    model.fit(group.distribute_datasets_from_function(parts), epochs=2, verbose=0)


def unseeded_shuffle() -> None:
    """`fit(x, y)` as in most programs: each worker shuffles for itself, then shards."""
    import keras

    with strategy().scope():
        model = dense()
        model.compile(keras.optimizers.SGD(0.05), "mse")
    fit(model, shuffle=True)


def layer_with_state() -> None:
    """A layer that keeps a mean of its inputs, separately in each worker."""
    import keras

    class Centre(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

        def call(self, inputs: Any, training: bool = False) -> Any:
            if training:
                self.mean.assign(0.5 * self.mean + 0.5 * keras.ops.mean(inputs, axis=0))
            return inputs - self.mean

    with strategy().scope():
        model = dense(Centre())
        model.compile(keras.optimizers.SGD(0.05), "mse")
    fit(model)


def chief_loads(context: WorkerContext) -> None:
    """Weights that only the chief loads."""
    import keras
    import numpy as np

    with strategy().scope():
        model = dense()
        model.compile(keras.optimizers.SGD(0.05), "mse")
    if context.config.task.index == 0:
        model.set_weights([np.full_like(weight, 0.1) for weight in model.get_weights()])
    fit(model)


def one_stops(context: WorkerContext) -> None:
    """A callback that stops one worker."""
    import keras

    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if context.config.task.index == 1:
                self.model.stop_training = True

    with strategy().scope():
        model = dense()
        model.compile(keras.optimizers.SGD(0.05), "mse")
    fit(model, callbacks=[Stop()])


def outside() -> None:
    """A model that is built and compiled outside the scope."""
    import keras

    strategy()
    model = dense()
    model.compile(keras.optimizers.SGD(0.05), "mse")
    fit(model)


@dataclass(frozen=True)
class Planted:
    """A program, and the kind of its fault, which is None for a program without a fault."""

    program: Callable[..., None]
    cause: Cause | None


PROGRAMS = (
    Planted(sound, None),
    Planted(own_mean, Cause.LOSS_SCALE),
    Planted(weighted_mean, Cause.PARTIAL_MEANS),
    Planted(last_example, Cause.EMPTY_PART),
    Planted(own_clipping, Cause.LOCAL_GRADIENTS),
    Planted(lost_results, Cause.STEPS_PER_EXECUTION),
    Planted(mean_of_scores, Cause.METRICS),
    Planted(own_batches, Cause.DATASET_LENGTH),
    Planted(unseeded_shuffle, Cause.ORDER),
    Planted(layer_with_state, Cause.STATE),
    Planted(chief_loads, Cause.STATE),
    Planted(one_stops, Cause.CONTROL_FLOW),
    Planted(outside, Cause.SCOPE),
)


def run(planted: Planted, workers: Iterable[int] = (1, 2)) -> tuple[Comparison, bool]:
    """Compares a program on these group sizes. Returns whether each has the right kind of fault."""
    before = os.environ.get(FIX)
    os.environ[FIX] = "0"
    try:
        result = compare(planted.program, tuple(workers), timeout=40)
    finally:
        os.environ.pop(FIX) if before is None else os.environ.update({FIX: before})
    causes = {diagnosis.cause for diagnosis in result.diagnoses.values()}
    right = result.equal if planted.cause is None else causes == {planted.cause}
    return result, right


def main(names: list[str]) -> int:
    """Runs the program and returns its exit code."""
    chosen = [one for one in PROGRAMS if not names or one.program.__name__ in names]
    wrong = 0
    print("| program | fault | diagnosis | evidence | right |\n|---|---|---|---|---|")
    for planted in chosen:
        result, right = run(planted, (1, 2, 3))
        wrong += not right
        found = {d.cause.value: d.evidence for d in result.diagnoses.values()}
        cells = [
            planted.program.__name__,
            planted.cause.value if planted.cause else "–",
            ", ".join(found) or "–",
            next(iter(found.values()), repr(result)),
            "yes" if right else "no",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
        if names:
            print(result)
    print(f"{len(chosen) - wrong} of {len(chosen)} are right")
    return int(10 * wrong > len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
