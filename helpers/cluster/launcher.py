"""Starts the processes of one attempt: ports, `TF_CONFIG`s, cores, logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.cluster.harm import Harms
from helpers.cluster.processes import TaskProcess
from helpers.system.hosts import Hosts
from helpers.system.isolation import Network
from helpers.system.machine import share_cores, share_gpus, visible_gpus
from helpers.system.ports import free_ports
from helpers.tf_config import EVALUATOR, WORKER, Task, TFConfig, build


@dataclass(frozen=True)
class Launcher:
    """What the attempts of one run have in common.

    Attributes:
      workers: how many worker processes.
      ps: how many parameter servers; with any, there is a chief besides, the coordinator.
      evaluator: whether an evaluator runs beside them.
      payload: the file with the job.
      folder: where each attempt gets a folder for logs and temporary files.
      network: the workers' own network, or None for the machine's; or a host for each task.
      keras: which Keras they import.
      harms: what is done to them.
    """

    workers: int
    ps: int
    evaluator: bool
    payload: Path
    folder: Path
    network: Network | Hosts | None
    keras: int
    harms: Harms

    def launch(self, attempt: int) -> list[TaskProcess]:
        """Starts one process for each task, all or none, on ports that are free now."""
        configs = build(self._addresses(), chief=self.ps > 0, ps=self.ps, evaluator=self.evaluator)
        folder = self.folder / f"attempt-{attempt}"
        folder.mkdir()
        return self._start(configs, folder)

    def _addresses(self) -> list[str]:
        """Where chief, workers and parameter servers will listen."""
        count = (self.ps > 0) + self.workers + self.ps
        if isinstance(self.network, Hosts):
            return self.network.addresses[:count]
        return [f"127.0.0.1:{port}" for port in free_ports(count)]

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
        return TaskProcess(
            config,
            self.payload,
            log,
            cores,
            gpus=self._gpus(config.task),
            network=self._network(config),
            keras=self.keras,
            delay=self.harms.renewed(str(config.task)),
        )

    def _network(self, config: TFConfig) -> Network | None:
        if isinstance(self.network, Hosts):
            tasks = config.tasks
            return self.network.networks[tasks.index(config.task) if config.task in tasks else -1]
        return self.network

    def _gpus(self, task: Task) -> str | None:
        """Those that a worker computes on; no other task needs one. None if there are none."""
        if not visible_gpus():
            return None
        return share_gpus(self.workers)[task.index] if task.type == WORKER else ""
