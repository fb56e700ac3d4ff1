"""The progress of one task's training, in global steps and in batches, and its end."""

from __future__ import annotations

import math
import time
from fractions import Fraction

from helpers.worker.data_position import DataPosition

LOOK_SECONDS = 1.0


class TrainingProgress:
    """Counts the batches of a task, and predicts the global step from them.

    In synchronous training, it predicts the step. A step fetched with a batch may be the value
    before or after its update, and reading it separately needs a call of the session. The
    prediction is compared with the step once a second.

    Args:
      position: the batches of earlier checkpoints.
      is_asynchronous: whether other tasks count steps too.
      total_steps: the step to train to. While it is unknown, `total_batches` estimates it.
      total_batches: the batches of all replicas to train on, or None to train to a step.
      batches_per_step: how much a step adds to the number of batches. It is 1 if the batches of
        all replicas count as one, and the number of workers if each counts.

    Attributes:
      step: the global step, as far as it is known.
      batches: the number of batches that this task has trained on, including those before the
        checkpoint.
    """

    def __init__(
        self,
        position: DataPosition,
        *,
        is_asynchronous: bool,
        total_steps: int | None = None,
        total_batches: int | None = None,
        batches_per_step: int = 1,
    ) -> None:
        self.is_asynchronous = is_asynchronous
        self.step = self.batches = 0
        self._position = position
        self._total_steps = total_steps
        self._total_batches = total_batches
        self._per_step = batches_per_step
        self._first = self._seen = (0, 0)  # (step, batches) at the beginning, and when last read
        self._updates_per_batch: Fraction | None = None
        self._looked = 0.0
        self._moved = self._in_batch = False

    def begin(self, step: int) -> None:
        """Records the position at which a session begins."""
        self.step, self.batches = step, self._position.batches_at(step)
        self._first = self._seen = (self.step, self.batches)
        if self.is_asynchronous and (updates := self._position.updates):
            self.counts_with_a_batch(updates)

    def next_batch(self) -> None:
        """Counts a batch at its beginning."""
        self.batches += self._per_step
        self._in_batch = True
        if not self.is_asynchronous:
            step, batches = self._seen
            self.step = step + math.ceil(self._ratio * (self.batches - batches))

    def end_batch(self) -> None:
        """Records the end of a batch."""
        self._in_batch = False

    def close(self) -> None:
        """Undoes the count of a batch for which no data was left."""
        self.batches -= self._in_batch * self._per_step
        self._in_batch = False

    def saw(self, step: int, *, exactly: bool = False) -> None:
        """Records the global step.

        Args:
          exactly: whether it was read after the update of the last batch.
        """
        self.step, self._moved = step, self._moved or step > self._first[0]
        if not exactly:
            return
        self._looked, self._seen = time.monotonic(), (step, self.batches)
        if not self.is_asynchronous and self.has_moved:
            first_step, first_batch = self._first
            if self.batches > first_batch:
                self._updates_per_batch = Fraction(step - first_step, self.batches - first_batch)

    def counts_with_a_batch(self, updates: int) -> None:
        """Records the increment of each batch, for training in which other tasks count too."""
        self._updates_per_batch = Fraction(updates)

    def record(self, step: int) -> None:
        """Records the batches at a checkpoint of `step`."""
        whole = self._ratio.numerator if self.is_asynchronous else None
        self._position.record(step, self.batches, whole)

    @property
    def own_batches(self) -> int:
        """Batches of this task since the session began."""
        return (self.batches - self._first[1]) // self._per_step

    @property
    def global_batches(self) -> int:
        """The batches of all replicas together."""
        if self.is_asynchronous:
            return int(self.step / self._ratio)
        return self.batches // self._per_step

    @property
    def has_moved(self) -> bool:
        """Whether the step has changed since the session began."""
        return self._moved

    @property
    def is_regular(self) -> bool:
        """Whether each batch increments the step by 1."""
        return self._ratio == Fraction(1, self._per_step)

    @property
    def must_look(self) -> bool:
        """Whether it is time to read the step."""
        if self.is_asynchronous:
            return False
        return not self.has_moved or time.monotonic() - self._looked > LOOK_SECONDS

    @property
    def total_steps(self) -> int | None:
        """The step to train to, or an estimate of it."""
        if self._total_batches is None:
            return self._total_steps
        if self.is_asynchronous:
            return round(self._total_batches * self._ratio)
        step, batches = self._seen
        steps = (self._total_batches - batches) // self._per_step  # no step is incomplete
        return step + round(self._ratio * self._per_step * steps)

    @property
    def counts_batches(self) -> bool:
        """Whether training ends after a number of batches, not at a step."""
        return self._total_batches is not None

    @property
    def is_complete(self) -> bool:
        """Whether all batches are trained. Estimator itself ends training to a step."""
        if self._total_batches is None:
            return False
        if self.is_asynchronous:
            return self.step >= self._total_batches * self._ratio
        return self.batches + self._per_step > self._total_batches

    @property
    def may_be_last(self) -> bool:
        """Whether the batch may be the last one of training."""
        if self._total_batches is not None and not self.is_asynchronous:
            return self.is_complete
        return self.step >= (self.total_steps or 0)

    @property
    def _ratio(self) -> Fraction:
        return self._updates_per_batch or Fraction(1, self._per_step)
