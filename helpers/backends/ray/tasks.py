"""The functions that run in Ray's processes: the trainer, and the supervisor of each worker."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig, UserCallback
from ray.train.backend import Backend, BackendConfig

from helpers.cluster.debugger_prompts import decline
from helpers.cluster.group import WorkerGroup
from helpers.cluster.liveness import FailureCause
from helpers.cluster.prewarm import is_prewarming
from helpers.cluster.processes import TaskProcess
from helpers.cluster.respawn import TaskFailure
from helpers.cluster.stacks import Stacks, describe
from helpers.cluster.timeouts import Timeouts
from helpers.errors import ClusterError, ConfigError, StoppedError
from helpers.i18n import _, join_clauses, set_language
from helpers.protocol import payload
from helpers.protocol.events import Event, EventType, supervisor_event
from helpers.protocol.failures import error_fields
from helpers.system.ports import free_ports
from helpers.tf_config import TFConfig, build_tf_configs, set_tf_config_env

STACKS_SECONDS = 2.0  # for the stacks of all workers together


@dataclass(frozen=True)
class RayRun:
    """The options of a run, for all its processes.

    Attributes:
      folder: contains the payload, the workers' logs and Ray's files. All hosts can access it.
      workers: the number of workers of the first and largest group.
      min_workers: the minimum number of workers.
      gpus: whether each worker gets a GPU.
      max_restarts: the number of faults after which the group is restarted.
      timeouts: how long to wait before a task counts as failed.
      language: of the messages.
      keras: the Keras version that the workers import.
    """

    folder: Path
    workers: int
    min_workers: int
    gpus: bool
    max_restarts: int
    timeouts: Timeouts
    language: str
    keras: int

    @property
    def is_elastic(self) -> bool:
        """Whether the number of workers can change."""
        return self.min_workers < self.workers

    @property
    def payload(self) -> Path:
        """The file that contains the job."""
        return self.folder / "payload.pkl"

    def log(self, attempt: int, task: object) -> Path:
        """The log of a worker, in a folder that all workers of an attempt share."""
        return self.folder / f"attempt-{attempt}" / f"{str(task).replace(' ', '-')}.log"


TRAINER_ENV = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # keeps the meaning of the reader's relative paths
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # its requests for restarts would be lost
}
# An elastic group that waits for a machine whose loss Ray has not detected yet tries another size.
ELASTIC_ENV = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "10"}
# Otherwise Ray kills the fork server of an ended process before the server has ended the rest.
WORKER_ENV = {"RAY_kill_child_processes_on_worker_exit": "0"}


def fit(run: RayRun, event_queue: Any) -> None:
    """Runs Ray's trainer to its end, in a separate process that can be ended.

    Does not use `TensorflowTrainer`, which imports TensorFlow needlessly here and next to each
    worker.
    """
    from ray.train.v2._internal.callbacks import DatasetsCallback
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    from helpers.backends.ray.scaling import NotebookScalingPolicy

    class Trainer(DataParallelTrainer):
        def _create_default_callbacks(self) -> list[Any]:
            # No process per attempt for Ray's datasets, which are not used.
            callbacks = super()._create_default_callbacks()
            return [one for one in callbacks if not isinstance(one, DatasetsCallback)]

        def _initialize_and_run_controller(self, **options: Any) -> Any:
            if run.is_elastic:
                options["scaling_policy"] = NotebookScalingPolicy(self.scaling_config, event_queue)
            return super()._initialize_and_run_controller(**options)

    trainer = Trainer(
        train_loop_per_worker,
        train_loop_config={"run": run, "event_queue": event_queue},
        backend_config=TFConfigBackendConfig(),
        scaling_config=ScalingConfig(
            num_workers=(run.min_workers, run.workers) if run.is_elastic else run.workers,
            use_gpu=run.gpus,
            placement_strategy="SPREAD",
        ),
        run_config=RunConfig(
            name="ray",
            storage_path=str(run.folder),
            # The failures of an elastic group are counted in the notebook.
            failure_config=FailureConfig(max_failures=-1 if run.is_elastic else run.max_restarts),
            callbacks=[FailureReporter(event_queue)],
            worker_runtime_env={"env_vars": WORKER_ENV},
        ),
    )
    with suppress(SystemExit):  # raised by Ray's trainer when it is cancelled
        trainer.fit()


class TFConfigBackendConfig(BackendConfig):
    """Makes Ray set the `TF_CONFIG` of each worker."""

    @property
    def backend_cls(self) -> type[Backend]:
        """See `BackendConfig.backend_cls`."""
        return _TFConfigBackend


class _TFConfigBackend(Backend):
    def on_start(self, worker_group: Any, backend_config: BackendConfig) -> None:
        """Called by Ray when all workers are placed."""
        configs = build_tf_configs(worker_group.execute(_address))
        told = [
            worker_group.execute_single_async(index, set_tf_config_env, config)
            for index, config in enumerate(configs)
        ]
        ray.get(told)


def _address() -> str:
    host = ray.util.get_node_ip_address()
    return f"[{host}]:{free_ports(1)[0]}" if ":" in host else f"{host}:{free_ports(1)[0]}"


class FailureReporter(UserCallback):
    """Reports from Ray's controller to the event queue that an attempt has failed."""

    def __init__(self, event_queue: Any) -> None:
        self._event_queue = event_queue

    def after_exception(self, run_context: Any, worker_exceptions: Mapping[int, Exception]) -> None:
        """Called by Ray before it ends the group, with the exception of each worker."""
        lost = [r for r, error in worker_exceptions.items() if not isinstance(error, ClusterError)]
        ray.get(self._event_queue.fail.remote(sorted(lost)))


class EventForwarder:
    """Sends the events of one worker to the event queue, without waiting for their arrival."""

    def __init__(self, event_queue: Any) -> None:
        self._event_queue = event_queue
        self._host = ray.util.get_node_ip_address()
        self._last: Any = None
        self.attempt: int = ray.get(event_queue.attempt.remote())

    def __call__(self, event: Event) -> None:
        """Sends an event, but no heartbeats, which are checked on the worker's machine."""
        about: Event = {"attempt": self.attempt}
        if event["event"] in (EventType.LAUNCHED, EventType.STARTED):
            about["host"] = self._host  # the host name that its peers and the notebook use
        if event["event"] != EventType.HEARTBEAT:
            self._last = self._event_queue.put.remote(event | about)

    def report_cause(self, failure: TaskFailure, own: Stacks) -> None:
        """Reports why the attempt is about to fail and, after a timeout, where all workers are.

        Args:
          own: the stacks of this worker, collected before its process was killed. The failure
            describes them if the worker reported its stack.
        """
        task = str(failure.process.task)
        reason, stacks = str(failure), Stacks()
        if own:
            answers = ray.get(collect_stacks(self._event_queue, self.attempt, before_kill=True))
            for answer in answers.values():
                stacks.update(answer)
            others = [s for name, s in stacks.items() if name != task or not own.answered]
            reason = add_places(reason, Stacks({stack.task: stack for stack in others}))
        cause = FailureCause(task, reason)
        ray.get(self._event_queue.report_cause.remote(self.attempt, cause, stacks))

    def answer_stack_requests(self, task: str, group: WorkerGroup) -> None:
        """Sends the stacks of a worker at each request, in a separate thread."""
        queue = self._event_queue

        def answer() -> None:
            last = None
            with suppress(ray.exceptions.RayError):  # the event queue has ended, so the run is over
                wait = queue.wait_stack_request.remote
                while request := ray.get(wait(self.attempt, task, last)):
                    last, before_kill = request
                    stacks = group.stacks(before_kill=before_kill)
                    ray.get(queue.put_stacks.remote(last, task, stacks))

        threading.Thread(target=answer, daemon=True).start()

    def flush(self) -> None:
        """Waits until all events have arrived."""
        if self._last is not None:
            ray.get(self._last)

    def when_aborted(self) -> int:
        """Returns a descriptor that becomes readable when this attempt is aborted."""
        woken, wake = os.pipe()

        def wait() -> None:
            with suppress(ray.exceptions.RayError):  # the event queue has ended, so the run is over
                ray.get(self._event_queue.wait_aborted.remote(self.attempt))
            os.write(wake, b"s")

        threading.Thread(target=wait, daemon=True).start()
        return woken


def collect_stacks(event_queue: Any, attempt: int, *, before_kill: bool = False) -> Any:
    """Asks the event queue for all workers' stacks. Returns Ray's reference to the answers."""
    return event_queue.collect_stacks.remote(attempt, STACKS_SECONDS, before_kill=before_kill)


def add_places(reason: str, stacks: Stacks) -> str:
    """Appends where workers are to a reason, if any of them reports its stack."""
    return join_clauses([reason, describe(stacks.values())]) if stacks.answered else reason


def train_loop_per_worker(config: Mapping[str, Any]) -> None:
    """Starts the process of one worker, supervises it, and forwards its events.

    Raises:
      ClusterError: a failure after which Ray restarts the group.
    """
    run: RayRun = config["run"]
    set_language(run.language)
    forwarder = EventForwarder(config["event_queue"])
    worker = TFConfig.from_env()
    try:
        payload.read(run.payload)  # raises an error if this machine cannot access the folder
        with closing(_group(run, worker, forwarder.attempt)) as group:
            forwarder.answer_stack_requests(str(worker.task), group)
            for event in group.monitor(forwarder.when_aborted()):
                if event["event"] == EventType.STARTED:
                    # Reads the fork server's message. Unread, it would break the server's socket
                    # when this process is killed, and end the server before its cleanup.
                    is_prewarming()
                forwarder(_without_prompt(event, group))
    except ConfigError as error:
        forwarder(supervisor_event(EventType.ERROR, worker.task, **error_fields(error)))
    except StoppedError as error:
        raise ClusterError(str(error)) from None
    except TaskFailure as failure:
        # The notebook receives an error that a restart would not fix, and ends the run. If it were
        # raised here, it would restart the run.
        if not failure.error or failure.error["retryable"]:
            forwarder.report_cause(failure, group.stacks())
            raise ClusterError(str(failure)) from None
    finally:
        forwarder.flush()


def _without_prompt(event: Event, group: WorkerGroup) -> Event:
    """Makes a debugger continue, because there is no terminal. Returns the event to forward."""
    if event["event"] != EventType.DEBUGGER_STOPPED:
        return event
    message = _(
        "{task} did not stop at a breakpoint ({place}), because workers on Ray have no prompt."
    )
    return decline(event, group.processes[0], message)


def _group(run: RayRun, config: TFConfig, attempt: int) -> WorkerGroup:
    """The process of this worker, in a group of one.

    The notebook checks whether all workers are ready and make progress.
    """
    log = run.log(attempt, config.task)
    log.parent.mkdir(exist_ok=True)
    process = TaskProcess(config, run.payload, log, [], keras=run.keras)
    timeouts = replace(run.timeouts, start=math.inf, progress=math.inf)
    return WorkerGroup([process], (), timeouts)
