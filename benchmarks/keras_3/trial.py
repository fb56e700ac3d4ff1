"""Trains one model under a strategy and collects the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.keras_3 import models
from benchmarks.keras_3.verdict import AS_ONE

BATCH, EPOCHS = 64, 3
Options = dict[str, Any]


def train_once(trial: Trial) -> tuple[Any, Any]:
    """Trains one model with a single `fit`."""
    model = trial.make()
    return model, trial.fit(model).history


class Logs(keras.callbacks.Callback):
    """Keeps the values that a progress bar would show after each batch."""

    def __init__(self, kept: list[Any]) -> None:
        super().__init__()
        self.kept = kept

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Copies the logs."""
        self.kept.append({name: np.asarray(value) for name, value in (logs or {}).items()})


def nothing(_model: Any, _trial: Trial) -> None:
    """Checks nothing more."""


@dataclass(frozen=True)
class Case:
    """A model, its data, and how it is trained.

    Attributes:
      group: its part of the table.
      model: creates the model, in the strategy's scope.
      optimizer, compile: for `compile`, created in the scope too.
      fit: a function of the worker's own folder that returns options of `fit`.
      columns: the data, 512 examples, of which `examples` are used.
      batch, epochs: examples in a global batch, and passes over all examples.
      policy: the dtype policy.
      arrays: whether `fit` receives NumPy arrays instead of a dataset.
      distributed: whether the dataset is distributed by the program.
      train: returns the trained model and its history.
      after: a check of the trained model, which raises AssertionError if it fails.
      claim: the property that must hold between two workers and one.
      tolerance: the largest difference of equal numbers.
      not_numbers: whether one worker computes NaN too.
      judged: whether the trained model is also evaluated, and predicts.
      refused: a part of the error message that two workers must raise instead.
    """

    group: str
    model: Callable[[], Any] = models.sequential
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.05)
    compile: Callable[[], Options] = lambda: {"loss": "mse", "metrics": ["mae"]}
    fit: Callable[[Path], Options] = lambda _folder: {}
    columns: Callable[[], Any] = models.pairs
    examples: int = models.EXAMPLES
    batch: int = BATCH
    epochs: int = EPOCHS
    policy: str = "float32"
    arrays: bool = False
    distributed: bool = False
    train: Callable[[Trial], tuple[Any, Any]] = train_once
    after: Callable[[Any, Trial], Any] = nothing
    claim: str = AS_ONE
    tolerance: float = 1e-6
    not_numbers: bool = False
    judged: bool = False
    refused: str = ""


@dataclass(frozen=True)
class Trial:
    """A case on one worker.

    Attributes:
      index, workers: the index of this worker, and the number of workers.
      folder: this worker's own.
      logs: the logs of each batch of `fit`, after training.
    """

    case: Case
    strategy: Any
    index: int
    workers: int
    folder: Path
    logs: list[Any] = field(default_factory=list)

    @property
    def is_chief(self) -> bool:
        """Whether it is the first worker."""
        return self.index == 0

    def make(self) -> Any:
        """Creates the model, compiled in the strategy's scope."""
        with self.strategy.scope():
            model = self.case.model()
            model.compile(optimizer=self.case.optimizer(), **self.case.compile())
        return model

    def data(self) -> Any:
        """Batches that are sharded among the workers."""
        cut = keras.tree.map_structure(lambda a: a[: self.case.examples], self.case.columns())
        return models.as_shared(cut, self.case.batch)

    def inputs(self) -> Any:
        """The same without targets."""
        return self.data().map(lambda x, *rest: x)

    def fit(self, model: Any, **options: Any) -> Any:
        """Calls `fit` with the options of the case, and with these options."""
        options = {**self.case.fit(self.folder), **options}
        if self.case.arrays:
            columns = [column[: self.case.examples] for column in self.case.columns()]
            given = dict(zip("xy", columns, strict=True))
            given |= {"batch_size": self.case.batch, "shuffle": False}
        else:
            given = {"x": self.data()}
        if "steps_per_epoch" in options:
            given["x"] = given["x"].repeat()
        if self.case.distributed:
            given["x"] = self.strategy.experimental_distribute_dataset(given["x"])
        options["callbacks"] = [*options.get("callbacks", ()), Logs(self.logs)]
        return model.fit(**given, **{"epochs": self.case.epochs, "verbose": 0} | options)

    def run(self) -> Options:
        """Returns history, weights, evaluation and predictions, after the checks of the case."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        keras.config.set_dtype_policy(self.case.policy)
        model, history = self.case.train(self)
        answer = {"history": history, "weights": model.get_weights(), "logs": self.logs}
        if self.case.judged:
            answer["evaluate"] = model.evaluate(self.data(), verbose=0, return_dict=True)
            answer["predict"] = model.predict(self.inputs(), verbose=0)
        self.case.after(model, self)
        return plain(answer)


def plain(value: Any) -> Any:
    """Converts values to types that JSON supports."""
    return keras.tree.map_structure(lambda leaf: np.asarray(leaf, "float64").tolist(), value)
