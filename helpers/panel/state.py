"""What the panel can choose and do, without a widget: usable, and tested, on its own."""

from __future__ import annotations

import math
import signal
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from traitlets import (
    Bool,
    Enum,
    Float,
    HasTraits,
    Instance,
    Int,
    TraitError,
    UseEnum,
    observe,
    validate,
)

from helpers import deferred
from helpers.cluster.fork_client import can_fork
from helpers.cluster.local import LocalCluster
from helpers.cluster.processes import TaskProcess
from helpers.errors import ClusterError, ConfigError, StoppedError, unknown_choice
from helpers.i18n import _, ngettext, number
from helpers.messages.events import Event
from helpers.panel import scenarios
from helpers.panel.code import training_code
from helpers.panel.interrupts import on_idle_interrupt
from helpers.panel.run import Run, RunRecord, TaskStatus, planned_tasks
from helpers.panel.status import Status
from helpers.params import DEFAULT_PARAMS
from helpers.results.training_result import TrainingResult
from helpers.strategies import COLLECTIVES, MULTI_WORKER, ONE_DEVICE, STRATEGIES
from helpers.system.hosts import are_permitted
from helpers.system.machine import cores, free_memory, needed_memory, nvidia_gpus

CHOICES = (
    "strategy",
    "workers",
    "collective",
    "batch_size",
    "learning_rate",
    "epochs",
    "evaluator",
    "scenario",
)
# Seconds: nobody watches a frozen group for half a minute; but a first step may take its time.
SILENCE, STANDSTILL = 4.0, 10.0
SAVE_STEPS = 100  # a killed worker costs a reader two seconds of training, not five
END_SECONDS = 10.0  # a stopped group is gone in 0.2 s

_states: weakref.WeakSet[PanelState] = weakref.WeakSet()
_starting = threading.RLock()


class PanelState(HasTraits):
    """Choices, actions and results of a panel.

    One training runs at a time in a process: starting another, here or in a second
    `PanelState`, stops the first.

    Attributes:
      strategy, workers, collective, batch_size, learning_rate, epochs: as `LocalCluster` and
        its `train` take them; `batch_size` is per worker.
      evaluator: whether a process of its own evaluates beside the training.
      scenario: of `helpers.panel.scenarios`, what befalls the training by itself.
      laboratory: whether processes can be harmed: then silence counts as a fault sooner, and each
        process has a network of its own, where the machine permits it.
      status: IDLE, RUNNING, STOPPING, DONE, STOPPED or FAILED; observers are called in the
        thread that changes it.
      error: what ended a failed or stopped run.
      run: the present or last run, else None.
      records: the finished runs of this session.
    """

    strategy = Enum(STRATEGIES, STRATEGIES[0])
    workers = Int(2, min=1, max=1024)
    collective = Enum(COLLECTIVES, "AUTO")
    batch_size = Int(DEFAULT_PARAMS["batch_size"], min=1, max=2**31 - 1)
    learning_rate = Float(DEFAULT_PARAMS["learning_rate"], min=1e-6, max=1e6)
    epochs = Int(1, min=1, max=2**31 - 1)
    evaluator = Bool(False)
    scenario = Enum([scenarios.NONE, *scenarios.SCENARIOS], scenarios.NONE)
    status = UseEnum(Status, default_value=Status.IDLE)
    error = Instance(BaseException, allow_none=True)

    def __init__(
        self,
        model_fn: Callable[..., Any] = deferred.model_fn,
        input_fn: Callable[..., Any] = deferred.input_fn,
        *,
        laboratory: bool = False,
        **choices: Any,
    ) -> None:
        super().__init__()
        self.laboratory = laboratory
        self.model_fn = model_fn
        self.input_fn = input_fn
        self.run: Run | None = None
        self.records: list[RunRecord] = []
        self.result: TrainingResult | None = None
        self._cluster: LocalCluster | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self.choose(**choices)
        stop_all()
        _states.add(self)

    @validate("learning_rate")
    def _check_number(self, proposal: Any) -> float:
        """Refuses "not a number", which is neither below a bound nor above one."""
        if math.isnan(proposal["value"]):
            raise TraitError(_("it is not a number."))
        return proposal["value"]

    @observe("strategy")
    def _fit_the_strategy(self, change: Any) -> None:
        """Takes back what the new strategy cannot have."""
        if self.why_not("collective", self.collective):
            self.collective = "AUTO"
        if self.strategy == ONE_DEVICE:
            self.workers = 1

    @property
    def busy(self) -> bool:
        """Whether a training runs or is being stopped."""
        return self.status.is_busy

    @property
    def tasks(self) -> list[TaskStatus]:
        """The tasks of the present or last run, or those that the choices would give."""
        if self.run:
            return self.run.tasks
        return self._planned(self.workers)

    def choose(self, **choices: Any) -> None:
        """Sets several choices.

        Raises:
          ConfigError: a name or a value is unknown.
        """
        for name, value in choices.items():
            if name not in CHOICES:
                raise unknown_choice("choice", name, CHOICES)
            try:
                setattr(self, name, value)
            except Exception as error:  # traitlets' TraitError and what comparing may raise
                message = _("{name}={value!r} cannot be: {error}")
                raise ConfigError(message.format(name=name, value=value, error=error)) from None

    def why_not(self, name: str, value: Any) -> str | None:
        """Why this machine cannot run a choice; None when it can."""
        if name == "collective" and value == "NCCL" and (gpus := nvidia_gpus()) < self.workers:
            return _("NCCL needs an NVIDIA GPU for each worker; GPUs found: {count}.").format(
                count=gpus
            )
        if name == "collective" and value != "AUTO" and self.strategy != MULTI_WORKER:
            return _("{strategy} has no collective to choose.").format(strategy=self.strategy)
        if name == "workers" and value > 1:
            if self.strategy == ONE_DEVICE:
                return _("OneDeviceStrategy trains on one device.")
            free = free_memory()
            need = needed_memory(len(self._planned(value)), forked=can_fork())
            if free is not None and free < need:
                return _(
                    "{value} workers need about {need} GB of memory; {free} GB are free."
                ).format(
                    value=value, need=number(need / 1e9, ".1f"), free=number(free / 1e9, ".1f")
                )
        return None

    def notes(self) -> list[str]:
        """What a reader should know before choosing, beyond what is impossible."""
        if self.workers <= (count := cores()):
            return []
        return [
            ngettext(
                "This machine has {count} core: its workers share it, and go no faster together.",
                "This machine has {count} cores: more workers share them, and go no faster.",
                count,
            ).format(count=count)
        ]

    def code(self) -> str:
        """Python code that trains with the same choices, and runs as it stands."""
        group: dict[str, Any] = {"workers": self.workers}
        if self.strategy == MULTI_WORKER:
            group["collective"] = self.collective
        else:
            group["strategy"] = self.strategy
        return training_code(group, self._train_options(), self.model_fn, self.input_fn)

    def start(self, **choices: Any) -> None:
        """Begins a training in a thread of its own, and returns; one that runs is stopped first.

        Raises:
          ConfigError: a choice that this machine cannot run.
        """
        with _starting:
            stop_all()
            self.choose(**choices)
            for name in CHOICES:
                if reason := self.why_not(name, getattr(self, name)):
                    raise ConfigError(reason)
            self._forget()
            cluster = self._new_cluster()
            result = TrainingResult.begun(self.strategy, self.workers, self.collective)
            run = Run(result, self._planned(self.workers), self.batch_size)
            self._cluster, self.run = cluster, run
            self.status = Status.RUNNING
            self._ended.clear()
            arguments = (cluster, run, self._train_options())
            self._thread = threading.Thread(target=self._train, args=arguments, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the training; returns at once. Does nothing when none runs."""
        run, cluster = self.run, self._cluster
        if run and cluster and self.status == Status.RUNNING:
            self.status = Status.STOPPING
            run.stopping = True
            cluster.stop()  # before the first process runs this does nothing: see _on_event

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

    def _planned(self, workers: int) -> list[TaskStatus]:
        return planned_tasks(workers, evaluator=self.evaluator, strategy=self.strategy)

    def _forget(self) -> None:
        """Deletes what the last run has left on disk."""
        self.close()
        self.result = self.error = None

    def _train_options(self) -> dict[str, Any]:
        """The choices as keyword arguments of `LocalCluster.train`."""
        options: dict[str, Any] = {
            "epochs": self.epochs,
            "params": {"batch_size": self.batch_size, "learning_rate": self.learning_rate},
            "save_checkpoints_steps": SAVE_STEPS,
        }
        return options | ({"evaluate": "beside"} if self.evaluator else {})

    def _train(self, cluster: LocalCluster, run: Run, options: dict[str, Any]) -> None:
        status = Status.FAILED
        error: Exception | None = None
        trained = [task.name for task in run.tasks if task.trains]
        play = scenarios.begin(self.scenario, trained, cluster.harm)

        def on_event(event: Event) -> None:
            run.add(event, cluster.processes)
            play(event)
            if run.stopping:  # it was asked for before there was a process to stop
                cluster.stop()

        try:
            with on_idle_interrupt(self.stop):
                self.result = cluster.train(
                    self.model_fn,
                    self.input_fn,
                    **options,
                    on_event=on_event,
                    progress=False,
                    result=run.result,
                )
            status = Status.DONE
        except StoppedError as stopped:
            status, error = Status.STOPPED, stopped
        except Exception as failure:
            error = failure
        finally:
            self.records.append(run.end(status))
            self.error = error
            self.status = status
            self._ended.set()


def stop_all() -> None:
    """Ends the training of every PanelState of this process."""
    for state in list(_states):
        state.end()
