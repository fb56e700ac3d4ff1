"""One run on Ray, watched from the notebook: events come out of it, errors and restarts."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from helpers.cluster.deadlines import WatchClock
from helpers.engines.ray.tasks import Mailbox, RayRun, fit, fit_environment, open_mail
from helpers.errors import ClusterError, StoppedError
from helpers.i18n import _, ngettext
from helpers.messages.events import Event, Kind, watched
from helpers.messages.failures import final_error, raised

POLL_SECONDS = 0.2
END_SECONDS = 15.0


def watch(run: RayRun, stopped: threading.Event) -> Generator[Event, None, None]:
    """Starts a run and yields its events until it has ended; closing the generator ends it.

    Raises:
      UserCodeError, ConfigError, DataError: the work itself raised; it is not begun again.
      ClusterError: a fault came after `max_restarts` restarts, or the workers did not start.
      StoppedError: `stopped` was set.
    """
    # Both live where the notebook does: no other host takes the run with it.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options: dict[str, Any] = {"num_cpus": 0, "scheduling_strategy": here}
    mailbox = ray.remote(Mailbox).options(**options).remote()
    environment = {"env_vars": fit_environment(run.keras)}
    trainer = ray.remote(fit).options(max_retries=0, runtime_env=environment, **options)
    running = trainer.remote(run, mailbox)
    try:
        yield from _Watch(run, mailbox, running).events(stopped)
    except ray.exceptions.RayError as error:
        message = _("Ray could not finish the run: {reason}")
        raise ClusterError(message.format(reason=error)) from None
    finally:
        _end(running)
        ray.kill(mailbox)


def _end(running: Any) -> None:
    """Ends Ray's trainer, and with it the workers; does nothing if it has ended."""
    # Killed at once, it would leave its share of the CPUs reserved.
    ray.cancel(running)
    if not ray.wait([running], timeout=END_SECONDS)[0]:
        ray.cancel(running, force=True)


class _Watch:
    """What has been heard of a run."""

    def __init__(self, run: RayRun, mailbox: Any, running: Any) -> None:
        self._run = run
        self._mailbox = mailbox
        self._running = running
        self._attempts = 0
        self._step = 0
        self._begin()

    def _begin(self) -> None:
        """Nothing of this attempt has been heard yet."""
        self._clock = WatchClock()
        self._progress: float | None = None  # on that clock; None before the first "ready"
        self._hosts: dict[str, str] = {}
        self._errors: dict[str, Event] = {}

    def events(self, stopped: threading.Event) -> Iterator[Event]:
        """Yields every event until Ray's trainer has ended."""
        while True:
            if stopped.is_set():
                raise StoppedError(_("The run was stopped."))
            ended, _rest = ray.wait([self._running], timeout=0)
            for event in map(open_mail, ray.get(self._mailbox.take.remote(POLL_SECONDS))):
                if event is None:
                    continue
                failed = event["event"] == Kind.FAILURE
                yield self._restart(event) if failed else self._note(event)
            if ended:
                ray.get(self._running)  # raises what Ray's trainer has raised
                return
            self._clock.tick()
            if self._progress is None and self._clock.now > self._run.deadlines.start:
                raise self._late()

    def _note(self, event: Event) -> Event:
        """Remembers what a later sentence may need."""
        if event["attempt"] < self._attempts:
            return event  # of a worker that has been given up
        match event["event"]:
            case Kind.STARTED:
                self._hosts[event["task"]] = event["host"]
            case Kind.READY | Kind.STEP:
                self._progress = self._clock.now
                self._step = max(self._step, event["step"])
            case Kind.ERROR:
                self._errors[event["task"]] = event
                if not event["restartable"]:
                    raise final_error(event["task"], event)
        return event

    def _restart(self, failure: Event) -> Event:
        """The event for a failure that Ray answers with a new group.

        Raises:
          ClusterError: it will not.
        """
        task = f"worker {(failure['lost'] or failure['raised'])[0]}"
        reason = self._reason(task)
        if self._attempts >= self._run.max_restarts:
            message = ngettext(
                "{reason}; Ray restarted the group {count} time (max_restarts={count}).",
                "{reason}; Ray restarted the group {count} times (max_restarts={count}).",
                self._attempts,
            )
            raise ClusterError(message.format(reason=reason, count=self._attempts))
        self._attempts = failure["attempt"] + 1
        self._begin()
        return watched(Kind.RESTART, task, attempt=self._attempts, reason=reason)

    def _reason(self, task: str) -> str:
        """Why an attempt failed, in a sentence without its stop."""
        if error := self._errors.get(task):
            return raised(task, self._step, error)
        values = {"task": task, "step": self._step}
        limit = self._run.deadlines.progress
        if self._progress is not None and self._clock.now - self._progress > limit:
            message = _("{task} and its peers made no step for {seconds:g} s after step {step}")
            return message.format(seconds=limit, **values)
        message = _("{task} was lost at step {step}: its process on {host}, or {host}, has ended")
        return message.format(host=self._hosts.get(task, "?"), **values)

    def _late(self) -> ClusterError:
        seconds = self._run.deadlines.start
        if self._hosts:
            message = _("The workers were started, but were not ready within {seconds:g} s.")
            return ClusterError(message.format(seconds=seconds))
        resource = "GPU" if self._run.gpus else "CPU"
        message = _(
            "Ray did not start {workers} workers within {seconds:g} s. Each needs one {resource}, "
            "and this Ray has {all:g}, of which {free:g} are free. Ask for fewer workers, add "
            "machines, or set start_timeout."
        )
        return ClusterError(
            message.format(
                workers=self._run.workers,
                seconds=seconds,
                resource=resource,
                all=ray.cluster_resources().get(resource, 0),
                free=ray.available_resources().get(resource, 0),
            )
        )
