"""`RayCluster`: the training of `LocalCluster` on the machines of a Ray cluster."""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.cluster.base import DEFAULT_STEP_TIMEOUT, MAX_RESTARTS, Cluster
from helpers.cluster.checks import check_memory, check_writable
from helpers.cluster.elastic import ElasticCluster
from helpers.cluster.group_size import GroupSize
from helpers.cluster.stacks import Stacks
from helpers.cluster.timeouts import Timeouts, default_start_timeout
from helpers.errors import ConfigError, check_count, not_installed, unknown_choice
from helpers.i18n import _, language, ngettext
from helpers.protocol.events import Event
from helpers.protocol.job import GLOBAL, EstimatorJob, FunctionJob
from helpers.strategies import COLLECTIVES, check_collective
from helpers.system import keras_version
from helpers.system.machine import cores

if TYPE_CHECKING:
    from helpers.backends.ray.monitor import StackCollector

logger = logging.getLogger(__name__)

REQUIREMENT = "ray[train]==2.60.0"  # of the extra `ray` in pyproject.toml
RPC_TIMEOUT = 10.0
SHUTDOWN_TIMEOUT = 10.0
OBJECT_STORE_BYTES = 100 * 2**20  # of the Ray started here, for events and results


class RayCluster(ElasticCluster, Cluster):
    """A group of workers that Ray places on its machines, supervises and restarts.

        with RayCluster(workers=8, address="10.0.0.1:6379", storage_path="/mnt/shared") as cluster:
            result = cluster.train(model_fn, input_fn, epochs=3)

    Ray Train finds one CPU for each worker (with "NCCL" one GPU too) and restarts the group after a
    fault. Each worker is a process like a worker of `LocalCluster`, and a process of Ray next to it
    monitors it. Every machine needs this package and TensorFlow installed.

    Args:
      workers: the number of worker processes. Worker 0 is the chief.
      min_workers: makes the group elastic, with at least this many workers. It starts with fewer
        than `workers` if Ray has resources for fewer, and continues without a worker whose machine
        is lost or that fails after `max_restarts` restarts. It grows again at a checkpoint when Ray
        has resources, or with `resize` (docs/FAULTS.md).
      elastic_batch: as for `LocalCluster`.
      address: the address of the Ray cluster to join, as for `ray.init`. Without one, this
        process's Ray is joined if there is one. Otherwise Ray is started on this machine and ended
        by `close`.
      collective: how gradients are summed: "AUTO", "RING" (gRPC) or "NCCL" (NVIDIA GPUs).
      max_restarts: the number of faults after which the group is restarted from its last
        checkpoint. An elastic group resets this count after each change of its size.
      start_timeout: seconds until every worker must be ready to train, by default 120, and more if
        many workers share few cores.
      step_timeout: seconds without a step after which the group counts as failed.
      storage_path: a folder that every machine can access, for checkpoints and the payload. By
        default a temporary folder of this machine.

    Raises:
      ConfigError: an argument is invalid.
      PackageError: Ray is not installed.
    """

    folder_prefix = "ray-cluster-"

    def __init__(
        self,
        workers: int = 2,
        *,
        min_workers: int | None = None,
        elastic_batch: str = GLOBAL,
        address: str | None = None,
        collective: str = "AUTO",
        max_restarts: int = MAX_RESTARTS,
        start_timeout: float | None = None,
        step_timeout: float = DEFAULT_STEP_TIMEOUT,
        storage_path: str | Path | None = None,
    ) -> None:
        _check_installed()
        check_count("workers", workers)
        self._init_elastic(workers, min_workers, elastic_batch, self.strategy)
        if address is None:
            check_collective(collective, workers)
        elif collective not in COLLECTIVES:
            raise unknown_choice("collective", collective, COLLECTIVES)
        if start_timeout is None:
            start_timeout = 2 * default_start_timeout(workers)
        timeouts = Timeouts.checked(start_timeout, step_timeout)
        super().__init__(workers, collective, max_restarts, timeouts)
        self.address = address
        self.storage_path = storage_path
        self._stopped = threading.Event()
        self._collector: StackCollector | None = None  # of the current or last run
        self._end_ray: Callable[[], Any] = lambda: None

    def stacks(self) -> Stacks:
        """Shows where each worker is: your line, what it waits for, and all frames.

        As `LocalCluster.stacks`. Ray's process next to each worker collects its stack, and this
        method waits at most two seconds for all answers. A worker that Ray has not placed yet is
        reported as "has not started". A worker whose machine does not answer is reported as "did
        not report its stack".
        """
        return self._collector.collect() if self._collector else Stacks()

    def stop(self) -> None:
        """Stops `train` or `run` from any thread, or does nothing if none is running."""
        self._stopped.set()

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        keras: int | None = None,
        timeout: float = 300.0,
        on_event: Callable[[Event], None] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Runs any function in every worker, and waits for the end.

        As `LocalCluster.run`, but without an evaluator.

        Args:
          function: the function to call. It creates its own strategy, and `TF_CONFIG` is set.
          args, kwargs: its arguments.
          keras: the version of `tf.keras` in the workers, 2 or 3. Version 3 needs TensorFlow 2.16
            or later there. The default is the version of this process.
          timeout: seconds for the function, from the start or, if it reports steps
            (`helpers.keras_callbacks.StepReportCallback`), from the last one.
          on_event: called with every event, in this thread (see `helpers.protocol.events`).

        Returns: the result of each worker in order, with the same types as in `LocalCluster.run`.

        Warns: like `TrainingResult.warnings`.

        Raises: as `train`.
        """
        keras = keras_version.default() if keras is None else keras
        job = FunctionJob(function, None, keras, self.collective, args, kwargs, shards=self._shards)
        return self._run_function(job, timeout, on_event)

    def _result_tasks(self, job: FunctionJob) -> list[str]:
        return [f"worker {index}" for index in range(self._size.current)]

    def _run_job(
        self, job: EstimatorJob | FunctionJob, folder: Path, timeouts: Timeouts
    ) -> Generator[Event, None, None]:
        from helpers.backends.ray.monitor import StackCollector, watch_run
        from helpers.backends.ray.tasks import RayRun

        self._collector = StackCollector()
        size = GroupSize(self.workers, self.min_workers)
        run = RayRun(
            folder=folder,
            workers=size.maximum,
            min_workers=size.minimum,
            gpus=self.collective == "NCCL",
            max_restarts=self.max_restarts,
            timeouts=timeouts,
            language=language(),
            keras=job.keras,
        )
        job.save(run.payload)
        with self._resizable(size):
            yield from watch_run(run, size, self._stopped, self._collector)

    def _busy_message(self) -> str:
        message = _("{cluster!r} is already running. Wait for it, or call stop().")
        return message.format(cluster=self)

    def _check_evaluation(self, evaluate: str | None) -> None:
        if evaluate == "sidecar":
            message = _(
                'RayCluster does not support evaluate="sidecar", because Ray\'s trainer starts '
                'workers only. Choose "after" or None.'
            )
            raise ConfigError(message)

    def _repr_args(self) -> list[str]:
        return [*super()._repr_args(), self.address or _("this machine")]

    def _connect(self) -> None:
        """Connects to Ray, or starts it."""
        self._stopped.clear()
        if self.address:
            _check_reachable(self.address)
        if "ray" in sys.modules and sys.modules["ray"].is_initialized():
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address:
            import ray

            logger.info("Joining Ray at %s", self.address)
            try:
                ray.init(self.address, **quiet)
            except (ConnectionError, ValueError) as error:
                raise _unreachable_error(self.address, error) from None
            self._end_ray = ray.shutdown
            return
        check_memory(self.workers, forked=False)  # each worker imports TensorFlow
        # Not the usual temporary folder, because the path of a socket must be short.
        folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        told = _local_ray_env()
        self._end_ray = weakref.finalize(self, _shutdown_local_ray, folder, list(told))
        os.environ.update(told)
        _reload_ray_config()
        import ray

        logger.info("Starting Ray on this machine")
        ray.init(
            "local",
            num_cpus=max(self.workers, cores()),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
            **quiet,
        )

    def _disconnect(self) -> None:
        """Ends Ray, if it was started here."""
        # Another thread's run needs Ray until its end.
        if self._run_lock.acquire(timeout=SHUTDOWN_TIMEOUT):
            self._run_lock.release()
        self._end_ray()

    def _new_folder(self) -> Path:
        import ray

        if self.storage_path is not None:
            path = Path(self.storage_path).absolute()
            check_writable(str(path))
            return Path(tempfile.mkdtemp(prefix="run-", dir=path))
        hosts = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        if len(hosts) > 1:
            message = ngettext(
                "This Ray cluster has {count} machine: pass a folder that it can access, "
                'such as storage_path="/mnt/shared". Checkpoints are stored there.',
                "This Ray cluster has {count} machines: pass a folder that all of them can "
                'access, such as storage_path="/mnt/shared". Checkpoints are stored there.',
                len(hosts),
            )
            raise ConfigError(message.format(count=len(hosts)))
        return super()._new_folder()


def _check_installed() -> None:
    if importlib.util.find_spec("ray") is None:
        raise not_installed("Ray", REQUIREMENT)


def _check_reachable(address: str) -> None:
    """Raises ConfigError if nothing listens at "host:port", where Ray would retry for minutes."""
    host, _colon, port = address.rpartition(":")
    if not port.isdigit() or "://" in address:
        return  # "auto", for instance
    try:
        socket.create_connection((host.strip("[]"), int(port)), RPC_TIMEOUT).close()
    except OSError as error:
        raise _unreachable_error(address, error) from None


def _unreachable_error(address: str, error: Exception) -> ConfigError:
    message = _(
        "No Ray cluster responds at address={address!r}: {reason}. `ray start --head` on the "
        "first machine starts one and prints its address."
    )
    return ConfigError(message.format(address=address, reason=error))


def _local_ray_env() -> dict[str, str]:
    """The environment of a Ray for this machine only, which all its processes inherit."""
    told = {
        # Without it, Ray replaces 127.0.0.1 by an address that other machines can reach.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return {name: value for name, value in told.items() if name not in os.environ}


def _reload_ray_config() -> None:
    """Makes Ray read the environment again, which it does only once by itself."""
    from ray._private import ray_constants
    from ray._raylet import AuthenticationTokenLoader, Config

    name = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    ray_constants.ENABLE_RAY_CLUSTER = os.environ.get(name, "1") != "0"
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _shutdown_local_ray(folder: str, told: Iterable[str]) -> None:
    import ray

    ray.shutdown()
    for name in told:
        os.environ.pop(name, None)
    _reload_ray_config()
    shutil.rmtree(folder, ignore_errors=True)
