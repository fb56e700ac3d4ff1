"""The state and the actions of a panel, without widgets."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from traitlets import Instance, UseEnum

from helpers.cluster.local import PER_TASK, LocalCluster
from helpers.cluster.processes import TaskProcess
from helpers.course import lazy_defaults
from helpers.course.panel import scenarios
from helpers.course.panel.choices import Choices
from helpers.course.panel.interrupts import on_idle_interrupt
from helpers.course.panel.run import Run, RunRecord, TaskStatus
from helpers.course.panel.status import Status
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.i18n import _
from helpers.protocol.events import Event
from helpers.results.training_result import TrainingResult
from helpers.system.virtual_hosts import virtual_hosts_supported

# Seconds; shorter than by default, because a class watches. A first step takes longer.
HEARTBEAT_TIMEOUT, STEP_TIMEOUT = 4.0, 10.0
STOP_TIMEOUT = 10.0  # a stopped group is gone in 0.2 s

_states: weakref.WeakSet[PanelState] = weakref.WeakSet()
_start_lock = threading.RLock()


class PanelState(Choices):
    """Runs the choices of a panel, and keeps the state of the run.

    One training runs at a time in a process: starting another, here or in a second
    `PanelState`, stops the first.

    Attributes:
      fault_injection: whether faults can be injected: then the timeouts are shorter, and each
        process has its own network if the machine permits it.
      status: IDLE, RUNNING, STOPPING, DONE, STOPPED or FAILED; observers are called in the
        thread that changes it.
      error: what ended a failed or stopped run.
      run: the present or last run, else None.
      records: the finished runs of this session.
      sweep_position: which of how many runs of a sweep this one is; None without a sweep.
    """

    status = UseEnum(Status, default_value=Status.IDLE)
    error = Instance(BaseException, allow_none=True)

    def __init__(
        self,
        model_fn: Callable[..., Any] = lazy_defaults.model_fn,
        input_fn: Callable[..., Any] = lazy_defaults.input_fn,
        *,
        function: Callable[..., Any] | None = None,
        keras: int | None = None,
        fault_injection: bool = False,
        **choices: Any,
    ) -> None:
        super().__init__(model_fn, input_fn, function, keras, fault_injection)
        self._status_lock = threading.Lock()  # held where the status may become STOPPING, or final
        self.sweep_position: tuple[int, int] | None = None
        self.run: Run | None = None
        self.records: list[RunRecord] = []
        self.result: TrainingResult | None = None
        self._cluster: LocalCluster | None = None
        self._thread: threading.Thread | None = None
        self._finished = threading.Event()
        self.update(**choices)
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
        return self.planned_tasks(self.workers)

    def start(self, *, sweep_position: tuple[int, int] | None = None, **choices: Any) -> None:
        """Starts training in a separate thread and returns; a running one is stopped first.

        Args:
          sweep_position: which of how many runs of a sweep it is.

        Raises:
          ConfigError: a choice that this machine cannot run.
        """
        with _start_lock:
            stop_all()
            self.update(**choices)
            self.check()
            self.sweep_position = sweep_position
            self._reset()
            cluster = self._new_cluster()
            result = TrainingResult.for_run(self.strategy, self.workers, self.collective)
            batch_size = 0 if self.function else self.batch_size
            run = Run(result, self.planned_tasks(self.workers), batch_size)
            trained = [task.name for task in run.tasks if task.is_trainer]
            play = scenarios.start(self.scenario, trained, cluster.inject_fault)
            self._cluster, self.run = cluster, run
            self.status = Status.RUNNING
            self._finished.clear()
            # What is chosen from now on is not this run's.
            work = (cluster, run, self.train_options(), play)
            self._thread = threading.Thread(target=self._train, args=work, daemon=True)
            self._thread.start()

    def on_run_clicked(self) -> None:
        """As `start`, for a button: no page shows what a button raises, so an error is kept as
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
        with self._status_lock:
            if not (run and cluster and self.status == Status.RUNNING):
                return
            self.status = Status.STOPPING
            run.stopping = True
        cluster.stop()  # before the first process runs this does nothing: `_train` asks again

    def inject_fault(self, fault: str, task: str, **options: float) -> None:
        """Injects a fault into a process of the run; see `LocalCluster.inject_fault`."""
        self._started_cluster().inject_fault(fault, task, **options)

    def clear_fault(self, fault: str, task: str) -> None:
        """Clears a fault of a process of the run; see `LocalCluster.clear_fault`."""
        self._started_cluster().clear_fault(fault, task)

    def _started_cluster(self) -> LocalCluster:
        if not self._cluster:
            raise ClusterError(_("No training run has been started. Call start() first."))
        return self._cluster

    @property
    def processes(self) -> dict[str, TaskProcess]:
        """The latest process of each task, by its name."""
        cluster = self._cluster
        return {str(one.task): one for one in cluster.processes} if cluster else {}

    def wait(self, seconds: float | None = None) -> TrainingResult:
        """Waits for the end of the training; an interrupt meanwhile stops it.

        Raises:
          HelpersError: what `LocalCluster.train` raised, StoppedError among them.
          TimeoutError: it still runs after `seconds`.
        """
        if self._thread is None:
            raise ClusterError(_("No training run has been started. Call start() first."))
        try:
            ended = self._join(seconds)
        except KeyboardInterrupt:
            self.stop_and_wait()
            raise
        if not ended:
            message = _("The training run is still running after {seconds:g} s.")
            raise TimeoutError(message.format(seconds=seconds))
        if self.error:
            raise self.error
        assert self.result is not None
        return self.result

    def stop_and_wait(self) -> None:
        """Stops the training and waits until all its processes have gone."""
        self.stop()
        if self._thread and self._thread is not threading.current_thread():
            self._join(STOP_TIMEOUT)

    def close(self) -> None:
        """Ends the training and deletes logs and checkpoints."""
        self.stop_and_wait()
        if self._cluster:
            self._cluster.close()
            self._cluster = None

    def _join(self, seconds: float | None) -> bool:
        """Waits for the end of the thread; whether it came.

        On an event first: a `Thread.join` that an interrupt ends takes, before Python 3.13, the
        thread for ended (https://github.com/python/cpython/issues/90882).
        """
        if self._finished.wait(seconds) and self._thread:
            self._thread.join()
        return self._finished.is_set()

    def _new_cluster(self) -> LocalCluster:
        options: dict[str, Any] = {}
        if self.fault_injection:
            options = {"step_timeout": STEP_TIMEOUT, "heartbeat_timeout": HEARTBEAT_TIMEOUT}
            if virtual_hosts_supported():
                options["network"] = PER_TASK
        return LocalCluster(
            self.workers, strategy=self.strategy, collective=self.collective, **options
        )

    def _reset(self) -> None:
        """Deletes the files and the result of the last run."""
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
            self.records.append(run.finish(status))
            self.error = error
            with self._status_lock:
                self.status = status
            self._finished.set()

    def _work(
        self,
        cluster: LocalCluster,
        result: TrainingResult,
        options: dict[str, Any],
        on_event: Callable[[Event], None],
    ) -> None:
        """Trains, or calls the reader's function; the events update `result`."""
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
        state.stop_and_wait()
