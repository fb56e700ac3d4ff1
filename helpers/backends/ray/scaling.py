"""The number of workers of an elastic group on Ray: Ray counts its resources, the notebook decides.

Ray Train's elastic scaling requests resources for the largest group from Ray's autoscaler, counts
the workers that fit, and starts a group of any size. By itself, it resizes a running group at any
time, not at a checkpoint, and it has no `resize`. So this policy asks the notebook instead.
"""

from __future__ import annotations

import time
from typing import Any

import ray
from ray.train import ScalingConfig
from ray.train.v2._internal.execution.scaling_policy import (
    AUTOSCALING_REQUESTS_GET_TIMEOUT_S,
    ElasticScalingPolicy,
    NoopDecision,
    ScalingDecision,
)

COUNT_INTERVAL = 2.0  # seconds between two counts while the group is running
REQUEST_SECONDS = 1.0  # in which the notebook answers, or is asked again


class NotebookScalingPolicy(ElasticScalingPolicy):
    """Gives each attempt the number of workers that the notebook chooses.

    Runs in the process of Ray's controller.

    Args:
      event_queue: the `EventQueue` of the run.
    """

    def __init__(self, scaling_config: ScalingConfig, event_queue: Any) -> None:
        super().__init__(scaling_config)
        self._event_queue = event_queue
        self._counted = time.monotonic()

    def make_decision_for_non_running_worker_group(self) -> ScalingDecision:
        """Called by Ray before each attempt, and again until it returns a size.

        Raises:
          RuntimeError: the notebook has ended the run, for instance after too many failures.
        """
        self._maybe_send_resource_request()
        slots = self._count_slots()
        if slots is None:
            return NoopDecision()
        workers = ray.get(self._event_queue.request_size.remote(slots, REQUEST_SECONDS))
        if workers is None:
            return NoopDecision()
        if not workers:
            raise RuntimeError("The notebook has ended the run.")
        return self._get_resize_decision(workers)

    def make_decision_for_running_worker_group(
        self, worker_group_state: Any, worker_group_status: Any
    ) -> ScalingDecision:
        """Called by Ray while the group is running. Reports resources, but changes nothing."""
        self._maybe_send_resource_request()
        if time.monotonic() - self._counted > COUNT_INTERVAL:
            slots = self._count_slots()
            if slots is not None:
                self._event_queue.report_slots.remote(slots)
            self._counted = time.monotonic()
        return NoopDecision()

    def _count_slots(self) -> int | None:
        """The number of workers that fit, at most the largest group. None if Ray does not answer.

        Without `recompute`, it would be up to 20 s old.
        """
        coordinator: Any = self._autoscaling_coordinator
        answer = coordinator.get_reserved_resources.remote(self._requester_id, recompute=True)
        try:
            reserved = ray.get(answer, timeout=AUTOSCALING_REQUESTS_GET_TIMEOUT_S)
        except ray.exceptions.RayError:
            return None
        return self._count_possible_workers(reserved)
