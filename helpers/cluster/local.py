"""`LocalCluster`: several TensorFlow processes on this machine, as one object."""

from __future__ import annotations

import shutil
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.messages import payload
from helpers.errors import ClusterError, check_count
from helpers.messages.events import Event
from helpers.i18n import _, ngettext
from helpers.system.isolation import Network, check_bandwidth
from helpers.messages.job import EstimatorJob, FunctionJob, estimator_job
from helpers.cluster.launcher import Launcher, check_writable, default_start_timeout
from helpers.cluster.processes import TaskProcess
from helpers.results.progress import follow
from helpers.results.training_result import TrainingResult
from helpers.strategies import (
    MIRRORED,
    MULTI_WORKER,
    ONE_PROCESS,
    PARAMETER_SERVER,
    check_collective,
    check_strategy,
)
from helpers.cluster.supervisor import Deadlines, Supervisor

if TYPE_CHECKING:
    from types import TracebackType


class LocalCluster:
    """A group of worker processes on this machine that trains, and that survives its faults.

        with LocalCluster(workers=2, collective="RING") as cluster:
            result = cluster.train(model_fn, input_fn, epochs=3)

    Args:
      workers: how many worker processes; worker 0 is the chief. Under MirroredStrategy, which
        has one process, how many replicas.
      ps: how many parameter servers; by default one under ParameterServerStrategy, else none.
        With any, there is also a `chief`: for `run` the coordinator, which calls the function;
        for `train` one more task that trains.
      strategy: the `tf.distribute` strategy by name, for `train`; by default
        ParameterServerStrategy where there is a ps, else MultiWorkerMirroredStrategy.
      collective: how gradients are summed: "AUTO", "RING" (gRPC) or "NCCL" (NVIDIA GPUs).
      max_restarts: how many faults are answered by starting the group again from its last
        checkpoint; or, for a worker that serves a coordinator, by starting that worker again.
      start_timeout: seconds until every worker must be ready to train; by default 60, and more
        where many workers share few cores.
      step_timeout: seconds without a step, or without a sign of life from one worker, after
        which the group counts as failed.
      isolated: whether the workers get a network of their own, where the machine permits one
        (see SECURITY.md). Say False if your functions need the network.
      bandwidth: bits per second that the workers' own network carries, all of them together;
        as many as it can by default.

    Raises:
      ConfigError: a choice this machine cannot run.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        ps: int | None = None,
        strategy: str | None = None,
        collective: str = "AUTO",
        max_restarts: int = 3,
        start_timeout: float | None = None,
        step_timeout: float = 30.0,
        isolated: bool = True,
        bandwidth: float | None = None,
    ) -> None:
        check_count("workers", workers)
        if ps:
            check_count("ps", ps)
        if strategy is None:
            strategy = PARAMETER_SERVER if ps else MULTI_WORKER
        check_strategy(strategy, workers, ps)
        check_collective(collective, workers)
        check_bandwidth(bandwidth, isolated=isolated)
        self.workers = workers
        self.ps = int(strategy == PARAMETER_SERVER) if ps is None else ps
        self.strategy = strategy
        self.collective = collective
        self.max_restarts = max_restarts
        self.isolated = isolated
        self.bandwidth = bandwidth
        start = start_timeout or default_start_timeout(workers)
        self.deadlines = Deadlines(start, silence=step_timeout, progress=step_timeout)
        self.processes: list[TaskProcess] = []
        self._supervisor: Supervisor | None = None
        self._lock = threading.Lock()
        self._folder: Path | None = None

    def train(
        self,
        model_fn: Callable[..., Any],
        input_fn: Callable[..., Any],
        *,
        epochs: int | None = None,
        steps: int | None = None,
        params: Mapping[str, Any] | None = None,
        model_dir: str | Path | None = None,
        save_checkpoints_steps: int = 200,
        evaluate: str | None = "after",
        on_event: Callable[[Event], None] | None = None,
        progress: bool = True,
    ) -> TrainingResult:
        """Trains an Estimator on all workers and waits for the end.

        Every worker runs `tf.estimator.train_and_evaluate` with the strategy in its
        `RunConfig(train_distribute=…)`. A fault restarts all workers from the last checkpoint.

        Args:
          model_fn, input_fn: as `tf.estimator.Estimator` takes them. `input_fn` returns one
            epoch, a `tf.data.Dataset` of (features, labels) batches; in "train" mode it is
            repeated, and its `input_context` says which shard to read.
          epochs: passes over the data; or
          steps: the global step to train to. One of the two, else one epoch.
          params: hyper-parameters for both functions, over `DEFAULT_PARAMS`.
          model_dir: where checkpoints go; one that is there is gone on from. By default a
            temporary folder, deleted with the cluster.
          save_checkpoints_steps: how many steps a fault may cost.
          evaluate: "after" the training, by the chief; "beside" it, by one more process that
            evaluates each checkpoint; or None.
          on_event: called with every event, in this thread; see `helpers.messages.events`.
          progress: whether to show a progress bar.

        Raises:
          ConfigError, DataError: what was asked for cannot be done; the message says why.
          UserCodeError: `model_fn` or `input_fn` raised; with their own traceback.
          ClusterError: faults came more than `max_restarts` times.
          StoppedError: `stop` was called from another thread.
        """
        result = TrainingResult.begun(self.strategy, self.workers, self.collective)
        run_folder = self._new_folder()
        result.model_dir = str(Path(model_dir or run_folder / "model").absolute())
        job = estimator_job(
            model_fn,
            input_fn,
            model_dir=result.model_dir,
            strategy=self.strategy,
            collective=self.collective,
            epochs=epochs,
            steps=steps,
            params=params,
            save_checkpoints_steps=save_checkpoints_steps,
            evaluate=evaluate,
            replicas=self.workers if self.strategy == MIRRORED else 1,
        )
        check_writable(result.model_dir)
        with closing(self._run(job, run_folder, evaluator=evaluate == "beside")) as events:
            follow(events, result, on_event=on_event, progress=progress)
        return result

    def run(
        self,
        function: Callable[..., Any],
        *,
        beside: Callable[..., Any] | None = None,
        timeout: float = 300.0,
        on_event: Callable[[Event], None] | None = None,
    ) -> list[Any]:
        """Calls any function in every worker and waits for the end.

        With parameter servers, it is called in the coordinator alone: workers and parameter
        servers run a `tf.distribute.Server`, until the coordinator has finished. A worker of
        theirs that dies or freezes is replaced, and the others go on meanwhile.

        The function makes its own strategy; `TF_CONFIG` is set. If it takes an argument, it is
        given the `helpers.worker.context.WorkerContext`. When a process dies or freezes, all of them
        are started again and begin anew: what must not be lost, the function has to save.

        Args:
          function: what to call; it travels as the functions of `train` do.
          beside: what one more process, the evaluator of `TF_CONFIG`, calls meanwhile. The run
            ends when both have returned.
          timeout: seconds for the function, from the start or, if it reports steps
            (`helpers.keras.ReportSteps`), from the last one.
          on_event: called with every event, in this thread; see `helpers.messages.events`.

        Returns: for each worker in order, or for the coordinator alone, and then for the
          evaluator, what the function returned: numbers, strings, None, lists and dicts.

        Warns: what the reader should know besides, as `TrainingResult.notices`.

        Raises: as `train`.
        """
        values: dict[str, Any] = {}
        notices: set[str] = set()  # several workers may give the same
        deadlines = replace(self.deadlines, progress=timeout)
        job, evaluator = FunctionJob(function, beside), beside is not None
        events = self._run(job, self._new_folder(), evaluator=evaluator, deadlines=deadlines)
        for event in events:
            if event["event"] == "restart":
                values.clear()
            if event["event"] == "result":
                values[event["task"]] = event["value"]
            if event["event"] == "notice" and event["message"] not in notices:
                notices.add(event["message"])
                warnings.warn(event["message"], stacklevel=2)
            if on_event:
                on_event(event)
        callers = ["chief 0"] if self.ps else [f"worker {k}" for k in range(self.workers)]
        return [values[task] for task in callers + ["evaluator 0"] * evaluator]

    def stop(self) -> None:
        """Ends a running training, from any thread; does nothing when none runs."""
        with self._lock:
            if self._supervisor:
                self._supervisor.stop()

    def close(self) -> None:
        """Stops, and deletes the temporary folder with logs and checkpoints; twice is fine."""
        self.stop()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = _("training") if self._supervisor else _("idle")
        workers = ngettext("{count} worker", "{count} workers", self.workers)
        return f"LocalCluster({workers.format(count=self.workers)}, {self.collective}, {state})"

    def _run(
        self,
        work: EstimatorJob | FunctionJob,
        folder: Path,
        *,
        evaluator: bool = False,
        deadlines: Deadlines | None = None,
    ) -> Generator[Event, None, None]:
        """Runs `work` in every task, under supervision."""
        payload_file = folder / "payload.pkl"
        payload.save(work, payload_file)
        network = Network.create(self.bandwidth) if self.isolated else None
        processes = 1 if self.strategy in ONE_PROCESS else self.workers
        launcher = Launcher(
            processes, self.ps, evaluator, work.serves, payload_file, folder, network
        )

        def launch(attempt: int) -> list[TaskProcess]:
            self.processes = launcher.launch(attempt)
            return self.processes

        deadlines = deadlines or self.deadlines
        supervisor = Supervisor(launch, launcher.replace, deadlines, self.max_restarts)
        with self._lock:
            if self._supervisor:
                supervisor.close()
                message = _(
                    "{cluster!r} is at work already. Wait for it, call stop(), or make a second "
                    "LocalCluster: several at once are fine."
                )
                raise ClusterError(message.format(cluster=self))
            self._supervisor = supervisor
        try:
            with closing(supervisor.run()) as events:
                yield from events
        finally:
            with self._lock:
                self._supervisor = None
                supervisor.close()
            if network:
                network.close()

    def _new_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="local-cluster-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))
