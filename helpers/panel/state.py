"""What the panel can choose and do, without a widget: usable, and tested, on its own."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from traitlets import Instance, UseEnum

from helpers import deferred
from helpers.cluster.local import LocalCluster
from helpers.cluster.processes import TaskProcess
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.i18n import _
from helpers.messages.events import Event
from helpers.panel import scenarios
from helpers.panel.choices import Choices
from helpers.panel.interrupts import on_idle_interrupt
from helpers.panel.run import Run, RunRecord, TaskStatus
from helpers.panel.status import Status
from helpers.results.training_result import TrainingResult
from helpers.system.hosts import are_permitted

# Seconds: nobody watches a frozen group for half a minute; but a first step may take its time.
SILENCE, STANDSTILL = 4.0, 10.0
END_SECONDS = 10.0  # a stopped group is gone in 0.2 s

_states: weakref.WeakSet[PanelState] = weakref.WeakSet()
_starting = threading.RLock()


class PanelState(Choices):
    """What a panel does with its choices, and what comes of it.

    One training runs at a time in a process: starting another, here or in a second
    `PanelState`, stops the first.

    Attributes:
      laboratory: whether processes can be harmed: then silence counts as a fault sooner, and each
        process has a network of its own, where the machine permits it.
      status: IDLE, RUNNING, STOPPING, DONE, STOPPED or FAILED; observers are called in the
        thread that changes it.
      error: what ended a failed or stopped run.
      run: the present or last run, else None.
      records: the finished runs of this session.
      turn: which of how many runs of a sweep this one is; None without a sweep.
    """

    status = UseEnum(Status, default_value=Status.IDLE)
    error = Instance(BaseException, allow_none=True)

    def __init__(
        self,
        model_fn: Callable[..., Any] = deferred.model_fn,
        input_fn: Callable[..., Any] = deferred.input_fn,
        *,
        function: Callable[..., Any] | None = None,
        keras: int = 2,
        laboratory: bool = False,
        **choices: Any,
    ) -> None:
        super().__init__(model_fn, input_fn, function, keras, laboratory)
        self._ending = threading.Lock()  # held where the status may become STOPPING, or final
        self.turn: tuple[int, int] | None = None
        self.run: Run | None = None
        self.records: list[RunRecord] = []
        self.result: TrainingResult | None = None
        self._cluster: LocalCluster | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self.choose(**choices)
        stop_all()
        _states.add(self)

    @property
    def busy(self) -> bool:
        """Whether a training runs or is being stopped."""
        return self.status.is_busy

    @property
    def tasks(self) -> list[TaskStatus]:
        """The tasks of the present or last run, or those that the choices would give."""
        if self.run:
            return self.run.tasks
        return self.planned(self.workers)

    def start(self, *, turn: tuple[int, int] | None = None, **choices: Any) -> None:
        """Begins a training in a thread of its own, and returns; one that runs is stopped first.

        Args:
          turn: which of how many runs of a sweep it is.

        Raises:
          ConfigError: a choice that this machine cannot run.
        """
        with _starting:
            stop_all()
            self.choose(**choices)
            self.check()
            self.turn = turn
            self._forget()
            cluster = self._new_cluster()
            result = TrainingResult.begun(self.strategy, self.workers, self.collective)
            batch_size = 0 if self.function else self.batch_size
            run = Run(result, self.planned(self.workers), batch_size)
            trained = [task.name for task in run.tasks if task.trains]
            play = scenarios.begin(self.scenario, trained, cluster.harm)
            self._cluster, self.run = cluster, run
            self.status = Status.RUNNING
            self._ended.clear()
            # What is chosen from now on is not this run's.
            work = (cluster, run, self.train_options(), play)
            self._thread = threading.Thread(target=self._train, args=work, daemon=True)
            self._thread.start()

    def press(self) -> None:
        """As `start`, for a button: no page shows what a button raises, so a refusal is kept as
        `error`. A second click of a double click is not a second run.
        """
        if self.busy:
            return
        try:
            self.start()
        except ConfigError as refusal:
            self.error = refusal

    def stop(self) -> None:
        """Ends the training; returns at once. Does nothing when none runs."""
        run, cluster = self.run, self._cluster
        with self._ending:
            if not (run and cluster and self.status == Status.RUNNING):
                return
            self.status = Status.STOPPING
            run.stopping = True
        cluster.stop()  # before the first process runs this does nothing: `_train` asks again

    def harm(self, deed: str, task: str, **how: float) -> None:
        """Does to a process of the run what `LocalCluster.harm` does.

        Raises:
          ConfigError, ClusterError: as it does.
        """
        if not self._cluster:
            raise ClusterError(_("No training has been started. Call start() first."))
        self._cluster.harm(deed, task, **how)

    def kill(self, task: str) -> None:
        """Sends SIGKILL to the process of a task, as "worker 1"; the group will restart."""
        process = self.process(task)
        if process and self.run and self.busy:
            self.run.lose(task)
            with suppress(ProcessLookupError):  # it ended between our look and the signal
                process.signal(signal.SIGKILL)

    def process(self, task: str) -> TaskProcess | None:
        """The latest process of a task, as "worker 1"."""
        return self.processes.get(task)

    @property
    def processes(self) -> dict[str, TaskProcess]:
        """The latest process of each task, by its name."""
        cluster = self._cluster
        return {str(one.task): one for one in cluster.processes} if cluster else {}

    def wait(self, seconds: float | None = None) -> TrainingResult:
        """Waits for the end of the training; an interrupt meanwhile stops it.

        Raises:
          LessonError: what `LocalCluster.train` raised, StoppedError among them.
          TimeoutError: it still runs after `seconds`.
        """
        if self._thread is None:
            raise ClusterError(_("No training has been started. Call start() first."))
        try:
            ended = self._join(seconds)
        except KeyboardInterrupt:
            self.end()
            raise
        if not ended:
            message = _("The training still runs after {seconds:g} s.")
            raise TimeoutError(message.format(seconds=seconds))
        if self.error:
            raise self.error
        assert self.result is not None
        return self.result

    def end(self) -> None:
        """Stops the training and waits until all its processes have gone."""
        self.stop()
        if self._thread and self._thread is not threading.current_thread():
            self._join(END_SECONDS)

    def close(self) -> None:
        """Ends the training and deletes logs and checkpoints."""
        self.end()
        if self._cluster:
            self._cluster.close()
            self._cluster = None

    def _join(self, seconds: float | None) -> bool:
        """Waits for the end of the thread; whether it came.

        On an event first: a `Thread.join` that an interrupt ends takes, before Python 3.13, the
        thread for ended (https://github.com/python/cpython/issues/90882).
        """
        if self._ended.wait(seconds) and self._thread:
            self._thread.join()
        return self._ended.is_set()

    def _new_cluster(self) -> LocalCluster:
        hosts = self.laboratory and are_permitted()
        cluster = LocalCluster(
            self.workers, strategy=self.strategy, collective=self.collective, hosts=hosts
        )
        if self.laboratory:
            sooner = replace(cluster.deadlines, silence=SILENCE, progress=STANDSTILL)
            cluster.deadlines = sooner
        return cluster

    def _forget(self) -> None:
        """Deletes what the last run has left on disk."""
        self.close()
        self.result = self.error = None

    def _train(
        self,
        cluster: LocalCluster,
        run: Run,
        options: dict[str, Any],
        play: Callable[[Event], None],
    ) -> None:
        status = Status.FAILED
        error: Exception | None = None

        def on_event(event: Event) -> None:
            run.add(event, cluster.processes)
            play(event)
            if run.stopping:  # it was asked for before there was a process to stop
                cluster.stop()

        try:
            with on_idle_interrupt(self.stop):
                self._work(cluster, run.result, options, on_event)
            self.result = run.result
            status = Status.DONE
        except StoppedError as stopped:
            status, error = Status.STOPPED, stopped
        except Exception as failure:
            error = failure
        finally:
            self.records.append(run.end(status))
            self.error = error
            with self._ending:
                self.status = status
            self._ended.set()

    def _work(
        self,
        cluster: LocalCluster,
        result: TrainingResult,
        options: dict[str, Any],
        on_event: Callable[[Event], None],
    ) -> None:
        """Trains, or calls the reader's function; `result` is filled by what is told meanwhile."""
        if self.function is None:
            cluster.train(
                self.model_fn,
                self.input_fn,
                **options,
                on_event=on_event,
                progress=False,
                result=result,
            )
            return

        def take(event: Event) -> None:
            result.add(event)
            on_event(event)

        cluster.run(self.function, keras=self.keras, on_event=take)


def stop_all() -> None:
    """Ends the training of every PanelState of this process."""
    for state in list(_states):
        state.end()
