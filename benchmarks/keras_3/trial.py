"""One model trained under a strategy, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from benchmarks.keras_3 import models
from benchmarks.keras_3.verdict import AS_ONE

BATCH, EPOCHS = 64, 3
Options = dict[str, Any]


def train_once(trial: Trial) -> tuple[Any, Any]:
    """The plain way: one model, one `fit`."""
    model = trial.make()
    return model, trial.fit(model).history


def nothing(_model: Any, _trial: Trial) -> None:
    """Asks nothing more of the trained model."""


@dataclass(frozen=True)
class Case:
    """What is trained, on what, and how.

    Attributes:
      group: the part of the table it belongs to.
      model: makes it, in the strategy's scope.
      optimizer, compile: for `compile`, made in the scope too.
      fit: options of `fit`; it is given the worker's own folder.
      columns: the data, 512 examples, of which `examples` are taken.
      policy: the type policy.
      arrays: whether `fit` is given NumPy arrays; else a dataset.
      distributed: whether the dataset is distributed by the program.
      train: gives the trained model and its history.
      after: what is asked of the trained model; raises AssertionError if the answer is wrong.
      claim: what must hold between two workers and one.
      tolerance: up to which numbers are equal.
      judged: whether the trained model is also evaluated, and predicts.
      refused: a part of the sentence that two workers must get instead.
    """

    group: str
    model: Callable[[], Any] = models.sequential
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.05)
    compile: Callable[[], Options] = lambda: {"loss": "mse", "metrics": ["mae"]}
    fit: Callable[[Path], Options] = lambda _folder: {}
    columns: Callable[[], Any] = models.pairs
    examples: int = models.EXAMPLES
    policy: str = "float32"
    arrays: bool = False
    distributed: bool = False
    train: Callable[[Trial], tuple[Any, Any]] = train_once
    after: Callable[[Any, Trial], Any] = nothing
    claim: str = AS_ONE
    tolerance: float = 1e-6
    judged: bool = False
    refused: str = ""


@dataclass(frozen=True)
class Trial:
    """A case on one worker.

    Attributes:
      index, workers: which of how many.
      folder: this worker's own.
    """

    case: Case
    strategy: Any
    index: int
    workers: int
    folder: Path

    @property
    def is_chief(self) -> bool:
        """Whether it is the first worker."""
        return self.index == 0

    def make(self) -> Any:
        """The model, compiled in the strategy's scope."""
        with self.strategy.scope():
            model = self.case.model()
            model.compile(optimizer=self.case.optimizer(), **self.case.compile())
        return model

    def data(self) -> Any:
        """Batches, of which each worker takes its share."""
        cut = keras.tree.map_structure(lambda a: a[: self.case.examples], self.case.columns())
        return models.as_shared(cut, BATCH)

    def inputs(self) -> Any:
        """The same without targets."""
        return self.data().map(lambda x, *rest: x)

    def fit(self, model: Any, **options: Any) -> Any:
        """`fit` as the case has it, and these options."""
        options = {**self.case.fit(self.folder), **options}
        if self.case.arrays:
            given = dict(zip("xy", self.case.columns(), strict=True))
            given |= {"batch_size": BATCH, "shuffle": False}
        else:
            given = {"x": self.data()}
        if "steps_per_epoch" in options:
            given["x"] = given["x"].repeat()
        if self.case.distributed:
            given["x"] = self.strategy.experimental_distribute_dataset(given["x"])
        return model.fit(**given, **{"epochs": EPOCHS, "verbose": 0} | options)

    def run(self) -> Options:
        """History, weights, evaluation, predictions, and what the case asks for afterwards."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        keras.config.set_dtype_policy(self.case.policy)
        model, history = self.case.train(self)
        answer = {"history": history, "weights": model.get_weights()}
        if self.case.judged:
            answer["evaluate"] = model.evaluate(self.data(), verbose=0, return_dict=True)
            answer["predict"] = model.predict(self.inputs(), verbose=0)
        self.case.after(model, self)
        return plain(answer)


def plain(value: Any) -> Any:
    """As JSON takes it."""
    return keras.tree.map_structure(lambda leaf: np.asarray(leaf, "float64").tolist(), value)
