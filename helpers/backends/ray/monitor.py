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
    ELASTIC_ENV,
    STACKS_SECONDS,
    TRAINER_ENV,
    RayRun,
    add_places,
    collect_stacks,
    fit,
)
from helpers.cluster.group_size import GroupSize, RestartPolicy
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
    """Collects the stacks of a run's workers, from any thread."""

    def __init__(self) -> None:
        self._tasks: Sequence[str] = ()
        self._event_queue: Any = None
        self._attempt = 0
        self._at_failure = Stacks()

    def begin(self, event_queue: Any, attempt: int, tasks: Sequence[str]) -> None:
        """Collects the stacks of an attempt from now on.

        Args:
          tasks: the names of its workers.
        """
        self._tasks, self._attempt, self._at_failure = tasks, attempt, Stacks()
        self._event_queue = event_queue

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
    run: RayRun, size: GroupSize, stopped: threading.Event, collector: StackCollector
) -> Generator[Event, None, None]:
    """Starts a run and yields its events until its end. Closing the generator ends it.

    Args:
      size: the number of workers of each attempt.
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
    environment = {"env_vars": TRAINER_ENV | (ELASTIC_ENV if run.is_elastic else {})}
    trainer = ray.remote(fit).options(max_retries=0, runtime_env=environment, **options)
    running = trainer.remote(run, event_queue)
    logger.info("Asked Ray for %d workers", run.workers)
    try:
        yield from _RunMonitor(run, size, event_queue, running, collector).events(stopped)
    except ray.exceptions.RayError as error:
        message = _("Ray could not finish the run: {reason}")
        raise ClusterError(message.format(reason=error)) from None
    finally:
        collector.end()
        _end(running, event_queue)
        ray.kill(event_queue)


def _end(running: Any, event_queue: Any) -> None:
    """Ends Ray's trainer and with it the workers, or does nothing if it has ended."""
    event_queue.end.remote()
    # If killed at once, it would leave its CPUs reserved.
    ray.cancel(running)
    if not ray.wait([running], timeout=SHUTDOWN_TIMEOUT)[0]:
        ray.cancel(running, force=True)


class _RunMonitor:
    """The state of a run, according to its events."""

    def __init__(
        self,
        run: RayRun,
        size: GroupSize,
        event_queue: Any,
        running: Any,
        collector: StackCollector,
    ) -> None:
        self._run = run
        self._size = size
        self._restarts = RestartPolicy(size, run.max_restarts)
        self._collector = collector
        self._event_queue = event_queue
        self._running = running
        self._attempts = 0
        self._last_cause = FailureCause("worker 0", "")  # why the last attempt ended
        self._last_step = 0  # of the last attempt
        self._begin()

    def _begin(self) -> None:
        """Resets the observations for a new attempt."""
        self._clock = SuspendSafeClock()
        tasks = [f"worker {index}" for index in range(self._size.current)]
        # The heartbeats are checked on the workers' machines, and not forwarded.
        timeouts = replace(self._run.timeouts, heartbeat=math.inf)
        self._liveness = LivenessTracker(tasks, timeouts, self._clock)
        self._hosts: dict[str, str] = {}  # of the tasks that Ray has started
        self._aborted = False
        self._stacks = Stacks()  # collected before the attempt is aborted
        self._total_steps: int | None = None
        self._preempted: str | None = None  # the first task that was preempted
        self._is_resizing = False
        self._collector.begin(self._event_queue, self._attempts, tasks)

    def events(self, stopped: threading.Event) -> Iterator[Event]:
        """Yields every event until Ray's trainer has ended."""
        while True:
            if stopped.is_set():
                raise StoppedError(_("The run was stopped."))
            ended, _rest = ray.wait([self._running], timeout=0)
            for event in ray.get(self._event_queue.take.remote(POLL_INTERVAL)):
                if event["event"] == EventType.ATTEMPT_FAILED:
                    yield self._restart(event)
                    self._begin()
                elif event["event"] == EventType.SLOTS_COUNTED:
                    yield from self._answer(event)
                else:
                    yield self._update(event)
                    self._check_error(event)
                    self._check_size(event)
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
        if kind == EventType.RUN_INFO:
            self._total_steps = event["total_steps"]
        if kind == EventType.PREEMPTED and self._preempted is None:
            self._preempted = task
        self._liveness.observe(task, event)
        return event

    def _check_error(self, event: Event) -> None:
        """Raises the error of a worker if a restart would not help."""
        if event["event"] != EventType.ERROR or event["attempt"] != self._attempts:
            return
        if not event["retryable"]:
            raise to_exception(event["task"], event)

    def _check_size(self, event: Event) -> None:
        """Ends the attempt at a checkpoint, if the group should have another size."""
        is_checkpoint = event["event"] == EventType.CHECKPOINT
        if self._aborted or not is_checkpoint or event["attempt"] != self._attempts:
            return
        if self._size.is_due_at(event["step"], self._total_steps):
            self._aborted = self._is_resizing = True
            cause = FailureCause(event["task"], self._size.reason)
            ray.get(self._event_queue.abort.remote(self._attempts, cause))

    def _answer(self, event: Event) -> Iterator[Event]:
        """Updates the size from Ray's count, and answers if Ray waits for the size."""
        slots = event["slots"]
        message = _("Ray has resources for {workers}")
        self._size.set_slots(slots, message.format(workers=labels.workers(slots)))
        if event["request"] is None or not self._size.is_possible:
            return
        task, reason = self._last_cause.task, self._last_cause.reason or self._size.reason
        if resized := self._restarts.resize(self._last_step, reason, task):
            yield resized | {"attempt": self._attempts}
            self._begin()
        ray.get(self._event_queue.set_size.remote(event["request"], self._size.current))

    def _check_deadlines(self) -> None:
        """Aborts the attempt if a timeout has expired.

        Raises:
          ClusterError: Ray has not even started it.
        """
        cause = None if self._aborted else self._liveness.check()
        if cause is None:
            return
        if self._liveness.not_ready and len(self._hosts) < self._size.current:
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
        """The event for a failure, or a change of the size, after which the group is restarted.

        Raises:
          ClusterError: it is not restarted.
        """
        self._collector.end(self._stacks or failure["stacks"])
        cause = self._root_cause(failure)
        allowed = self._is_resizing or self._restarts.note_failure(
            cause.reason, is_worker=True, is_preempted=self._preempted is not None
        )
        if not allowed:
            raise self._exhausted(cause)
        self._attempts = failure["attempt"] + 1
        self._last_cause, self._last_step = cause, self._liveness.step
        return supervisor_event(
            EventType.GROUP_RESTART, cause.task, attempt=self._attempts, reason=cause.reason
        )

    def _root_cause(self, failure: Event) -> FailureCause:
        """The task whose failure caused the other failures, and the reason."""
        raised: list[FailureCause] = failure["raised"]
        if own := [cause for cause in raised if cause.task == self._preempted]:
            return own[0]
        if raised and (self._aborted or not failure["lost"]):
            return raised[0]
        task = f"worker {min(failure['lost'], default=0)}"
        message = _(
            "{task} was lost at step {step}: its process on {host}, or {host} itself, has died"
        )
        host = self._hosts.get(task, "?")
        values = {"task": labels.task(task), "step": self._liveness.step, "host": host}
        return FailureCause(task, message.format(**values))

    def _exhausted(self, cause: FailureCause) -> ClusterError:
        log, restarts = self._run.log(self._attempts, cause.task), self._restarts.restarts
        if not log.exists():
            message = (
                ngettext(
                    "{reason}; Ray restarted the group {count} time (max_restarts={count}).",
                    "{reason}; Ray restarted the group {count} times (max_restarts={count}).",
                    restarts,
                )
                if restarts
                else _("{reason}; restarts are disabled (max_restarts=0).")
            )
            text = message.format(reason=cause.reason, count=restarts)
            return ClusterError(text, reason=cause.reason)
        message = exhaustion_message(cause.reason, restarts, log)
        lines = log.read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return ClusterError("\n".join([message, *lines]), reason=cause.reason)

    def _insufficient_resources_error(self) -> ClusterError:
        resource = "GPU" if self._run.gpus else "CPU"
        workers = self._size.current if self._size.is_possible else self._size.minimum
        message = ngettext(
            "Ray did not start {workers} worker within {seconds:g} s. Each needs one "
            "{resource}. This Ray cluster has {all:g}, and {free:g} are free. Use fewer "
            "workers, add machines, or set start_timeout.",
            "Ray did not start {workers} workers within {seconds:g} s. Each needs one "
            "{resource}. This Ray cluster has {all:g}, and {free:g} are free. Use fewer "
            "workers, add machines, or set start_timeout.",
            workers,
        )
        return ClusterError(
            message.format(
                workers=workers,
                seconds=LocalNumber(self._run.timeouts.start),
                resource=resource,
                all=LocalNumber(ray.cluster_resources().get(resource, 0)),
                free=LocalNumber(ray.available_resources().get(resource, 0)),
            )
        )
