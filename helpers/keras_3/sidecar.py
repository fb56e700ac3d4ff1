"""A side-car evaluator for Keras 3, which evaluates checkpoints during training.

It replaces `tf.keras.utils.SidecarEvaluator`, which Keras 3 does not have.
"""

from __future__ import annotations

import importlib
import os
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.errors import ConfigError, DataError, check_count, check_seconds
from helpers.i18n import LocalNumber, _

SUFFIXES = (".weights.h5", ".keras")
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of one checkpoint.

    Attributes:
      path: the checkpoint's file.
      number: the last number in the file's name, which is the epoch for "ckpt-{epoch}.weights.h5".
      step: the optimizer's `iterations` in the checkpoint, or None if it holds no optimizer.
      metrics: the results of `evaluate`, by name.
    """

    path: Path
    number: int
    step: int | None
    metrics: dict[str, float]


class SidecarEvaluator:
    """Evaluates each new checkpoint in a folder, in a separate process during training.

        def evaluate_beside():
            model = make_model()  # compiled as in training, without a strategy
            return SidecarEvaluator(model, data, folder, max_evaluations=epochs).start()

        cluster.run(train, evaluator_fn=evaluate_beside)

    The training run saves with `keras.callbacks.ModelCheckpoint`, to "ckpt-{epoch}.weights.h5" with
    `save_weights_only=True`, or whole models to "ckpt-{epoch}.keras". If checkpoints appear faster
    than they can be evaluated, intermediate ones are skipped. A file that is incomplete or damaged
    is tried again at the next poll.

    Args:
      model: compiled and built, with the architecture of the model being trained.
      data: passed to `model.evaluate` as `x`.
      checkpoint_dir: the folder in which the training run saves. It may not exist yet.
      steps: batches per evaluation (default: all).
      max_evaluations: the number in the name of the last checkpoint, after which `start` returns.
      callbacks: passed to `model.evaluate`.
      timeout: seconds without a new checkpoint after which `start` returns, with a warning.

    Raises:
      ConfigError: the model is not compiled or not built, or a number is invalid.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        checkpoint_dir: str | os.PathLike[str],
        *,
        steps: int | None = None,
        max_evaluations: int | None = None,
        callbacks: Sequence[Any] = (),
        timeout: float = 600.0,
    ) -> None:
        if not model.compiled or not model.built:
            raise ConfigError(
                _("The model of a SidecarEvaluator is not compiled. Call compile first.")
                if model.built
                else _(
                    "The model of a SidecarEvaluator has no weights yet. Add an Input to it, or "
                    "call build."
                )
            )
        for name, value in {"steps": steps, "max_evaluations": max_evaluations}.items():
            if value is not None:
                check_count(name, value)
        check_seconds("timeout", timeout)
        self._model, self._data, self._folder = model, data, Path(checkpoint_dir)
        self._steps, self._last = steps, max_evaluations
        self._callbacks, self._timeout = list(callbacks), timeout

    def start(self) -> list[Evaluation]:
        """Evaluates until the last checkpoint, and returns the evaluations in order.

        Raises:
          DataError: `timeout` seconds passed, and no checkpoint could be read.
        """
        done = list(self)
        if not done:
            message = _(
                "No checkpoint in {folder} could be read within {seconds:g} s. Checkpoints "
                'must have names like "ckpt-1.weights.h5" or "ckpt-1.keras". Write them to this '
                "folder with keras.callbacks.ModelCheckpoint."
            )
            raise DataError(message.format(folder=self._folder, seconds=LocalNumber(self._timeout)))
        return done

    def __iter__(self) -> Iterator[Evaluation]:
        """Yields each evaluation when it is complete."""
        newest, last_seen = -1, time.monotonic()
        while self._last is None or newest < self._last:
            found = self._newest_after(newest)
            if found is not None and (evaluation := self._evaluate(*found)) is not None:
                newest, last_seen = evaluation.number, time.monotonic()
                yield evaluation
            elif time.monotonic() - last_seen > self._timeout:
                if newest >= 0:
                    warnings.warn(self._no_more(newest), stacklevel=2)
                return
            else:
                time.sleep(POLL_SECONDS)

    def _newest_after(self, number: int) -> tuple[int, Path] | None:
        numbered = [
            (int(numbers[-1]), path)
            for suffix in SUFFIXES
            for path in self._folder.glob(f"*{suffix}")
            if (numbers := re.findall(r"\d+", path.name.removesuffix(suffix)))
        ]
        return max((one for one in numbered if one[0] > number), default=None)

    def _evaluate(self, number: int, path: Path) -> Evaluation | None:
        """The evaluation of a checkpoint, or None if the file cannot be read (yet)."""
        try:
            self._load(path)
        except (OSError, KeyError, ValueError) as error:  # an incomplete file
            if _is_being_written(path, error):
                return None
            raise
        metrics = self._model.evaluate(
            self._data, steps=self._steps, callbacks=self._callbacks, verbose=0, return_dict=True
        )
        optimizer = self._model.optimizer
        step = int(optimizer.iterations.numpy()) if optimizer is not None else None
        return Evaluation(path, number, step or None, metrics)

    def _load(self, path: Path) -> None:
        optimizer = self._model.optimizer
        if optimizer is not None and not optimizer.built:
            optimizer.build(self._model.trainable_variables)
        with warnings.catch_warnings():  # about optimizer slots, which an evaluation does not need
            warnings.simplefilter("ignore")
            self._model.load_weights(str(path))

    def _no_more(self, newest: int) -> str:
        message = _(
            "No checkpoint newer than {number} appeared in {folder} within {seconds:g} s, so the "
            "sidecar evaluator stopped before max_evaluations={last}."
        )
        return message.format(
            number=newest, folder=self._folder, seconds=LocalNumber(self._timeout), last=self._last
        )


def _is_being_written(path: Path, error: Exception) -> bool:
    """Whether a file is incomplete: HDF5 files and zip archives are unreadable before their end."""
    import zipfile

    h5py: Any = importlib.import_module("h5py")

    try:
        if path.name.endswith(".keras"):
            with zipfile.ZipFile(path):
                return False
        with h5py.File(path, "r"):
            return isinstance(error, (OSError, KeyError))
    except (OSError, zipfile.BadZipFile):
        return True
