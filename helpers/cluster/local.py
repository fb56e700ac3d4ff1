"""`LocalCluster`, several TensorFlow processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

from helpers.cluster.base import DEFAULT_STEP_TIMEOUT, MAX_RESTARTS, Cluster
from helpers.cluster.checks import check_memory
from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.fork_client import can_fork
from helpers.cluster.group_size import GroupSize
from helpers.cluster.launcher import Launcher
from helpers.cluster.prewarm import is_prewarming, prewarm
from helpers.cluster.processes import TaskProcess
from helpers.cluster.run_control import RunControl
from helpers.cluster.supervisor import Supervisor
from helpers.cluster.timeouts import Timeouts, default_start_timeout
from helpers.errors import check_count, check_seconds, unknown_choice
from helpers.i18n import _
from helpers.protocol.events import Event
from helpers.protocol.job import GLOBAL, EstimatorJob, FunctionJob
from helpers.strategies import (
    MULTI_WORKER,
    ONE_PROCESS,
    PARAMETER_SERVER,
    check_collective,
    check_strategy,
)
from helpers.system import keras_version
from helpers.system.descriptors import limit_explained
from helpers.system.netns import Network, check_bandwidth
from helpers.system.virtual_hosts import VirtualHosts, check_hosts
from helpers.tf_config import CHIEF, EVALUATOR, PS, WORKER

Closer = Callable[[], None]

ISOLATED, PER_TASK, HOST = NETWORKS = ("isolated", "per_task", "host")


class LocalCluster(RunControl, Cluster):
    """A group of worker processes on this machine that trains and recovers from failures.

        with LocalCluster(workers=2, collective="RING") as cluster:
            result = cluster.train(model_fn, input_fn, epochs=3)

    Args:
      workers: the number of worker processes. Worker 0 is the chief. Under MirroredStrategy, which
        has one process, the number of replicas.
      ps: the number of parameter servers, by default one under ParameterServerStrategy, otherwise
        none. With parameter servers, there is also a `chief`. For `run` it is the coordinator,
        which calls the function, and for `train` it is one more task that trains.
      strategy: the `tf.distribute` strategy by name, for `train`. The default is
        ParameterServerStrategy with a ps, else MultiWorkerMirroredStrategy.
      collective: how gradients are summed: "AUTO", "RING" (gRPC) or "NCCL" (NVIDIA GPUs).
      min_workers: makes the group elastic, with at least this many workers. It continues without a
        worker that fails after `max_restarts` restarts, is preempted, or loses its machine. Each
        step still trains on the same examples (docs/FAULTS.md).
      elastic_batch: the batch that stays the same when the number of workers changes: "global", or
        "per_worker". With "per_worker", `train` uses whole batches of `input_fn`, so the global
        batch changes, and `model_fn` must scale the learning rate with `num_replicas_in_sync`.
      max_restarts: the number of faults after which the group is restarted from its last checkpoint
        or, for a worker that serves a coordinator, only that worker is restarted. An elastic group
        resets this count after each change of its size.
      start_timeout: seconds until every worker must be ready to train, by default 60, and more if
        many workers share few cores.
      step_timeout: seconds without a step after which the group counts as failed.
      heartbeat_timeout: seconds without a heartbeat from one worker after which it counts as
        failed, by default `step_timeout`.
      network: the network of the workers, if the machine permits it (see SECURITY.md):

        - "isolated": one network for the cluster, which no other process can reach.
        - "per_task": a network for each task, with its own address, connected by a switch as if
          each task ran on its own machine. The fault "partition" needs it.
        - "host": the network of this machine. Choose it if your functions need the network.

      bandwidth: bits per second that an isolated network carries in total, or that each task's link
        carries in each direction with "per_task". The default is unlimited.

    If it is safe, the first `LocalCluster` starts a process that imports TensorFlow, and all
    workers are forked from it.

    Raises:
      ConfigError: this machine cannot run such a cluster.
    """

    folder_prefix = "local-cluster-"

    def __init__(
        self,
        workers: int = 2,
        *,
        min_workers: int | None = None,
        elastic_batch: str = GLOBAL,
        ps: int | None = None,
        strategy: str | None = None,
        collective: str = "AUTO",
        max_restarts: int = MAX_RESTARTS,
        start_timeout: float | None = None,
        step_timeout: float = DEFAULT_STEP_TIMEOUT,
        heartbeat_timeout: float | None = None,
        network: str = ISOLATED,
        bandwidth: float | None = None,
    ) -> None:
        check_count("workers", workers)
        if ps:
            check_count("ps", ps)
        if strategy is None:
            strategy = PARAMETER_SERVER if ps else MULTI_WORKER
        check_strategy(strategy, workers, ps)
        check_collective(collective, workers)
        self._init_elastic(workers, min_workers, elastic_batch, strategy)
        _check_network(network, bandwidth)
        if strategy not in ONE_PROCESS:
            check_memory(workers, ps or 0, forked=can_fork())
        if start_timeout is None:
            start_timeout = default_start_timeout(workers)
        timeouts = Timeouts.checked(start_timeout, step_timeout, heartbeat_timeout)
        super().__init__(workers, collective, max_restarts, timeouts)
        self.strategy = strategy
        self.ps = int(strategy == PARAMETER_SERVER) if ps is None else ps
        self.network = network
        self.bandwidth = bandwidth
        self._init_control(self._tasks(evaluator=True))
        with limit_explained():
            prewarm()

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        evaluator_fn: Callable[..., Any] | None = None,
        keras: int | None = None,
        timeout: float = 300.0,
        on_event: Callable[[Event], None] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Runs any function in every worker, and waits for the end.

        With parameter servers, it is called in the coordinator only. Workers and parameter servers
        run a `tf.distribute.Server` until the coordinator has finished. A worker that dies or
        freezes is replaced, and the others continue meanwhile.

        The function creates its own strategy, and `TF_CONFIG` is set. If it requires one more
        argument than it gets, the `helpers.worker.context.WorkerContext` is passed first. If a
        process dies or freezes, all processes are restarted and call the function again, so it must
        save all results that it needs.

        Args:
          function: the function to call, which is serialized like the functions of `train`.
          args, kwargs: its arguments. The names below are options of `run`: use functools.partial
            for a parameter with such a name.
          evaluator_fn: a function that one more process, the evaluator of `TF_CONFIG`, calls
            meanwhile. The run ends when both have returned.
          keras: the version of `tf.keras` in the workers, 2 or 3. Version 3 needs TensorFlow 2.16
            or later. The default is the version of this process: 2 after `import helpers.estimator`
            or with `TF_USE_LEGACY_KERAS=1`, else 3. In the workers, `helpers.keras_3` is applied as
            soon as Keras 3 is imported.
          timeout: seconds for the function, from the start or, if it reports steps
            (`helpers.keras_callbacks.StepReportCallback`), from the last one.
          on_event: called with every event, in this thread (see `helpers.protocol.events`).

        Returns: the results of each worker of the last attempt in order, or of the coordinator
          only, and then of the evaluator. A result may be any value that pickle supports, such as a
          NumPy array, a pandas object, a dataclass, a tuple or a set. Its type stays the same,
          except that a tensor becomes a NumPy array. The process of this notebook unpickles it.

        Warns: like `TrainingResult.warnings`.

        Raises: as `train`, and
          ConfigError: a result cannot be pickled, or contains a strategy, a dataset, a variable or
            a model.
        """
        check_seconds("timeout", timeout)
        keras = keras_version.default() if keras is None else keras
        if keras == 3:
            keras_version.check_keras_3()
        job = FunctionJob(
            *(function, evaluator_fn, keras, self.collective, args, kwargs),
            shards=self._shards,
        )
        return self._run_function(job, timeout, on_event)

    def _result_tasks(self, job: FunctionJob) -> list[str]:
        workers = self._size.current
        tasks = ["chief 0"] if self.ps else [f"worker {index}" for index in range(workers)]
        return tasks + ["evaluator 0"] * job.has_evaluator

    def _state(self) -> str:
        if is_prewarming() and not self._run_lock.locked():
            return _("its workers are being prepared")
        return super()._state()

    def _busy_message(self) -> str:
        message = _(
            "{cluster!r} is already running. Wait for it, call stop(), or create a second "
            "LocalCluster: several can run at once."
        )
        return message.format(cluster=self)

    def _run_job(
        self, job: EstimatorJob | FunctionJob, folder: Path, timeouts: Timeouts
    ) -> Generator[Event, None, None]:
        tasks = self._tasks(evaluator=job.has_evaluator)
        launcher = self._launcher(job, folder, self._fault_injector)
        network = launcher.network
        size = GroupSize(self._worker_processes, self.min_workers)
        supervisor = Supervisor(
            launcher,
            job.is_server,
            timeouts,
            self.max_restarts,
            self._fault_injector,
            size=size,
        )
        hosts = network if isinstance(network, VirtualHosts) else None
        try:
            control = self._controlled(supervisor, size, tasks, hosts)
            with control, closing(supervisor.run()) as events:
                yield from events
        finally:
            if network:
                network.close()

    def start_unsupervised(
        self, job: FunctionJob, folder: Path
    ) -> tuple[list[TaskProcess], Closer]:
        """Starts the processes of a job once, for a caller that supervises them.

        Args:
          folder: the folder for the logs of the processes and their temporary files.

        Returns: the processes, which the caller closes, and a function to call after that.
        """
        launcher = self._launcher(job, folder, FaultInjector(self._tasks(evaluator=True)))
        closer = launcher.network.close if launcher.network else _close_nothing
        try:
            return launcher.launch(attempt=0), closer
        except BaseException:
            closer()
            raise

    def _launcher(
        self, job: EstimatorJob | FunctionJob, folder: Path, fault_injector: FaultInjector
    ) -> Launcher:
        """Writes the payload of a job, and creates the network of its processes."""
        payload = folder / "payload.pkl"
        job.save(payload)
        return Launcher(
            self._worker_processes,
            self.ps,
            job.has_evaluator,
            payload,
            folder,
            self._create_network(len(self._tasks(evaluator=job.has_evaluator))),
            job.keras,
            fault_injector,
        )

    def _create_network(self, tasks: int) -> Network | VirtualHosts | None:
        if self.network == PER_TASK:
            return VirtualHosts.create(tasks, self.bandwidth)
        return Network.create(self.bandwidth) if self.network == ISOLATED else None

    @property
    def _worker_processes(self) -> int:
        return 1 if self.strategy in ONE_PROCESS else self.workers

    def _tasks(self, *, evaluator: bool) -> list[str]:
        """The names of a run's tasks, in the order of `TFConfig.tasks`, with the evaluator last."""
        counts = {CHIEF: self.ps > 0, WORKER: self._worker_processes, PS: self.ps}
        counts |= {EVALUATOR: evaluator}
        return [f"{job} {index}" for job, count in counts.items() for index in range(count)]


def _close_nothing() -> None:
    """Closes the network of the machine, which stays as it is."""


def _check_network(network: str, bandwidth: float | None) -> None:
    if network not in NETWORKS:
        raise unknown_choice("network", network, NETWORKS)
    check_bandwidth(bandwidth, isolated=network != HOST)
    if network == PER_TASK:
        check_hosts()
