"""The number of workers and of restarts of a group, which can shrink and grow between attempts."""

from __future__ import annotations

import logging
import threading

from helpers import labels
from helpers.errors import ClusterError, ConfigError, check_count, unknown_choice
from helpers.i18n import _, ngettext
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.job import ELASTIC_BATCHES, GLOBAL
from helpers.strategies import ONE_PROCESS

logger = logging.getLogger(__name__)


class GroupSize:
    """The number of workers that the next attempt has. Can be called from any thread.

    A group has at least `minimum` and at most `maximum` workers, like torchrun's `--nnodes=2:4`. A
    worker runs in a slot, for instance on a machine. A slot can become unavailable and return.

    Args:
      workers: the maximum number of workers, which is the number in the first attempt.
      min_workers: the minimum number of workers. Without it, the number is fixed.

    Attributes:
      current: the number of workers of the current attempt.
      reason: why the target last changed, as a sentence without its full stop.
    """

    def __init__(self, workers: int, min_workers: int | None = None) -> None:
        self.maximum = workers
        self.minimum = check_min_workers(min_workers, workers)
        self.current = workers
        self.reason = ""
        self._lock = threading.Lock()
        self._requested = workers
        self._slots = workers  # as counted by a cluster manager
        self._unavailable: list[str] = []  # the tasks whose slots are lost
        self._excluded = 0  # workers that were preempted, or failed too often

    @property
    def is_elastic(self) -> bool:
        """Whether the number of workers can change."""
        return self.minimum < self.maximum

    @property
    def target(self) -> int:
        """The number of workers that the next attempt should have, which may be below `minimum`."""
        with self._lock:
            available = self.maximum - len(self._unavailable) - self._excluded
            return min(self._requested, self._slots, available)

    @property
    def is_possible(self) -> bool:
        """Whether enough slots are available for the next attempt."""
        return self.target >= self.minimum

    @property
    def change_is_due(self) -> bool:
        """Whether the next checkpoint should end the current attempt."""
        return self.is_possible and self.target != self.current

    def is_due_at(self, step: int, total_steps: int | None) -> bool:
        """Whether the checkpoint of a step should end the current attempt.

        Args:
          total_steps: the last step, at whose checkpoint no restart is needed, if it is known.
        """
        is_last = total_steps is not None and step >= total_steps
        return self.change_is_due and not is_last

    @property
    def shrink_was_requested(self) -> bool:
        """Whether `request` asked for fewer workers than the group has."""
        return self._requested < self.current

    def request(self, workers: int) -> None:
        """Sets the number of workers. Excluded workers may return.

        Raises:
          ConfigError: the group cannot have this number of workers.
        """
        check_count("workers", workers)
        if not self.minimum <= workers <= self.maximum:
            raise self._out_of_range(workers)
        with self._lock:
            self._requested, self._excluded = workers, 0
            self.reason = _("resize({workers}) was called").format(workers=workers)

    def lose_slot(self, task: str) -> None:
        """Records that the slot of a task is unavailable."""
        with self._lock:
            self._unavailable.append(task)
            message = _("the machine of {task} is lost")
            self.reason = message.format(task=labels.task(task))

    def return_slot(self, task: str) -> None:
        """Records that the slot of a task is available again."""
        with self._lock:
            self._unavailable.remove(task)
            message = _("the machine of {task} is available again")
            self.reason = message.format(task=labels.task(task))

    def set_slots(self, slots: int, reason: str) -> None:
        """Records how many workers a cluster manager has resources for, at most `maximum`.

        If there are more than before, excluded workers may return, because a machine has joined.
        """
        with self._lock:
            if slots == self._slots:
                return
            if slots > self._slots:
                self._excluded = 0
            self._slots, self.reason = slots, reason

    def exclude_worker(self) -> bool:
        """Continues without one of the current workers until `request` is called, if possible."""
        with self._lock:
            if self.current <= self.minimum:
                return False
            self._excluded += 1
            return True

    def resized(self, workers: int, step: int, reason: str, task: object) -> Event:
        """Sets the number of workers of the current attempt, and returns the event about it."""
        previous, self.current = self.current, workers
        logger.warning("From %d to %d workers at step %d: %s", previous, workers, step, reason)
        fields = {"step": step, "previous": previous, "workers": workers, "reason": reason}
        return supervisor_event(EventType.GROUP_RESIZED, task, **fields)

    def too_few(self, fault: str) -> ClusterError:
        """The error if fewer slots are available than the group needs."""
        message = ngettext(
            "{fault}; {count} machine is available, and the group needs at least {least}. Pass a "
            "smaller min_workers to continue with fewer workers.",
            "{fault}; {count} machines are available, and the group needs at least {least}. Pass a "
            "smaller min_workers to continue with fewer workers.",
            self.target,
        )
        values = {"fault": fault, "count": self.target, "least": self.minimum}
        return ClusterError(message.format(**values), reason=fault)

    def _out_of_range(self, workers: int) -> ConfigError:
        if not self.is_elastic:
            message = _(
                "resize({workers}) is not possible, because this cluster always has {count}. "
                "Create it with min_workers=, such as LocalCluster(workers=4, min_workers=2)."
            )
            return ConfigError(message.format(workers=workers, count=labels.workers(self.maximum)))
        message = _(
            "resize({workers}) is not possible: this cluster has at least min_workers={least} and "
            "at most workers={most}."
        )
        return ConfigError(message.format(workers=workers, least=self.minimum, most=self.maximum))


class RestartPolicy:
    """Decides whether a group is restarted after a failure, maybe with fewer workers.

    Args:
      size: the number of workers, one fewer if too many restarts were needed.
      max_restarts: the limit of restarts of a group of one size.

    Attributes:
      restarts: their number since the last change of the size.
    """

    def __init__(self, size: GroupSize, max_restarts: int) -> None:
        self.restarts = 0
        self._max_restarts = max_restarts
        self._size = size

    def note_failure(self, reason: str, *, is_worker: bool, is_preempted: bool = False) -> bool:
        """Returns whether a restart follows a failure, and counts it unless the group shrinks.

        Args:
          reason: for the log.
          is_worker: whether a worker has failed, without which others could continue.
          is_preempted: whether it was preempted, and will not return soon.
        """
        if is_preempted and is_worker and self._size.exclude_worker():
            return True
        if self._size.target < self._size.current:  # the slot of the failed task is lost
            return True
        if self.restarts < self._max_restarts:
            self.restarts += 1
            logger.warning("Restart %d of %d: %s", self.restarts, self._max_restarts, reason)
            return True
        return is_worker and self._size.exclude_worker()

    def resize(self, step: int, reason: str, task: object) -> Event | None:
        """Gives the next attempt its number of workers, and returns the event about a change."""
        target = self._size.target
        if target == self._size.current:
            return None
        self.restarts = 0
        return self._size.resized(target, step, reason, task)


def check_min_workers(min_workers: int | None, workers: int) -> int:
    """The minimum number of workers of a group, by default `workers`.

    Raises:
      ConfigError: it is not a whole number from 1 to `workers`.
    """
    if min_workers is None:
        return workers
    check_count("min_workers", min_workers)
    if min_workers > workers:
        message = _(
            "min_workers={min_workers} is greater than workers={workers}. A group starts with "
            "workers={workers}, and continues with at least min_workers."
        )
        raise ConfigError(message.format(min_workers=min_workers, workers=workers))
    return min_workers


def check_elastic(
    min_workers: int | None, workers: int, strategy: str, elastic_batch: str = GLOBAL
) -> None:
    """Raises ConfigError if `min_workers` or `elastic_batch` is not possible."""
    check_min_workers(min_workers, workers)
    if elastic_batch not in ELASTIC_BATCHES:
        raise unknown_choice("elastic_batch", elastic_batch, ELASTIC_BATCHES)
    if min_workers is not None and strategy in ONE_PROCESS:
        message = _(
            "min_workers={min_workers} needs several processes, but the replicas of {strategy} "
            "are devices of one process. Choose MultiWorkerMirroredStrategy or "
            "ParameterServerStrategy."
        )
        raise ConfigError(message.format(min_workers=min_workers, strategy=strategy))
