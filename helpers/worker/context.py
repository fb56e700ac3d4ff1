"""The context of the work in a process, and the exception for lost peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from helpers.tf_config import TFConfig

Report = Callable[..., None]
"""Sends an event, as `report(EventType.READY, step=0)`; see `helpers.protocol.events`."""


class PeerLostError(Exception):
    """A TensorFlow session cannot run any further step, because a peer has exited."""


class PreemptedError(Exception):
    """This worker or a peer was preempted, and all workers have saved at the same step.

    Attributes:
      is_own: whether this worker was preempted.
    """

    def __init__(self, message: str, *, is_own: bool) -> None:
        super().__init__(message)
        self.is_own = is_own


@dataclass(frozen=True)
class WorkerContext:
    """The context of the work: its place in the cluster and a function to send events.

    Attributes:
      config: this process's validated `TF_CONFIG`.
      report: sends an event. `helpers.protocol.events` lists the kinds.
      collective: the collective of its cluster, for the strategy that a function creates.
      shards: the number of workers of the largest group, if it is elastic.
    """

    config: TFConfig
    report: Report
    collective: str = "AUTO"
    shards: int | None = None

    def constant_global_batch(self, dataset_fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Makes the global batch of an elastic group independent of its number of workers.

            strategy.distribute_datasets_from_function(context.constant_global_batch(dataset_fn))

        Args:
          dataset_fn: returns the dataset of one worker, from a `tf.distribute.InputContext`. It is
            called as if the group had its largest size.

        Returns: a function that returns this worker's share of each global batch.
        """
        shards = self.shards
        if shards is None:
            return dataset_fn
        from helpers.worker.shares import share

        return lambda input_context: share(dataset_fn, input_context, shards)
