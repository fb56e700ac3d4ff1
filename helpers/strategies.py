"""Strategies and collectives by name, and checks whether this machine supports them."""

from __future__ import annotations

from helpers.errors import ConfigError, unknown_choice
from helpers.i18n import _, ngettext
from helpers.system.machine import nvidia_gpus

COLLECTIVES = ("AUTO", "RING", "NCCL")
MULTI_WORKER, MIRRORED, ONE_DEVICE, PARAMETER_SERVER = STRATEGIES = (
    "MultiWorkerMirroredStrategy",
    "MirroredStrategy",
    "OneDeviceStrategy",
    "ParameterServerStrategy",
)
ONE_PROCESS = (MIRRORED, ONE_DEVICE)  # their replicas are devices of one process


def check_collective(name: str, workers: int) -> None:
    """Raises ConfigError if this machine cannot run collective `name` on `workers` workers."""
    if name not in COLLECTIVES:
        raise unknown_choice("collective", name, COLLECTIVES)
    if name == "NCCL" and (gpus := nvidia_gpus()) < workers:
        raise _too_few_gpus(workers, gpus)


def check_strategy(name: str, workers: int, ps: int | None) -> None:
    """Raises ConfigError if strategy `name` is unknown, or cannot have so many workers and ps."""
    if name not in STRATEGIES:
        raise unknown_choice("strategy", name, STRATEGIES)
    if name == ONE_DEVICE and workers > 1:
        message = _(
            "OneDeviceStrategy trains on one device, so workers={workers} is invalid. Use "
            "workers=1, or choose MirroredStrategy."
        )
        raise ConfigError(message.format(workers=workers))
    if (name == PARAMETER_SERVER) != bool(ps) and ps is not None:
        message = _(
            "strategy={strategy!r} and ps={ps} exclude each other: parameter servers belong to "
            "ParameterServerStrategy, which needs at least one."
        )
        raise ConfigError(message.format(strategy=name, ps=ps))


def training_tasks(name: str, workers: int) -> list[str]:
    """The names of the processes that train an Estimator under strategy `name`, chief first."""
    if name in ONE_PROCESS:
        return ["worker 0"]
    return ["chief 0"] * (name == PARAMETER_SERVER) + [f"worker {k}" for k in range(workers)]


def communication_label(name: str, collective: str) -> str:
    """The communication between the replicas of strategy `name`, a collective or its own kind."""
    return collective if name == MULTI_WORKER else name


def _too_few_gpus(workers: int, gpus: int) -> ConfigError:
    message = _(
        "NCCL needs an NVIDIA GPU for each worker: {workers} requested, {gpus} found on this "
        'machine. Choose "RING", which runs over gRPC on CPUs, or "AUTO", which selects one '
        "for you."
    )
    return ConfigError(
        message.format(
            workers=ngettext("{count} worker", "{count} workers", workers).format(count=workers),
            gpus=ngettext("{count} GPU", "{count} GPUs", gpus).format(count=gpus),
        )
    )
