"""`RayCluster`: the training of `LocalCluster` on the machines of a Ray cluster."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.messages import payload
from helpers.errors import ClusterError, ConfigError, PackageError, check_count, unknown_choice
from helpers.messages.events import Event
from helpers.i18n import _, language, ngettext
from helpers.messages.job import EstimatorJob, estimator_job
from helpers.system.keras_2 import select_keras_2
from helpers.cluster.launcher import check_writable, default_start_timeout
from helpers.results.progress import follow
from helpers.results.training_result import TrainingResult
from helpers.strategies import COLLECTIVES, MULTI_WORKER, check_collective
from helpers.cluster.supervisor import Deadlines

if TYPE_CHECKING:
    from types import TracebackType

ANSWER_SECONDS = 10.0
OBJECT_STORE_BYTES = 100 * 2**20  # of our own Ray: nothing but events goes through it


class RayCluster:
    """A group of workers that Ray places on its machines, watches and starts again.

        with RayCluster(workers=8, address="10.0.0.1:6379", storage_path="/mnt/shared") as cluster:
            result = cluster.train(model_fn, input_fn, epochs=3)

    Ray Train's `TensorflowTrainer` gives each worker one CPU (with "NCCL" one GPU too) and its
    `TF_CONFIG`; inside, a worker does the same as one of `LocalCluster`. Every machine needs this
    package and TensorFlow installed.

    Args:
      workers: how many worker processes; worker 0 is the chief.
      address: where the Ray to join is, as `ray.init` takes it. Without one, a Ray of this process
        is joined if it has one, else one is started on this machine and ended by `close`.
      collective: how gradients are summed: "AUTO", "RING" (gRPC) or "NCCL" (NVIDIA GPUs).
      max_restarts: how many faults are answered by starting the group again from its last
        checkpoint.
      start_timeout: seconds until every worker must be ready to train; by default 120, and more
        where many workers share few cores.
      step_timeout: seconds without a step after which the group counts as failed.
      storage_path: a folder that every machine reaches, for checkpoints and for what the workers
        are sent. By default a temporary one of this machine.

    Raises:
      ConfigError: a choice that cannot be run.
      PackageError: Ray is not installed.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        address: str | None = None,
        collective: str = "AUTO",
        max_restarts: int = 3,
        start_timeout: float | None = None,
        step_timeout: float = 30.0,
        storage_path: str | Path | None = None,
    ) -> None:
        _check_installed()
        check_count("workers", workers)
        if address is None:
            check_collective(collective, workers)
        elif collective not in COLLECTIVES:
            raise unknown_choice("collective", collective, COLLECTIVES)
        self.workers = workers
        self.address = address
        self.collective = collective
        self.max_restarts = max_restarts
        self.storage_path = storage_path
        start = start_timeout or 2 * default_start_timeout(workers)
        self.deadlines = Deadlines(start, silence=step_timeout, progress=step_timeout)
        self._stopped = threading.Event()
        self._at_work = threading.Lock()
        self._folder: Path | None = None
        self._end_ray: Callable[[], Any] = lambda: None

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

        Args: as `LocalCluster.train` takes them; every machine must reach `model_dir`, and there
          is no `evaluate="beside"`.

        Raises: as `LocalCluster.train`.
        """
        if evaluate == "beside":
            message = _(
                'RayCluster has no evaluate="beside": Ray\'s trainer starts workers only. Choose '
                '"after" or None.'
            )
            raise ConfigError(message)
        result = TrainingResult.begun(MULTI_WORKER, self.workers, self.collective)
        if not self._at_work.acquire(blocking=False):
            message = _("{cluster!r} is at work already. Wait for it, or call stop().")
            raise ClusterError(message.format(cluster=self))
        try:
            self._stopped.clear()
            self._connect()
            run_folder = self._new_folder()
            result.model_dir = str(Path(model_dir or run_folder / "model").absolute())
            job = estimator_job(
                model_fn,
                input_fn,
                model_dir=result.model_dir,
                collective=self.collective,
                epochs=epochs,
                steps=steps,
                params=params,
                save_checkpoints_steps=save_checkpoints_steps,
                evaluate=evaluate,
            )
            check_writable(result.model_dir)
            with closing(self._run(job, run_folder)) as events:
                follow(events, result, on_event=on_event, progress=progress)
        finally:
            self._at_work.release()
        return result

    def stop(self) -> None:
        """Ends a running training, from any thread; does nothing when none runs."""
        self._stopped.set()

    def close(self) -> None:
        """Stops; ends Ray, if it was started here; deletes temporary folders. Twice is fine."""
        self.stop()
        if self._at_work.acquire(timeout=10):  # another thread's training needs Ray to end well
            self._at_work.release()
        self._end_ray()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> RayCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = _("training") if self._at_work.locked() else _("idle")
        workers = ngettext("{count} worker", "{count} workers", self.workers)
        place = self.address or _("this machine")
        return (
            f"RayCluster({workers.format(count=self.workers)}, {self.collective}, {place}, {state})"
        )

    def _run(self, job: EstimatorJob, folder: Path) -> Generator[Event, None, None]:
        from helpers.engines.ray.watch import watch
        from helpers.engines.ray.tasks import RayRun

        run = RayRun(
            folder=folder,
            workers=self.workers,
            gpus=self.collective == "NCCL",
            max_restarts=self.max_restarts,
            deadlines=self.deadlines,
            language=language(),
        )
        payload.save(job, run.payload)
        return watch(run, self._stopped)

    def _connect(self) -> None:
        """Joins Ray, or starts one."""
        if self.address:
            _check_answers(self.address)
        if "ray" in sys.modules and sys.modules["ray"].is_initialized():
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address:
            import ray

            ray.init(self.address, **quiet)
            self._end_ray = ray.shutdown
            return
        # Not the usual temporary folder: the path of a socket must be short.
        folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        told = _own_ray_environment()
        self._end_ray = weakref.finalize(self, _end_own_ray, folder, list(told))
        os.environ.update(told)
        import ray  # only now: it looks at the environment

        ray.init(
            "local",
            num_cpus=max(self.workers, os.cpu_count() or 1),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
            **quiet,
        )

    def _new_folder(self) -> Path:
        import ray

        if self.storage_path is not None:
            path = Path(self.storage_path).absolute()
            check_writable(str(path))
            return Path(tempfile.mkdtemp(prefix="run-", dir=path))
        hosts = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        if len(hosts) > 1:
            message = _(
                "This Ray has {count} machines: name a folder that all of them reach, as "
                'storage_path="/mnt/shared". Checkpoints go there.'
            )
            raise ConfigError(message.format(count=len(hosts)))
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ray-cluster-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix="run-", dir=self._folder))


def _check_installed() -> None:
    if importlib.util.find_spec("ray") is None:
        message = _("Ray is not installed. Install it: {command}")
        command = 'pip install "multiworker-lessons[ray]"'
        raise PackageError(message.format(command=command))


def _check_answers(address: str) -> None:
    """Raises ConfigError if nobody listens at "host:port": Ray would try for minutes."""
    host, _colon, port = address.rpartition(":")
    if not port.isdigit() or "://" in address:
        return  # "auto", for instance
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except OSError as error:
        message = _(
            "No Ray answers at address={address!r}: {reason}. `ray start --head` on its first "
            "machine starts one and says its address."
        )
        raise ConfigError(message.format(address=address, reason=error)) from None


def _own_ray_environment() -> dict[str, str]:
    """What a Ray that only this machine uses is told, and inherited by all its processes."""
    select_keras_2()
    told = {
        # Without it, Ray replaces 127.0.0.1 by an address that other machines reach.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return {name: value for name, value in told.items() if name not in os.environ}


def _end_own_ray(folder: str, told: Iterable[str]) -> None:
    import ray

    ray.shutdown()
    for name in told:
        os.environ.pop(name, None)
    shutil.rmtree(folder, ignore_errors=True)
