"""Starts the processes of one attempt: ports, `TF_CONFIG`s, cores, logs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.system.isolation import Network
from helpers.cluster.processes import TaskProcess, free_ports
from helpers.strategies import share_cores
from helpers.tf_config import EVALUATOR, TFConfig, build


@dataclass(frozen=True)
class Launcher:
    """What the attempts of one run have in common.

    Attributes:
      workers: how many worker processes.
      ps: how many parameter servers; with any, there is a chief besides, the coordinator.
      evaluator: whether an evaluator runs beside them.
      serves: whether the task of a `TF_CONFIG` only serves.
      payload: the file with the work.
      folder: where each attempt gets a folder for logs and temporary files.
      network: the workers' own network, or None for the machine's.
    """

    workers: int
    ps: int
    evaluator: bool
    serves: Callable[[TFConfig], bool]
    payload: Path
    folder: Path
    network: Network | None

    def launch(self, attempt: int) -> list[TaskProcess]:
        """Starts one process for each task, all or none, on ports that are free now."""
        coordinator = self.ps > 0
        ports = free_ports(coordinator + self.workers + self.ps)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        configs = build(addresses, chief=coordinator, ps=self.ps, evaluator=self.evaluator)
        folder = self.folder / f"attempt-{attempt}"
        folder.mkdir()
        return self._start(configs, folder)

    def _start(self, configs: Sequence[TFConfig], folder: Path) -> list[TaskProcess]:
        shares = share_cores(self.workers)
        started: list[TaskProcess] = []
        try:
            for index, config in enumerate(configs):
                # Servers wait for each other in threads, so with ps they need more than one.
                alone = config.task.type == EVALUATOR or self.ps > 0
                cores = [] if alone else shares[index]
                log = folder / f"{config.task.type}-{config.task.index}.log"
                started.append(self._process(config, log, cores))
        except BaseException:
            for process in started:
                process.close()
            raise
        return started

    def replace(self, lost: TaskProcess) -> TaskProcess:
        """Starts the successor of a process at its address, where its peers look for it."""
        return self._process(lost.config, lost.log, [])

    def _process(self, config: TFConfig, log: Path, cores: Sequence[int]) -> TaskProcess:
        serves = self.serves(config)
        return TaskProcess(config, self.payload, log, cores, self.network, serves=serves)


def default_start_timeout(workers: int) -> float:
    """Seconds until a group must be ready: TensorFlow's import takes its cores' time."""
    return 60.0 * max(1.0, workers / (2 * (os.cpu_count() or 1)))


def check_writable(model_dir: str) -> None:
    """Raises ConfigError, before anything starts, if no checkpoint can be written there."""
    try:
        os.makedirs(model_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=model_dir) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        message = _(
            "Checkpoints cannot be written to model_dir={model_dir!r}: {reason}. Name a folder "
            "that you may write to, on a disk with room."
        )
        raise ConfigError(message.format(model_dir=model_dir, reason=error.strerror)) from None
