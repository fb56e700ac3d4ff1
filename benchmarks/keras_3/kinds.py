"""Cases grouped by why several workers may differ from one, with unequal parts of each batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from benchmarks.keras_3 import models, parts
from benchmarks.keras_3.trial import Case, Options
from benchmarks.keras_3.verdict import AGREE

UNEVEN: Options = {"examples": parts.EXAMPLES, "batch": parts.BATCH, "epochs": parts.EPOCHS}

ONE_NUMBER = "A loss that is one number"
UNEQUAL = "Parts that are not alike"
EMPTY = "A part without examples"
CHANGED = "Gradients that the program changes"
EXECUTIONS = "Several steps an execution"
RESULTS = "Results of metrics and steps"
SETTINGS = "Keras's optimizers"


def case(group: str, **options: Any) -> Case:
    """A case with unequal parts of each batch. Cases of losses and metrics are evaluated too."""
    judged = group in (ONE_NUMBER, UNEQUAL, RESULTS)
    return Case(group, **{"judged": judged} | UNEVEN | options)


def compiled(**options: Any) -> Callable[[], Options]:
    """Options of `compile`. A partial is called for each model."""

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(item) for item in value]
        return value() if isinstance(value, partial) else value

    return lambda: {"loss": "mse"} | {name: made(value) for name, value in options.items()}


def stepping(kind: Any) -> Callable[[], Any]:
    """The plain network with a custom `train_step`."""
    return lambda: kind(models.plain_layers())


def of_one_number() -> dict[str, Case]:
    """Losses that do not reveal how they depend on the examples."""
    one = partial(case, ONE_NUMBER)
    three: Options = {"model": parts.three_classes, "columns": parts.classes_of_three}
    return {
        "a function that returns a mean": one(compile=compiled(loss=parts.mean_of_squares)),
        "a function that returns a root": one(compile=compiled(loss=parts.root_of_mean)),
        "a loss of pairs of examples": one(compile=compiled(loss=parts.of_pairs)),
        "a class that returns a mean": one(compile=compiled(loss=partial(parts.OneNumber))),
        "Dice": one(compile=compiled(loss=partial(keras.losses.Dice)), **three),
        "Tversky": one(compile=compiled(loss=partial(keras.losses.Tversky)), **three),
        "`reduction=None`, own mean": one(model=stepping(parts.OwnMean)),
        "`reduction=None` in `compile`": one(
            compile=compiled(loss=partial(keras.losses.MeanSquaredError, reduction=None)),
            optimizer=lambda: keras.optimizers.SGD(0.002),
        ),
        "a mean in `compute_loss`": one(
            model=lambda: parts.OwnLoss(
                [*models.plain_layers()[:-1], parts.Doubles(), keras.layers.Dense(1)]
            ),
        ),
        "Keras's loss in `train_step`": one(model=stepping(parts.KerasLoss)),
        "Keras's loss and a mean": one(model=stepping(parts.MixedLoss)),
        "a loss for each example": one(model=stepping(parts.EachLoss)),
        "`compute_loss` in `train_step`": one(model=stepping(parts.Step)),
    }


def of_parts() -> dict[str, Case]:
    """Masks, weights, and different sizes."""
    one = partial(case, UNEQUAL)
    mean_by_weight = partial(keras.losses.MeanSquaredError, reduction="mean_with_sample_weight")
    metrics: Options = {"metrics": ["mae"], "weighted_metrics": ["mse"]}
    sparse: Options = {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}
    ignoring = partial(keras.losses.SparseCategoricalCrossentropy, ignore_class=1)
    masked = parts.masked(mask_zero=True)
    regularized = models.with_first(activity_regularizer="l2", kernel_regularizer="l2")
    return {
        "batches that do not divide": one(compile=compiled(**metrics)),
        "arrays that do not divide": one(arrays=True, compile=compiled(**metrics)),
        "weights of examples": one(columns=models.numbers, compile=compiled(**metrics)),
        "`mean_with_sample_weight`": one(
            columns=models.numbers, compile=compiled(loss=mean_by_weight, **metrics)
        ),
        "`mean_with_sample_weight`, class weights": one(
            columns=models.classes,
            compile=compiled(
                loss=partial(
                    keras.losses.BinaryCrossentropy,
                    from_logits=True,
                    reduction="mean_with_sample_weight",
                )
            ),
            fit=lambda _folder: {"class_weight": {0: 1.0, 1: 3.0}},
        ),
        "`reduction='sum'`": one(
            compile=compiled(loss=partial(keras.losses.MeanSquaredError, reduction="sum")),
            optimizer=lambda: keras.optimizers.SGD(0.002),
        ),
        "`mask_zero`": one(model=masked, columns=parts.tokens, compile=compiled(**sparse)),
        "weights of examples, in eager mode": one(
            columns=models.numbers, compile=compiled(run_eagerly=True, **metrics)
        ),
        "`ignore_class`": one(
            model=parts.masked(),
            columns=parts.tokens,
            compile=compiled(loss=ignoring, metrics=["accuracy"]),
        ),
        "an activity regularizer": one(model=regularized, compile=compiled(**metrics)),
        "examples that a loss leaves out": one(compile=compiled(loss=parts.of_large_targets)),
        "two outputs": one(
            model=models.functional,
            columns=models.two_by_two,
            compile=compiled(
                loss={"up": "mse", "down": parts.root_of_mean},
                loss_weights={"up": 1.0, "down": 0.5},
                metrics={"up": ["mae"], "down": ["mse"]},
            ),
        ),
        "gradients accumulated": one(
            optimizer=lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=3)
        ),
        "mixed precision, uneven, to 2 %": one(
            optimizer=lambda: keras.optimizers.LossScaleOptimizer(
                keras.optimizers.SGD(0.05), initial_scale=256.0
            ),
            policy="mixed_float16",
            tolerance=2e-2,
        ),
    }


def of_empty_parts() -> dict[str, Case]:
    """Values that are not a number if there is no example."""
    one = partial(case, EMPTY)
    normalized = models.with_layer(2, keras.layers.BatchNormalization)
    synchronized = models.with_layer(2, lambda: keras.layers.BatchNormalization(synchronized=True))
    return {
        "BatchNormalization without examples": one(model=normalized, claim=AGREE),
        "BatchNormalization in a loop": one(
            model=normalized, claim=AGREE, compile=compiled(run_eagerly=True)
        ),
        "BatchNormalization, synchronized, uneven": one(model=synchronized, tolerance=3e-6),
        "`add_loss` without examples": one(model=models.with_layer(2, parts.Doubles)),
        "`add_loss` of a mean": one(model=models.with_layer(2, models.AddsLoss)),
        "batches of one": one(batch=1, examples=5, compile=compiled(metrics=["mae"])),
        "batches of one, own mean": one(batch=1, examples=5, model=stepping(parts.OwnMean)),
    }


def of_changed_gradients() -> dict[str, Case]:
    """Gradients that a program changes before they are applied."""
    one = partial(case, CHANGED)
    return {
        "clipped in `train_step`": one(model=stepping(parts.Clips)),
        "noise in `train_step`": one(model=stepping(parts.AddsNoise)),
        "normalized in `train_step`": one(model=stepping(parts.Normalizes)),
        "each example's gradient clipped": one(model=stepping(parts.ClipsEach)),
        "two tapes, one persistent": one(model=stepping(parts.Twice)),
        "`apply` overridden": one(optimizer=lambda: parts.SignedSGD(0.05)),
        "`apply_gradients` overridden": one(optimizer=lambda: parts.ClippingAdam(0.01)),
        "`apply_gradients` overridden, own loop": one(
            optimizer=lambda: parts.ClippingAdam(0.01), train=parts.own_loop
        ),
        "an Embedding's gradients clipped": one(
            model=parts.masked(mask_zero=True),
            columns=parts.tokens,
            optimizer=lambda: keras.optimizers.SGD(0.5, clipnorm=0.1),
            compile=compiled(loss="sparse_categorical_crossentropy"),
        ),
    }


def of_executions() -> dict[str, Case]:
    """`steps_per_execution`, with an execution that the data cuts short."""
    one = partial(case, EXECUTIONS)
    stopping = lambda _folder: {  # noqa: E731
        "callbacks": [keras.callbacks.EarlyStopping("mae", min_delta=10)]
    }
    return {
        "an execution cut short": one(compile=compiled(steps_per_execution=3, metrics=["mae"])),
        "an execution longer than the data": one(compile=compiled(steps_per_execution=8)),
        "an execution cut short, EarlyStopping": one(
            compile=compiled(steps_per_execution=8, metrics=["mae"]), fit=stopping
        ),
        "`train_on_batch` in executions": one(
            compile=compiled(steps_per_execution=3), train=parts.batch_by_batch
        ),
    }


def of_results() -> dict[str, Case]:
    """Metrics whose state is not a sum, and results of single batches."""
    one = partial(case, RESULTS)
    counts = lambda: {  # noqa: E731
        "loss": keras.losses.BinaryCrossentropy(from_logits=True),
        "metrics": [
            keras.metrics.AUC(from_logits=True),
            keras.metrics.Precision(thresholds=0.1),
            keras.metrics.TruePositives(),
            "accuracy",
        ],
    }
    batches: Options = {"train": parts.batch_by_batch, "judged": False, "examples": 48}
    return {
        "a metric that returns a variable": one(compile=compiled(metrics=[partial(parts.Total)])),
        "a metric that keeps a maximum": one(compile=compiled(metrics=[partial(parts.Largest)])),
        "a metric of a ratio": one(compile=compiled(metrics=[partial(parts.MeanOfBatches)])),
        "a function of the batch": one(compile=compiled(metrics=[parts.root_of_mean, "mae"])),
        "metrics of a batch": one(compile=counts, columns=models.classes),
        "metrics of `train_on_batch`": one(compile=counts, columns=models.classes, **batches),
        "weights of `train_on_batch`": one(
            columns=models.numbers, compile=compiled(weighted_metrics=["mae"]), **batches
        ),
        "a maximum in `train_on_batch`": one(
            compile=compiled(metrics=[partial(parts.Largest)]), **batches
        ),
        "a step that returns a variable": one(model=stepping(parts.ReturnsVariable)),
    }


def of_settings() -> dict[str, Case]:
    """Optimizers with their settings."""
    made = keras.optimizers
    settings: dict[str, Callable[[], Any]] = {
        "Nadam": lambda: made.Nadam(0.01),
        "Lamb": lambda: made.Lamb(0.01),
        "Adafactor": lambda: made.Adafactor(0.01),
        "Adadelta": lambda: made.Adadelta(1.0),
        "Adamax": lambda: made.Adamax(0.01),
        "Ftrl": lambda: made.Ftrl(0.05),
        "Adam, `amsgrad`": lambda: made.Adam(0.01, amsgrad=True),
        "RMSprop, `centered`": lambda: made.RMSprop(0.01, centered=True, momentum=0.9),
        "Adam, clipped": lambda: made.Adam(0.01, global_clipnorm=0.1),
        "SGD, accumulated and clipped": lambda: made.SGD(
            0.05, gradient_accumulation_steps=3, clipnorm=0.1
        ),
        "Adam, loss-scaled": lambda: made.LossScaleOptimizer(made.Adam(0.01)),
        "SGD, momentum and `use_ema`": lambda: made.SGD(0.02, momentum=0.9, use_ema=True),
        "AdamW, uneven": lambda: made.AdamW(0.01, weight_decay=0.1),
        "Lion, uneven": lambda: made.Lion(0.001),
        "Adagrad, uneven": lambda: made.Adagrad(0.1),
    }
    for name in ("Muon", "ScheduleFreeAdamW"):
        if hasattr(made, name):
            settings[name] = partial(getattr(made, name), 0.01)
    if hasattr(made, "MultiOptimizer"):
        settings["MultiOptimizer"] = lambda: made.MultiOptimizer(
            made.OptimizerMap(made.SGD(0.05), {".*bias": made.Adam(0.01)})
        )
    return {
        name: case(SETTINGS, optimizer=maker, tolerance=1e-5 if "scaled" in name else 1e-6)
        for name, maker in settings.items()
    }


def cases() -> dict[str, Case]:
    """Returns the cases by name."""
    return {
        **of_one_number(),
        **of_parts(),
        **of_empty_parts(),
        **of_changed_gradients(),
        **of_executions(),
        **of_results(),
        **of_settings(),
    }
