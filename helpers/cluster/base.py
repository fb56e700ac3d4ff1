"""`Cluster`, the interface of a group of workers, independent of where its processes run."""

from __future__ import annotations

import functools
import tempfile
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers import labels
from helpers.cluster import temporary_folders
from helpers.cluster.checks import check_folder, check_links, check_results, check_writable
from helpers.cluster.stacks import Stacks
from helpers.cluster.timeouts import Timeouts
from helpers.errors import ClusterError, ConfigError, HelpersError, check_count
from helpers.i18n import _, join_phrases
from helpers.protocol import results
from helpers.protocol.events import Event, EventType
from helpers.protocol.job import Elastic, EstimatorJob, FunctionJob, estimator_job
from helpers.protocol.portable import describe_large
from helpers.results.progress import consume
from helpers.results.training_result import TrainingResult, notice_of
from helpers.strategies import MIRRORED, MULTI_WORKER
from helpers.system.descriptors import limit_explained

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

MAX_RESTARTS = 3
DEFAULT_STEP_TIMEOUT = 30.0


class Cluster(ABC):
    """A group of workers that trains and recovers from failures.

    Attributes:
      workers, collective, max_restarts: see the subclass.
      strategy: the `tf.distribute` strategy by name.
      ps: the number of parameter servers.
      timeouts: how long to wait before the group counts as failed.
    """

    strategy = MULTI_WORKER
    ps = 0
    folder_prefix: str

    def __init__(
        self,
        workers: int,
        collective: str,
        max_restarts: int,
        timeouts: Timeouts,
    ) -> None:
        self.workers = workers
        self.collective = collective
        check_count("max_restarts", max_restarts, least=0)
        self.max_restarts = max_restarts
        self.timeouts = timeouts
        self._run_lock = threading.Lock()
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
        eval_steps: int | None = None,
        trace_steps: range = range(0),
        on_event: Callable[[Event], None] | None = None,
        progress: bool = True,
        result: TrainingResult | None = None,
    ) -> TrainingResult:
        """Trains an Estimator on all workers and waits for the end.

        Every worker runs `tf.estimator.train_and_evaluate` with the strategy in its
        `RunConfig(train_distribute=…)`. A fault restarts all workers from the last checkpoint.

        Args:
          model_fn, input_fn: in any form that `tf.estimator.Estimator` accepts. `mode`, `params`,
            `config` and `input_context` are passed if the function has arguments of these names.
            `input_fn` returns one epoch, a `tf.data.Dataset` of (features, labels) batches. In
            "train" mode it is repeated, and its `input_context` specifies the shard to read. If it
            returns tensors instead, `steps` is required, every evaluation reads them to their end,
            and a restart begins with the first tensors.
          epochs: passes over the data.
          steps: the global step to train to. Pass one of the two. The default is one epoch.
          params: hyper-parameters for both functions, which get these and no others. The functions
            of this package use `helpers.params.DEFAULT_PARAMS` for missing ones.
          model_dir: the folder for checkpoints, without their graphs (no .meta files). Training
            resumes from a checkpoint in it. By default a temporary folder, deleted with the
            cluster. All machines of the group must be able to access it.
          save_checkpoints_steps: how many steps a fault may cost.
          evaluate: "after" (the chief evaluates after training), "sidecar" (an additional process
            on this machine evaluates each checkpoint), or None.
          eval_steps: batches of one evaluation, as the `steps` of `tf.estimator.EvalSpec`. By
            default, an evaluation uses all batches of `input_fn`.
          trace_steps: the global steps to profile in each training task, such as `range(20, 23)`.
            `TrainingResult.traces` contains their operations, and `helpers.results.timeline` shows
            them. In asynchronous training, each task counts its own steps.
          on_event: called with every event, in this thread (see `helpers.protocol.events`).
          progress: whether to show a progress bar.
          result: the object to fill and return, created by `TrainingResult.for_run`. Another thread
            may read it during training.

        Raises:
          ConfigError, DataError: the request cannot be fulfilled, and the message explains why.
          UserCodeError: `model_fn` or `input_fn` raised an exception. It contains their traceback.
          ClusterError: more than `max_restarts` faults occurred.
          StoppedError: `stop` was called from another thread.
        """
        self._check_evaluation(evaluate)
        result = result or TrainingResult.for_run(self.strategy, self.workers, self.collective)
        with self._exclusive():
            self._connect()
            folder = self._new_folder()
            result.model_dir = str(Path(model_dir or folder / "model").absolute())
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
                eval_steps=eval_steps,
                trace_steps=trace_steps,
                elastic=self._elastic,
            )
            return self._run_training(job, folder, result, on_event=on_event, progress=progress)

    def export(
        self,
        folder: str | Path,
        function: Callable[..., Any],
        *args: Any,
        target: str = "script",
        **options: Any,
    ) -> Path:
        """Writes a training run as a program that does not need this package.

            cluster.export("program", model_fn, input_fn, epochs=3)  # as train(…)
            cluster.export("program", function, 0.1, epochs=2)  # as run(…)

        Nothing is started. The program contains the source of the functions and of everything that
        they use. Its README.md has the commands, and docs/CLUSTERS.md describes the rules.

        Args:
          folder: a new or empty folder.
          function, args, options: the arguments of `train`, if there are two functions, or of
            `run`. It does not accept `model_dir`, `timeout`, `progress`, `result` or `on_event`.
          target: "script" (processes on any machine), "slurm", "kubernetes" or "ray". The last
            three add their own files.

        Returns: the absolute path of the folder.

        Raises:
          ConfigError: the folder is not empty, or something cannot be written as source.
        """
        from helpers.export import targets, writer

        job = writer.make_job(self.strategy, self.collective, function, args, options)
        tasks = targets.Tasks(self.workers, self.ps, job.has_evaluator, self.collective == "NCCL")
        return writer.write(folder, job, tasks, target)

    def _run_training(
        self,
        job: EstimatorJob,
        run_folder: Path,
        result: TrainingResult,
        *,
        on_event: Callable[[Event], None] | None,
        progress: bool,
    ) -> TrainingResult:
        """Checks the folder of checkpoints, runs the job, and fills `result` from its events."""
        if notice := describe_large((job.model_fn, job.input_fn)):
            result.warnings.append(notice)
        check_writable(job.model_dir)
        check_links(job.model_dir)
        with closing(self._run_job(job, run_folder, self.timeouts)) as events:
            observed = self._record_stacks(events, result)
            consume(observed, result, on_event=on_event, progress=progress)
        return result

    def _record_stacks(self, events: Iterable[Event], result: TrainingResult) -> Iterator[Event]:
        """Yields the events, and adds to `result` the stacks collected before each failure."""
        try:
            for event in events:
                if event["event"] == EventType.GROUP_RESTART:
                    result.add_stacks(self.stacks())
                yield event
        except HelpersError:
            result.add_stacks(self.stacks())
            raise

    def _run_function(
        self,
        job: FunctionJob,
        timeout: float,
        on_event: Callable[[Event], None] | None,
    ) -> list[Any]:
        """Runs a function in the workers, and waits for the end.

        Args:
          timeout: seconds for the function, from the start or from the last step it reported.

        Returns: its result in each task that calls it, in order.
        """
        values: dict[str, Any] = {}
        reported: set[str] = set()  # several workers may report the same notice
        timeouts = replace(self.timeouts, progress=timeout)
        if notice := describe_large([functools.partial(job.function, *job.args, **job.kwargs)]):
            warnings.warn(notice, stacklevel=3)
        with self._exclusive():
            self._connect()
            folder = self._new_folder()
            with closing(self._run_job(job, folder, timeouts)) as events:
                for event in results.with_values(events, folder):
                    if event["event"] == EventType.GROUP_RESTART:
                        values.clear()
                    if event["event"] == EventType.RESULT:
                        values[event["task"]] = event["value"]
                    notice = notice_of(event)
                    if notice and notice not in reported:
                        reported.add(notice)
                        warnings.warn(notice, stacklevel=3)
                    if on_event:
                        on_event(event)
        tasks = self._result_tasks(job)
        check_results(values, tasks)
        return [values[task] for task in tasks]

    @property
    @abstractmethod
    def _elastic(self) -> Elastic | None:
        """The data of a synchronous group whose number of workers can change."""

    @abstractmethod
    def _result_tasks(self, job: FunctionJob) -> list[str]:
        """The tasks that have called the function of a job that has ended."""

    @abstractmethod
    def stacks(self) -> Stacks:
        """Shows where each task is: your line, what it waits for, and all frames."""

    @abstractmethod
    def stop(self) -> None:
        """Stops `train` or `run` from any thread, or does nothing if none is running."""

    def close(self) -> None:
        """Stops, and deletes the temporary folder of logs and checkpoints. May be called twice."""
        self.stop()
        self._disconnect()
        if self._folder:
            temporary_folders.delete(self._folder)
            self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({join_phrases([*self._repr_args(), self._state()])})"

    def _repr_args(self) -> list[str]:
        """The parts of the repr, without the state."""
        return [labels.workers(self.workers), self.collective]

    def _state(self) -> str:
        return _("training") if self._run_lock.locked() else _("not running")

    @abstractmethod
    def _run_job(
        self, job: EstimatorJob | FunctionJob, folder: Path, timeouts: Timeouts
    ) -> Generator[Event, None, None]:
        """Runs a job in every task and yields its events. Closing the generator ends the job."""

    @abstractmethod
    def _busy_message(self) -> str:
        """Error message for a second `train` or `run` while one is in progress."""

    def _check_evaluation(self, evaluate: str | None) -> None:
        """Raises ConfigError if this cluster does not support the kind of evaluation."""

    def _connect(self) -> None:
        """Connects to the machines of the cluster."""

    def _disconnect(self) -> None:
        """Disconnects from the machines of the cluster."""

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Allows one `train` or `run` at a time, and raises ClusterError for a second one."""
        if not self._run_lock.acquire(blocking=False):
            raise ClusterError(self._busy_message())
        try:
            with limit_explained():
                check_folder()
                yield
        finally:
            self._run_lock.release()

    def _new_folder(self) -> Path:
        """Creates a temporary folder for a run on this machine."""
        try:
            if self._folder is None:
                self._folder = temporary_folders.create(self.folder_prefix)
                weakref.finalize(self, temporary_folders.delete, self._folder)
            return Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))
        except OSError as error:
            message = _(
                "A temporary folder cannot be created: {reason}. Set TMPDIR to a folder that "
                "you can write to."
            )
            raise ConfigError(message.format(reason=error.strerror)) from None
