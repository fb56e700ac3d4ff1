"""Detects endless evaluation data, and reads it once."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.i18n import _, ngettext
from helpers.protocol.failures import readers_line
from helpers.worker.context import Report
from helpers.worker.run_config import without_rewriting

NOTICE_AFTER = 2  # times the batches of training
MAX_TIMES = 10
MIN_BATCHES = 20_000  # fewer batches are never reported as endless


class EvaluationInput:
    """Calls an `input_fn` for an evaluation, and removes the `repeat()` of an endless dataset.

    Args:
      report: sends warnings.
      line: the reader's line that repeats forever, after it was found.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ignores_repeats: bool | None = None  # until the first call
        self.line: str | None = None

    def read(self, call: Callable[[], Any]) -> Any:
        """Returns one epoch of the result of `call`.

        Raises:
          ConfigError: it has no end even without `repeat()`.
        """
        with _repeats(ignored=bool(self._ignores_repeats)) as lines:
            data = call()
        if self._ignores_repeats is not None:
            return data
        self.line = lines[0] if lines else None
        self._ignores_repeats = is_endless(data)
        if not self._ignores_repeats:
            return data
        with _repeats(ignored=True):
            data = call()
        if is_endless(data):
            raise ConfigError(_endless(self.line))
        message = _(
            "The evaluation data of input_fn repeats forever ({line}), so one pass over it was "
            "evaluated. Pass eval_steps= to evaluate a number of batches instead."
        )
        self._report("warning", message=message.format(line=self.line))
        return data


class EvaluationLimit:
    """Ends an evaluation of unknown length that does not end by itself.

    Args:
      training_batches: the number of batches in training.
    """

    def __init__(self, data: EvaluationInput, report: Report, training_batches: int) -> None:
        self._data, self._report = data, report
        self._notice = NOTICE_AFTER * max(1, training_batches)
        self._most = max(MAX_TIMES * training_batches, MIN_BATCHES)
        self._batches = 0

    def begin(self) -> None:
        """Starts to count the batches of the next evaluation."""
        self._batches = 0

    def count(self) -> None:
        """Counts a batch.

        Raises:
          ConfigError: it exceeds the limit.
        """
        self._batches += 1
        if self._batches > self._most:
            raise ConfigError(_endless(self._data.line, self._batches - 1))
        if self._batches == self._notice and self._batches > MIN_BATCHES // MAX_TIMES:
            message = ngettext(
                "The evaluation has read {batches}, {times} time as many as training, and "
                "continues to the end of its input_fn. Pass eval_steps= to evaluate only a "
                "part of them.",
                "The evaluation has read {batches}, {times} times as many as training, and "
                "continues to the end of its input_fn. Pass eval_steps= to evaluate only a "
                "part of them.",
                NOTICE_AFTER,
            )
            batches = labels.batches(self._batches)
            self._report("warning", message=message.format(batches=batches, times=NOTICE_AFTER))


def is_endless(data: Any) -> bool:
    """Whether TensorFlow knows that a dataset of the current graph has no end."""
    if not isinstance(data, tf.data.Dataset):
        return False
    try:
        graph = tf.compat.v1.get_default_graph()
        with tf.compat.v1.Session(graph=graph, config=without_rewriting()) as session:
            return int(session.run(data.cardinality())) == tf.data.INFINITE_CARDINALITY
    except tf.errors.OpError:  # it needs a table that does not exist yet, for instance
        return False


@contextmanager
def _repeats(*, ignored: bool) -> Iterator[list[str]]:
    """Yields the reader's lines that call `repeat()` without a count, which `ignored` disables."""
    dataset: Any = tf.data.Dataset
    original, lines = dataset.repeat, []

    @functools.wraps(original)
    def repeat(self: Any, count: Any = None, *args: Any, **options: Any) -> Any:
        if count is None or (isinstance(count, int) and count < 0):
            frames = [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_stack()]
            lines.append(readers_line(frames) or "repeat()")
            if ignored:
                return self
        return original(self, count, *args, **options)

    dataset.repeat = repeat
    try:
        yield lines
    finally:
        dataset.repeat = original


def _endless(line: str | None, batches: int | None = None) -> str:
    if batches is None:
        message = _(
            "The evaluation data of input_fn has no end ({line}). Return one epoch in "
            '"eval" mode, or pass eval_steps= for the number of batches to evaluate.'
        )
        return message.format(line=line or "input_fn")
    message = _(
        "The evaluation read {batches}, and its input_fn still returns more ({line}): it has "
        'no end, or is very large. Return one epoch in "eval" mode, or pass eval_steps= for '
        "the number of batches to evaluate. Training is complete and saved."
    )
    return message.format(batches=labels.batches(batches), line=line or "input_fn")
