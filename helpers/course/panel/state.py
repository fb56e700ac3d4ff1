"""The state and the actions of a panel, without widgets."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from traitlets import Instance, UseEnum

from helpers.cluster.local import PER_TASK, LocalCluster
from helpers.cluster.processes import TaskProcess
from helpers.cluster.stacks import Stacks
from helpers.course import lazy_defaults
from helpers.course.panel import scenarios
from helpers.course.panel.choices import Choices
from helpers.course.panel.interrupts import on_idle_interrupt
from helpers.course.panel.run import Run, RunRecord, TaskStatus
from helpers.course.panel.status import Status
from helpers.errors import ClusterError, ConfigError, HelpersError, StoppedError
from helpers.i18n import LocalNumber, _
from helpers.protocol.events import Event, EventType
from helpers.results.training_result import TrainingResult
from helpers.system.virtual_hosts import virtual_hosts_supported

# In seconds, and shorter than the defaults, because a class watches. A first step needs more time.
HEARTBEAT_TIMEOUT, STEP_TIMEOUT = 4.0, 10.0
STOP_TIMEOUT = 10.0  # a stopped group ends in 0.2 s

_states: weakref.WeakSet[PanelState] = weakref.WeakSet()
_start_lock = threading.RLock()


class PanelState(Choices):
    """Runs the choices of a panel, and keeps the state of the run.

    A process runs only one training run at a time. Starting another one, here or in a second
    `PanelState`, stops the first.

    Attributes:
      fault_injection: whether faults can be injected. If so, the timeouts are shorter, and each
        process has its own network if the machine supports it.
      status: IDLE, RUNNING, STOPPING, DONE, STOPPED or FAILED. Observers are called in the thread
        that changes it.
      error: the error that ended a failed or stopped run, or None.
      run: the current or last run, or None.
      records: the finished runs of this session.
      sweep_position: the number of the run in a sweep and the number of runs, or None without a
        sweep.
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
        self._status_lock = threading.Lock()  # held to change the status to STOPPING or a final one
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
        """Whether a run is active or is being stopped."""
        return self.status.is_busy

    @property
    def tasks(self) -> list[TaskStatus]:
        """The tasks of the current or last run, or the planned tasks without one."""
        if self.run:
            return self.run.tasks
        return self.planned_tasks(self.workers)

    def start(self, *, sweep_position: tuple[int, int] | None = None, **choices: Any) -> None:
        """Stops a current run, starts training in a separate thread, and returns.

        Args:
          sweep_position: the number of the run in a sweep, and the number of runs.

        Raises:
          ConfigError: this machine cannot run a choice.
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
            # Later changes of the choices do not affect this run.
            work = (cluster, run, self.train_options(), play)
            self._thread = threading.Thread(target=self._train, args=work, daemon=True)
            self._thread.start()

    def on_run_clicked(self) -> None:
        """Starts a run when the button is clicked.

        Errors of a button's handler are not visible on any page, so a ConfigError is stored in
        `error`. The second click of a double click is ignored.
        """
        if self.busy:
            return
        try:
            self.start()
        except ConfigError as refusal:
            self.error = refusal

    def stop(self) -> None:
        """Stops the current run, if any, and returns immediately."""
        run, cluster = self.run, self._cluster
        with self._status_lock:
            if not (run and cluster and self.status == Status.RUNNING):
                return
            self.status = Status.STOPPING
            run.stopping = True
        cluster.stop()  # no effect before the first process runs, so `_train` repeats it

    def inject_fault(self, fault: str, task: str, **options: float) -> None:
        """Injects a fault into a process of the run, like `LocalCluster.inject_fault`."""
        self._started_cluster().inject_fault(fault, task, **options)

    def clear_fault(self, fault: str, task: str) -> None:
        """Clears a fault of a process of the run, like `LocalCluster.clear_fault`."""
        self._started_cluster().clear_fault(fault, task)

    def stacks(self) -> Stacks:
        """Collects the stacks of the tasks in at most a second, like `LocalCluster.stacks`."""
        cluster = self._cluster
        return cluster.stacks() if cluster else Stacks()

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
        """Waits for the end of the run, which an interrupt stops.

        Raises:
          HelpersError: `LocalCluster.train` raised this error, such as StoppedError.
          TimeoutError: the run is still active after `seconds`.
        """
        if self._thread is None:
            raise ClusterError(_("No training run has been started. Call start() first."))
        try:
            ended = self._join(seconds)
        except KeyboardInterrupt:
            self.stop_and_wait()
            raise
        if not ended and seconds is not None:
            message = _("The training run is still running after {seconds:g} s.")
            raise TimeoutError(message.format(seconds=LocalNumber(seconds)))
        if self.error:
            raise self.error
        assert self.result is not None
        return self.result

    def stop_and_wait(self) -> None:
        """Stops the run and waits until all its processes have ended."""
        self.stop()
        if self._thread and self._thread is not threading.current_thread():
            self._join(STOP_TIMEOUT)

    def close(self) -> None:
        """Stops the run and deletes its logs and checkpoints."""
        self.stop_and_wait()
        if self._cluster:
            self._cluster.close()
            self._cluster = None

    def _join(self, seconds: float | None) -> bool:
        """Waits for the end of the thread, and returns whether it ended.

        It first waits for an event. Before Python 3.13, an interrupted `Thread.join` assumes that
        the thread has ended (https://github.com/python/cpython/issues/90882).
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
            if run.stopping:  # the stop was requested before a process existed
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
        """Trains, or calls the user's function, while events update `result`."""
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
            if event["event"] == EventType.GROUP_RESTART:
                result.add_stacks(cluster.stacks())
            result.add(event)
            on_event(event)

        try:
            cluster.run(self.function, keras=self.keras, on_event=take)
        except HelpersError:
            result.add_stacks(cluster.stacks())
            raise


def stop_all() -> None:
    """Stops the run of every PanelState of this process."""
    for state in list(_states):
        state.stop_and_wait()
