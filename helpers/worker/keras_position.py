"""The position in the data of `fit` when training resumes, for Keras 2 and 3.

Both versions read the data of a resumed epoch from its beginning, in the order of the first epoch.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

ITERATORS_PER_EPOCH = 2  # Keras 3 creates a second one if it knows the number of batches


class Position(NamedTuple):
    """The epoch at which `fit` resumes, starting at 0, and the batches already trained in it."""

    epoch: int
    batch: int


_next: list[Position] = []  # where the next `fit` resumes


def resume_at(epoch: int, batch: int = 0) -> None:
    """Makes the `fit` in progress skip the data before a position. Call it in `on_train_begin`."""
    _next[:] = [Position(epoch, batch)]


def install_in_keras_3() -> None:
    """Makes the data of `fit` start at the position. The second call does nothing."""
    trainer: Any = importlib.import_module("keras.src.backend.tensorflow.trainer")
    iterator = trainer.TFEpochIterator
    if not hasattr(iterator._enumerate_iterator, "resumes"):
        iterator._enumerate_iterator = _resuming_3(iterator._enumerate_iterator)
        iterator._get_iterator = _counting(iterator._get_iterator)


def _resuming_3(enumerate_iterator: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `_enumerate_iterator`, which yields the step first and the iterator last."""

    @functools.wraps(enumerate_iterator)
    def resuming(self: Any) -> Iterator[Any]:
        if _next:
            self._position = _next.pop()
        position = getattr(self, "_position", None)
        if position is None:  # of `evaluate`, or without the callback
            yield from enumerate_iterator(self)
            return
        self._position = Position(position.epoch + 1, 0)
        batches = getattr(self, "_num_batches", None)
        resumes = self.steps_per_epoch is None or self._current_iterator is None
        iterators, skipped = _skips(position, self.steps_per_epoch, batches) if resumes else (0, 0)
        if self.steps_per_epoch is None:
            iterators *= ITERATORS_PER_EPOCH
        if iterators and not getattr(self, "_created", 0):
            _read_through(self._get_iterator())
        while getattr(self, "_created", 0) < iterators:
            _drop_iterator(self._get_iterator())
        for item in enumerate_iterator(self):
            if skipped:
                self._steps_seen += skipped - position.batch
                _skip(item[-1], skipped)
                skipped = 0
            if item[0] >= position.batch:
                yield item

    resuming.resumes = True  # type: ignore[attr-defined]
    return resuming


def _counting(get_iterator: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `_get_iterator` to count the iterators, because each one changes the shuffle order."""

    @functools.wraps(get_iterator)
    def counting(self: Any) -> Any:
        self._created = getattr(self, "_created", 0) + 1
        return get_iterator(self)

    return counting


def install_in_keras_2() -> None:
    """Makes the data of `fit` start at the position. The second call does nothing.

    Keras 2 itself runs only the rest of the steps.
    """
    from helpers.either_keras import tf

    name = tf.keras.Model.__module__.partition(".engine.")[0]
    adapters: Any = importlib.import_module(f"{name}.engine.data_adapter")
    handler = adapters.DataHandler
    if not hasattr(handler.enumerate_epochs, "resumes"):
        handler.enumerate_epochs = _resuming_2(handler.enumerate_epochs)


def _resuming_2(enumerate_epochs: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `DataHandler.enumerate_epochs`, which yields epochs and iterators."""

    @functools.wraps(enumerate_epochs)
    def resuming(self: Any) -> Iterator[Any]:
        resumes = bool(_next) and _next.pop() is not None
        epoch, batch = self._initial_epoch, self._initial_step
        recreates = self._adapter.should_recreate_iterator()
        per_epoch = None if recreates else self._inferred_steps
        iterators, skipped = _skips(Position(epoch, batch), per_epoch, None)
        if resumes and iterators:  # Keras creates one, and then one for each epoch
            _drop_iterator(self._dataset)
            _read_through(self._dataset)
            for _number in range(iterators - 1):
                _drop_iterator(self._dataset)
            self._dataset = _NoIterator(self)
        for epoch, iterator in enumerate_epochs(self):
            if resumes:
                _skip(iterator, skipped)
                resumes = False
            yield epoch, iterator

    resuming.resumes = True  # type: ignore[attr-defined]
    return resuming


def _skips(position: Position, per_epoch: int | None, batches: int | None) -> tuple[int, int]:
    """How many iterators to drop, and how many batches of the next one to skip.

    Args:
      per_epoch: the steps of an epoch if the epochs share an iterator, else None.
      batches: the batches of an iterator that the epochs share, or None if it has no end.
    """
    if per_epoch is None:
        return position.epoch, position.batch
    return divmod(position.epoch * per_epoch + position.batch, batches or (1 << 62))


class _NoIterator:
    """Replaces the dataset of a Keras 2 DataHandler until it creates its first iterator."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._dataset = handler._dataset

    def __iter__(self) -> Iterator[Any]:
        self._handler._dataset = self._dataset
        return iter(())


def _read_through(dataset: Any) -> None:
    """Reads all data once, as the first epoch did, so that caches have its order."""
    for one in _own_datasets(dataset):
        one.reduce(0, lambda count, *_batch: count + 1)


def _drop_iterator(dataset: Any) -> None:
    """Creates an iterator that reads nothing, so that the next one has the next order.

    An iterator of a distributed dataset would fill its buffers, which takes a tenth of a second.
    """
    for one in _own_datasets(dataset):
        iter(one)


def _own_datasets(dataset: Any) -> Sequence[Any]:
    """The datasets of this worker's devices."""
    own = getattr(dataset, "_datasets", None) or getattr(dataset, "_cloned_datasets", None)
    return own or [dataset]


def _skip(iterator: Any, batches: int) -> None:
    for _number in range(batches):
        next(iterator, None)
