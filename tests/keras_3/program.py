"""Trains small Keras 3 models under MultiWorkerMirroredStrategy, as one worker of `TF_CONFIG`.

    python -m tests.keras_3.program ANSWERS [CASE …]

Writes to the file ANSWERS, as JSON, for each case, or those named, what came of it: losses and
metrics, weights, evaluation and predictions; or how it failed. Every case starts from the same
weights and data.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import helpers.keras_3  # noqa: F401

EXAMPLES, BATCH = 512, 64
Layers = list[Any]


def plain_layers() -> Layers:
    """A network from [10] to [1]."""
    layers = keras.layers
    return [layers.Input((10,)), layers.Dense(8, activation="relu"), layers.Dense(1)]


def sequential() -> Any:
    """As most programs have it."""
    return keras.Sequential(plain_layers())


def unbuilt() -> Any:
    """Keras learns its shape from the first batch."""
    return keras.Sequential(plain_layers()[1:])


def functional() -> Any:
    """With two inputs and two outputs."""
    layers = keras.layers
    left, right = layers.Input((10,), name="left"), layers.Input((10,), name="right")
    body = layers.Dense(8, activation="relu")(layers.Concatenate()([left, right]))
    outputs = {name: layers.Dense(1, name=name)(body) for name in ("up", "down")}
    return keras.Model({"left": left, "right": right}, outputs)


class Subclassed(keras.Model):
    """With a `call` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = plain_layers()[1:]

    def call(self, inputs: Any) -> Any:
        """[batch, 10] to [batch, 1]."""
        return self.outer(self.inner(inputs))


class OwnStep(keras.Sequential):
    """With a `train_step` of its own."""

    def train_step(self, data: Any) -> Any:
        """One step, in which the loss counts twice."""
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


def with_layer(place: int, make: Callable[[], Any]) -> Callable[[], Any]:
    """The plain network with one layer more."""

    def model() -> Any:
        layers = plain_layers()
        layers.insert(place, make())
        return keras.Sequential(layers)

    return model


def with_first(**options: Any) -> Callable[[], Any]:
    """The plain network, its first Dense with other options."""

    def model() -> Any:
        layers = plain_layers()
        layers[1] = keras.layers.Dense(8, activation="relu", **options)
        return keras.Sequential(layers)

    return model


@dataclass(frozen=True)
class Case:
    """What is trained, on what, and how."""

    model: Callable[[], Any] = sequential
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.05)
    compile: dict[str, Any] = field(default_factory=lambda: {"loss": "mse", "metrics": ["mae"]})
    fit: Callable[[], dict[str, Any]] = dict
    columns: Callable[[], Any] = lambda: numbers()[:2]
    examples: int = EXAMPLES
    policy: str = "float32"
    arrays: bool = False
    distributed: bool = False


def numbers() -> tuple[Any, Any, Any]:
    """Inputs [512, 10], targets [512, 1], weights [512]."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=(EXAMPLES, 10)).astype("float32")
    weights = chance.uniform(0.5, 1.5, size=EXAMPLES).astype("float32")
    return x, x.sum(1, keepdims=True), weights


def two_by_two() -> Any:
    """Two inputs, two targets."""
    x, y, _weights = numbers()
    return {"left": x, "right": -x}, {"up": y, "down": y * y}


def classes() -> Any:
    """Inputs and the numbers of two classes."""
    x, y, _weights = numbers()
    return x, (y > 0).astype("int64")


def infinite() -> Any:
    """Inputs and targets; what reads the first example has no finite gradient."""
    x, y, _weights = numbers()
    x[0] = np.inf
    return x, y


def by(name: str, rate: float = 0.05, **options: Any) -> Callable[[], Any]:
    """Makes an optimizer."""
    return lambda: getattr(keras.optimizers, name)(rate, **options)


def dataset(case: Case) -> Any:
    """Batches, of which each worker takes its share."""
    columns = keras.tree.map_structure(lambda array: array[: case.examples], case.columns())
    return as_shared(columns)


def as_shared(columns: Any) -> Any:
    """A dataset whose batches are dealt out example by example."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return tf.data.Dataset.from_tensor_slices(columns).batch(BATCH).with_options(options)


def cases() -> dict[str, Case]:
    """By name. Call it when there is a strategy: Keras may compute something for its metrics."""
    logistic = {"loss": keras.losses.BinaryCrossentropy(from_logits=True), "metrics": ["accuracy"]}
    two_losses = {"loss": {"up": "mse", "down": "mae"}, "loss_weights": {"up": 1.0, "down": 0.5}}
    return {
        "Sequential": Case(),
        "a model that is not built": Case(unbuilt),
        "functional, two inputs and outputs": Case(
            functional, compile=two_losses, columns=two_by_two
        ),
        "subclassed": Case(Subclassed),
        "a train_step of one's own": Case(lambda: OwnStep(plain_layers()), by("SGD", 0.01)),
        "NumPy arrays": Case(arrays=True),
        "a distributed dataset": Case(distributed=True),
        "an uneven last batch": Case(examples=480),
        "steps_per_epoch": Case(fit=lambda: {"steps_per_epoch": 5}),
        "validation_data": Case(fit=lambda: {"validation_data": as_shared(numbers()[:2])}),
        "sample weights": Case(columns=numbers),
        "class weights": Case(
            compile=logistic, columns=classes, fit=lambda: {"class_weight": {0: 1.0, 1: 3.0}}
        ),
        "metrics with state": Case(
            compile={**logistic, "metrics": [keras.metrics.AUC(from_logits=True), "accuracy"]},
            columns=classes,
        ),
        "BatchNormalization, synchronized": Case(
            with_layer(2, lambda: keras.layers.BatchNormalization(synchronized=True))
        ),
        "a regularizer": Case(with_first(kernel_regularizer="l2")),
        "a constraint": Case(with_first(kernel_constraint=keras.constraints.MaxNorm(0.5))),
        "SGD with momentum": Case(optimizer=by("SGD", 0.02, momentum=0.9, nesterov=True)),
        "Adam": Case(optimizer=by("Adam", 0.01)),
        "AdamW": Case(optimizer=by("AdamW", 0.01, weight_decay=0.1)),
        "RMSprop": Case(optimizer=by("RMSprop", 0.01)),
        "a learning rate schedule": Case(
            optimizer=lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5)
            )
        ),
        "clipnorm": Case(optimizer=by("SGD", clipnorm=0.3)),
        "clipvalue": Case(optimizer=by("SGD", clipvalue=0.1)),
        "global_clipnorm": Case(optimizer=by("SGD", global_clipnorm=0.5)),
        "use_ema": Case(optimizer=by("SGD", use_ema=True, ema_momentum=0.9)),
        "use_ema that overwrites": Case(
            optimizer=by("SGD", use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4)
        ),
        "gradient_accumulation_steps": Case(optimizer=by("SGD", gradient_accumulation_steps=4)),
        "accumulated, and clipped": Case(
            optimizer=by("Adam", 0.01, gradient_accumulation_steps=2, global_clipnorm=0.5)
        ),
        "mixed precision": Case(
            optimizer=lambda: keras.optimizers.LossScaleOptimizer(
                keras.optimizers.SGD(0.05), initial_scale=256.0
            ),
            policy="mixed_float16",
        ),
        "loss scaling": Case(
            optimizer=lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05))
        ),
        "loss scaling, an infinite example": Case(
            optimizer=lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05)),
            columns=infinite,
        ),
        "steps_per_execution": Case(
            compile={"loss": "mse", "metrics": ["mae"], "steps_per_execution": 3}
        ),
        "EarlyStopping": Case(
            fit=lambda: {"callbacks": [keras.callbacks.EarlyStopping("mae", min_delta=10)]}
        ),
        "LearningRateScheduler": Case(
            fit=lambda: {
                "callbacks": [
                    keras.callbacks.LearningRateScheduler(lambda epoch: 0.05 / (epoch + 1))
                ]
            }
        ),
        "jit_compile": Case(compile={"loss": "mse", "jit_compile": True}),
    }


def run(case: Case, strategy: Any) -> Any:
    """What came of a case."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(case.policy)
    with strategy.scope():
        model = case.model()
        options = dict(case.compile)
        if "metrics" in options:
            options["metrics"] = [fresh(metric) for metric in options["metrics"]]
        model.compile(optimizer=case.optimizer(), **options)
    data: Any = dataset(case)
    batches = data.repeat() if "steps_per_epoch" in case.fit() else data
    if case.distributed:
        batches = strategy.experimental_distribute_dataset(batches)
    given: Any = {"x": batches}
    if case.arrays:
        given = dict(zip("xy", case.columns(), strict=True), batch_size=BATCH, shuffle=False)
    history = model.fit(**given, epochs=3, verbose=0, **case.fit()).history
    inputs = data.map(lambda x, *rest: x)
    return plain(
        {
            "history": history,
            "weights": model.get_weights(),
            "evaluate": model.evaluate(data, verbose=0, return_dict=True),
            "predict": model.predict(inputs, verbose=0),
        }
    )


def fresh(metric: Any) -> Any:
    """A metric without the state, and the strategy, of the case before."""
    return metric if isinstance(metric, str) else type(metric).from_config(metric.get_config())


def plain(value: Any) -> Any:
    """As JSON takes it."""
    return keras.tree.map_structure(lambda leaf: np.asarray(leaf, "float64").tolist(), value)


def main() -> None:
    """Does every case in turn."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    answers: dict[str, Any] = {}
    wanted = sys.argv[2:]
    for name, case in cases().items():
        if wanted and name not in wanted:
            continue
        try:
            answers[name] = run(case, strategy)
        except Exception as error:
            answers[name] = f"{type(error).__name__}: {error}"
    path = Path(sys.argv[1])
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(answers, file)
    Path(file.name).rename(path)


if __name__ == "__main__":
    main()
