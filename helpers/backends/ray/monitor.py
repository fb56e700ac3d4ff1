"""Monitors a run on Ray from the notebook, and yields its events."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from helpers import labels
from helpers.backends.ray.event_queue import EventQueue
from helpers.backends.ray.tasks import (
    STACKS_SECONDS,
    TRAINER_ENV,
    RayRun,
    add_places,
    collect_stacks,
    fit,
)
from helpers.cluster.liveness import FailureCause, LivenessTracker
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack
from helpers.cluster.supervisor import exhaustion_message
from helpers.cluster.timeouts import SuspendSafeClock
from helpers.errors import ClusterError, StoppedError
from helpers.i18n import LocalNumber, _, ngettext
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.failures import to_exception

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.2
SHUTDOWN_TIMEOUT = 15.0
ANSWER_TIMEOUT = STACKS_SECONDS + 1.0  # of the event queue, on a busy machine
LOG_LINES = 12


class StackCollector:
    """Collects the stacks of a run's workers, from any thread.

    Args:
      tasks: the names of the workers.
    """

    def __init__(self, tasks: Sequence[str]) -> None:
        self._tasks = tasks
        self._event_queue: Any = None
        self._attempt = 0
        self._at_failure = Stacks()

    def begin(self, event_queue: Any, attempt: int) -> None:
        """Collects the stacks of an attempt from now on."""
        self._event_queue, self._attempt, self._at_failure = event_queue, attempt, Stacks()

    def end(self, stacks: Stacks | None = None) -> None:
        """Returns these stacks from now on, by default the last ones, because the run has ended."""
        self._event_queue = None
        if stacks is not None:
            self._at_failure = stacks

    def collect(self, *, before_kill: bool = False) -> Stacks:
        """The stacks of all workers or, after a failure, those collected before the kill."""
        event_queue = self._event_queue
        if event_queue is None:
            return self._at_failure
        reference = collect_stacks(event_queue, self._attempt, before_kill=before_kill)
        missing, answers = WaitsFor.START, {}
        try:
            answers = ray.get(reference, timeout=ANSWER_TIMEOUT)
        except ray.exceptions.GetTimeoutError:
            missing = WaitsFor.UNKNOWN
        except ray.exceptions.RayError:  # the run has just ended
            return self._at_failure
        stacks = Stacks()
        for task in self._tasks:
            stacks.update(answers.get(task, {task: TaskStack(task, missing)}))
        return stacks


def watch_run(
    run: RayRun, stopped: threading.Event, collector: StackCollector
) -> Generator[Event, None, None]:
    """Starts a run and yields its events until its end. Closing the generator ends it.

    Args:
      collector: collects the stacks of this run while it is active.

    Raises:
      UserCodeError, ConfigError, DataError: the job itself raised it, and is not restarted.
      ClusterError: a task failed after `max_restarts` restarts, or the workers did not start.
      StoppedError: `stopped` was set.
    """
    # Both run on the notebook's host, so the loss of another host does not end the run.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": here}
    event_queue = ray.remote(EventQueue).options(**options).remote()
    environment = {"env_vars": TRAINER_ENV}
    trainer = ray.remote(fit).options(max_retries=0, runtime_env=environment, **options)
    running = trainer.remote(run, event_queue)
    logger.info("Asked Ray for %d workers", run.workers)
    try:
        yield from _RunMonitor(run, event_queue, running, collector).events(stopped)
    except ray.exceptions.RayError as error:
        message = _("Ray could not finish the run: {reason}")
        raise ClusterError(message.format(reason=error)) from None
    finally:
        collector.end()
        _end(running)
        ray.kill(event_queue)


def _end(running: Any) -> None:
    """Ends Ray's trainer and with it the workers, or does nothing if it has ended."""
    # If killed at once, it would leave its CPUs reserved.
    ray.cancel(running)
    if not ray.wait([running], timeout=SHUTDOWN_TIMEOUT)[0]:
        ray.cancel(running, force=True)


class _RunMonitor:
    """The state of a run, according to its events."""

    def __init__(
        self, run: RayRun, event_queue: Any, running: Any, collector: StackCollector
    ) -> None:
        self._run = run
        self._collector = collector
        self._event_queue = event_queue
        self._running = running
        self._attempts = 0
        self._begin()
        self._collector.begin(event_queue, self._attempts)

    def _begin(self) -> None:
        """Resets the observations for a new attempt."""
        self._clock = SuspendSafeClock()
        tasks = [f"worker {index}" for index in range(self._run.workers)]
        # The heartbeats are checked on the workers' machines, and not forwarded.
        timeouts = replace(self._run.timeouts, heartbeat=math.inf)
        self._liveness = LivenessTracker(tasks, timeouts, self._clock)
        self._hosts: dict[str, str] = {}  # of the tasks that Ray has started
        self._aborted = False
        self._stacks = Stacks()  # collected before the attempt is aborted

    def events(self, stopped: threading.Event) -> Iterator[Event]:
        """Yields every event until Ray's trainer has ended."""
        while True:
            if stopped.is_set():
                raise StoppedError(_("The run was stopped."))
            ended, _rest = ray.wait([self._running], timeout=0)
            for event in ray.get(self._event_queue.take.remote(POLL_INTERVAL)):
                if event["event"] == EventType.ATTEMPT_FAILED:
                    yield self._restart(event)
                    self._collector.begin(self._event_queue, self._attempts)
                    continue
                yield self._update(event)
                self._check_error(event)
            if ended:
                ray.get(self._running)  # raises the exception of Ray's trainer
                return
            self._clock.tick()
            self._check_deadlines()

    def _update(self, event: Event) -> Event:
        """Processes an event."""
        kind, task = event["event"], event["task"]
        if event["attempt"] < self._attempts:
            return event  # of a worker of an aborted attempt
        if kind == EventType.LAUNCHED:
            logger.info("Ray started %s on %s", task, event["host"])
            self._hosts[task] = event["host"]
            return event
        self._liveness.observe(task, event)
        return event

    def _check_error(self, event: Event) -> None:
        """Raises the error of a worker if a restart would not help."""
        if event["event"] != EventType.ERROR or event["attempt"] != self._attempts:
            return
        if not event["retryable"]:
            raise to_exception(event["task"], event)

    def _check_deadlines(self) -> None:
        """Aborts the attempt if a timeout has expired.

        Raises:
          ClusterError: Ray has not even started it.
        """
        cause = None if self._aborted else self._liveness.check()
        if cause is None:
            return
        if self._liveness.not_ready and len(self._hosts) < self._run.workers:
            raise self._insufficient_resources_error()
        self._abort(cause)

    def _abort(self, cause: FailureCause) -> None:
        logger.warning("Aborting attempt %d: %s", self._attempts, cause.reason)
        self._aborted = True
        self._stacks = self._collector.collect(before_kill=True)
        self._collector.end(self._stacks)
        cause = cause._replace(reason=add_places(cause.reason, self._stacks))
        ray.get(self._event_queue.abort.remote(self._attempts, cause))

    def _restart(self, failure: Event) -> Event:
        """The event for a failure after which Ray restarts the group.

        Raises:
          ClusterError: Ray will not restart it.
        """
        self._collector.end(self._stacks or failure["stacks"])
        cause = self._root_cause(failure)
        if self._attempts >= self._run.max_restarts:
            raise self._exhausted(cause)
        self._attempts = failure["attempt"] + 1
        logger.warning(
            "Ray restarts the group, %d of %d: %s",
            self._attempts,
            self._run.max_restarts,
            cause.reason,
        )
        self._begin()
        return supervisor_event(
            EventType.GROUP_RESTART, cause.task, attempt=self._attempts, reason=cause.reason
        )

    def _root_cause(self, failure: Event) -> FailureCause:
        """The task whose failure caused the other failures, and the reason."""
        if failure["raised"] and (self._aborted or not failure["lost"]):
            return failure["raised"][0]
        task = f"worker {min(failure['lost'], default=0)}"
        message = _(
            "{task} was lost at step {step}: its process on {host}, or {host} itself, has died"
        )
        host = self._hosts.get(task, "?")
        values = {"task": labels.task(task), "step": self._liveness.step, "host": host}
        return FailureCause(task, message.format(**values))

    def _exhausted(self, cause: FailureCause) -> ClusterError:
        log = self._run.log(self._attempts, cause.task)
        if not log.exists():
            message = (
                ngettext(
                    "{reason}; Ray restarted the group {count} time (max_restarts={count}).",
                    "{reason}; Ray restarted the group {count} times (max_restarts={count}).",
                    self._attempts,
                )
                if self._attempts
                else _("{reason}; restarts are disabled (max_restarts=0).")
            )
            text = message.format(reason=cause.reason, count=self._attempts)
            return ClusterError(text, reason=cause.reason)
        message = exhaustion_message(cause.reason, self._attempts, log)
        lines = log.read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return ClusterError("\n".join([message, *lines]), reason=cause.reason)

    def _insufficient_resources_error(self) -> ClusterError:
        resource = "GPU" if self._run.gpus else "CPU"
        message = ngettext(
            "Ray did not start {workers} worker within {seconds:g} s. Each needs one "
            "{resource}. This Ray cluster has {all:g}, and {free:g} are free. Use fewer "
            "workers, add machines, or set start_timeout.",
            "Ray did not start {workers} workers within {seconds:g} s. Each needs one "
            "{resource}. This Ray cluster has {all:g}, and {free:g} are free. Use fewer "
            "workers, add machines, or set start_timeout.",
            self._run.workers,
        )
        return ClusterError(
            message.format(
                workers=self._run.workers,
                seconds=LocalNumber(self._run.timeouts.start),
                resource=resource,
                all=LocalNumber(ray.cluster_resources().get(resource, 0)),
                free=LocalNumber(ray.available_resources().get(resource, 0)),
            )
        )
