"""Features of Keras 3 on several workers, each a case of the table."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras

from benchmarks.keras_3 import models, training_modes
from benchmarks.keras_3.trial import Case, Options
from benchmarks.keras_3.verdict import AGREE


def by(name: str, rate: float = 0.05, **options: Any) -> Callable[[], Any]:
    """Returns a function that creates an optimizer."""
    return lambda: getattr(keras.optimizers, name)(rate, **options)


def scaled(**options: Any) -> Callable[[], Any]:
    """Creates SGD with loss scaling."""
    return lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05), **options)


def logistic(**more: Any) -> Callable[[], Options]:
    """Options of `compile` for two classes."""
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    return lambda: {"loss": loss, "metrics": ["accuracy"]} | more


def with_area() -> Options:
    """Options for two classes, with a stateful metric: a new one for each model."""
    return logistic(metrics=[keras.metrics.AUC(from_logits=True), "accuracy"])()


def regression(**more: Any) -> Callable[[], Options]:
    """Options of `compile` for a regression."""
    return lambda: {"loss": "mse", "metrics": ["mae"]} | more


def two_losses() -> Options:
    """Options of `compile` for two outputs."""
    return {"loss": {"up": "mse", "down": "mae"}, "loss_weights": {"up": 1.0, "down": 0.5}}


def watched(*makers: Callable[[Path], Any]) -> Callable[[Path], Options]:
    """Options of `fit`: callbacks, which receive the worker's folder."""
    return lambda folder: {"callbacks": [make(folder) for make in makers]}


def normalization(**options: Any) -> Callable[[], Any]:
    """The plain network with a BatchNormalization layer."""
    return models.with_layer(2, lambda: keras.layers.BatchNormalization(**options))


def of_models() -> dict[str, Case]:
    """Kinds of models and layers."""
    group = "Models"
    dropout = models.with_layer(2, lambda: keras.layers.Dropout(0.5, seed=1))
    return {
        "Sequential": Case(group, judged=True),
        "functional, two inputs and outputs": Case(
            group, models.functional, compile=two_losses, columns=models.two_by_two, judged=True
        ),
        "subclassed": Case(group, models.Subclassed),
        "not built before `fit`": Case(group, models.unbuilt, judged=True),
        "a custom `train_step`": Case(group, models.own_step, by("SGD", 0.01)),
        "frozen layers": Case(group, models.frozen),
        "convolution and pooling": Case(group, models.convolutional, by("SGD", 0.01)),
        "recurrent": Case(group, models.recurrent),
        "embedding, attention, LayerNormalization": Case(
            group, models.attentive, by("SGD", 0.01), tolerance=2e-6
        ),
        "a regularizer": Case(group, models.with_first(kernel_regularizer="l2")),
        "a constraint": Case(
            group, models.with_first(kernel_constraint=keras.constraints.MaxNorm(0.5))
        ),
        "`add_loss`": Case(group, models.with_layer(2, models.AddsLoss)),
        "BatchNormalization, synchronized": Case(
            group, normalization(synchronized=True), judged=True
        ),
        "BatchNormalization": Case(group, normalization(), claim=AGREE),
        "dropout": Case(group, dropout, train=training_modes.twice, claim=AGREE),
    }


def of_data() -> dict[str, Case]:
    """Ways to pass data."""
    group = "Data"
    return {
        "a distributed dataset": Case(group, distributed=True),
        "NumPy arrays": Case(group, arrays=True, judged=True),
        "`validation_data`": Case(
            group, fit=lambda _folder: {"validation_data": models.as_shared(models.pairs(), 64)}
        ),
        "`validation_split`": Case(
            group, arrays=True, fit=lambda _folder: {"validation_split": 0.25}
        ),
        "`steps_per_epoch`": Case(group, fit=lambda _folder: {"steps_per_epoch": 5}),
        "a shorter last batch": Case(group, examples=480, judged=True),
        "a shard that ends early": Case(group, examples=449, claim=AGREE),
        "sample weights": Case(group, columns=models.numbers),
        "class weights": Case(
            group,
            compile=logistic(),
            columns=models.classes,
            fit=lambda _folder: {"class_weight": {0: 1.0, 1: 3.0}},
        ),
    }


def of_optimizers() -> dict[str, Case]:
    """Options of optimizers."""
    group = "Optimizers"
    schedule = lambda: keras.optimizers.SGD(  # noqa: E731
        keras.optimizers.schedules.ExponentialDecay(0.05, 4, 0.5)
    )
    return {
        "SGD with momentum": Case(group, optimizer=by("SGD", 0.02, momentum=0.9, nesterov=True)),
        "Adam": Case(group, optimizer=by("Adam", 0.01)),
        "AdamW": Case(group, optimizer=by("AdamW", 0.01, weight_decay=0.1)),
        "RMSprop": Case(group, optimizer=by("RMSprop", 0.01)),
        "Adagrad": Case(group, optimizer=by("Adagrad", 0.1)),
        "Lion": Case(group, optimizer=by("Lion", 0.001)),
        "a learning rate schedule": Case(group, optimizer=schedule),
        "`clipnorm`": Case(group, optimizer=by("SGD", clipnorm=0.3)),
        "`clipvalue`": Case(group, optimizer=by("SGD", clipvalue=0.1)),
        "`global_clipnorm`": Case(group, optimizer=by("SGD", global_clipnorm=0.5)),
        "`use_ema`": Case(group, optimizer=by("SGD", use_ema=True, ema_momentum=0.9)),
        "`use_ema` that overwrites": Case(
            group,
            optimizer=by("SGD", use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4),
        ),
        "`gradient_accumulation_steps`": Case(
            group, optimizer=by("SGD", gradient_accumulation_steps=4)
        ),
        "accumulated, and clipped": Case(
            group, optimizer=by("Adam", 0.01, gradient_accumulation_steps=2, global_clipnorm=0.5)
        ),
        "loss scaling": Case(group, optimizer=scaled(), tolerance=1e-5),
        "loss scaling, an infinite example": Case(
            group, optimizer=scaled(), columns=models.infinite, not_numbers=True
        ),
        "mixed precision, to 2 %": Case(
            group, optimizer=scaled(initial_scale=256.0), policy="mixed_float16", tolerance=2e-2
        ),
    }


def of_compile() -> dict[str, Case]:
    """Other options of `compile`."""
    group = "`compile`"
    return {
        "metrics with state": Case(
            group,
            compile=with_area,
            columns=models.classes,
            judged=True,
        ),
        "weighted metrics": Case(
            group, compile=regression(weighted_metrics=["mse"]), columns=models.numbers
        ),
        "`run_eagerly`": Case(group, compile=regression(run_eagerly=True)),
        "`steps_per_execution`": Case(group, compile=regression(steps_per_execution=3)),
        "`jit_compile`": Case(
            group,
            compile=regression(jit_compile=True),
            refused="jit_compile=True does not work on several workers",
        ),
    }


def of_callbacks() -> dict[str, Case]:
    """Callbacks."""
    group = "Callbacks"
    callbacks = keras.callbacks
    board = Case(
        group,
        fit=watched(lambda folder: callbacks.TensorBoard(folder, histogram_freq=1)),
        after=training_modes.wrote_events,
    )
    return {
        "EarlyStopping": Case(
            group, fit=watched(lambda _folder: callbacks.EarlyStopping("mae", min_delta=10))
        ),
        "LearningRateScheduler": Case(
            group,
            fit=watched(
                lambda _f: callbacks.LearningRateScheduler(lambda epoch: 0.05 / (epoch + 1))
            ),
        ),
        "ReduceLROnPlateau": Case(
            group,
            fit=watched(lambda _f: callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=10)),
        ),
        "TerminateOnNaN": Case(
            group,
            columns=models.infinite,
            not_numbers=True,
            fit=watched(lambda _folder: callbacks.TerminateOnNaN()),
        ),
        "ModelCheckpoint": Case(
            group,
            fit=watched(lambda folder: callbacks.ModelCheckpoint(folder / "model.keras")),
            after=training_modes.is_in_its_file,
        ),
        "BackupAndRestore": Case(group, train=training_modes.interrupted),
        **({"TensorBoard": board} if find_spec("tensorboard") else {}),
        "CSVLogger": Case(
            group, fit=watched(lambda folder: callbacks.CSVLogger(folder / "log.csv"))
        ),
    }


def of_models_files() -> dict[str, Case]:
    """Saving and loading, and methods other than `fit`."""
    group = "Saving, and the rest"
    return {
        "`save` and `load_model`": Case(group, after=training_modes.saves),
        "`save` by the chief alone": Case(group, after=training_modes.saves_on_the_chief),
        "`load_model` in the scope, and on": Case(group, train=training_modes.loaded_in_scope),
        "`save_weights` and `load_weights`": Case(group, after=training_modes.saves_weights),
        "`export` and a served answer": Case(group, after=training_modes.exports),
        "`fit` twice": Case(group, train=training_modes.fitted_twice),
        "`train_on_batch`": Case(group, train=training_modes.batch_by_batch),
        "a custom training loop": Case(group, train=training_modes.custom_loop),
    }


def cases() -> dict[str, Case]:
    """Returns the cases by name. Call it under a strategy, because Keras may compute constants."""
    return {
        **of_models(),
        **of_data(),
        **of_optimizers(),
        **of_compile(),
        **of_callbacks(),
        **of_models_files(),
    }
