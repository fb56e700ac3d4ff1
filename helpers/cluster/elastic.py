"""Elastic groups: the number of workers of a cluster can change while a run is active."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from helpers.cluster.group_size import GroupSize, check_elastic
from helpers.errors import ClusterError
from helpers.i18n import _
from helpers.protocol.job import Elastic
from helpers.strategies import MULTI_WORKER


class ElasticCluster:
    """The part of a cluster that changes its number of workers.

    Attributes:
      workers, strategy, min_workers, elastic_batch: see the subclass.
    """

    workers: int
    strategy: str

    def _init_elastic(
        self, workers: int, min_workers: int | None, elastic_batch: str, strategy: str
    ) -> None:
        """Sets the attributes.

        Raises:
          ConfigError: a group cannot have `min_workers`, or there is no such batch.
        """
        check_elastic(min_workers, workers, strategy, elastic_batch)
        self.min_workers = min_workers
        self.elastic_batch = elastic_batch
        self._lock = threading.Lock()  # guards the attributes below
        self._running = False
        self._size = GroupSize(workers)

    @contextmanager
    def _resizable(self, size: GroupSize) -> Iterator[None]:
        """Allows `resize` to change the size of a run."""
        with self._lock:
            self._running, self._size = True, size
        try:
            yield
        finally:
            with self._lock:
                self._running = False

    def resize(self, workers: int) -> None:
        """Changes the number of workers of a running elastic group, at its next checkpoint.

        With parameter servers, workers leave or join at once. Can be called from any thread.
        Workers that were preempted or failed too often may join again. Lost machines do not.

        Args:
          workers: at least `min_workers`, and at most the `workers` of this cluster.

        Raises:
          ConfigError: the cluster cannot have this number of workers.
          ClusterError: neither `train` nor `run` is running.
        """
        with self._lock:
            if not self._running:
                message = _(
                    "Nothing is running, so there is no group to resize. Call resize while train "
                    "or run is running, from on_event or from another thread."
                )
                raise ClusterError(message)
            self._size.request(workers)

    @property
    def _elastic(self) -> Elastic | None:
        """As `Cluster._elastic`."""
        if self.min_workers is None or self.strategy != MULTI_WORKER:
            return None
        return Elastic(self.workers, self.elastic_batch)

    @property
    def _shards(self) -> int | None:
        """The number of shards of a function's data, if its global batch stays the same."""
        return self.workers if self._elastic == Elastic(self.workers) else None
