"""Starts the processes of one attempt, with ports, `TF_CONFIG`s, cores and logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.processes import TaskProcess
from helpers.system.machine import assign_gpus, share_cores, visible_gpus
from helpers.system.netns import Network
from helpers.system.ports import free_ports
from helpers.system.virtual_hosts import VirtualHosts
from helpers.tf_config import EVALUATOR, WORKER, Task, TFConfig, build_tf_configs


@dataclass(frozen=True)
class Launcher:
    """Starts processes for all attempts of one run.

    Attributes:
      workers: the number of worker processes, unless `launch` gets another one.
      ps: the number of parameter servers. If there are any, there is also a chief, the coordinator.
      evaluator: whether there is an evaluator.
      payload_path: the file that contains the job.
      run_dir: where each attempt gets a folder for logs and temporary files.
      network: an isolated network, a virtual host for each task, or None for the machine's network.
      keras: the Keras version that the workers import.
      fault_injector: determines by how much the start of a task is delayed.
    """

    workers: int
    ps: int
    evaluator: bool
    payload_path: Path
    run_dir: Path
    network: Network | VirtualHosts | None
    keras: int
    fault_injector: FaultInjector

    def launch(self, attempt: int, workers: int | None = None) -> list[TaskProcess]:
        """Starts one process for each task on free ports. If one fails to start, all are ended.

        Args:
          workers: the number of worker processes, if it differs from the first attempt's.
        """
        if workers not in (None, self.workers):
            return replace(self, workers=workers).launch(attempt)
        configs = build_tf_configs(
            self._addresses(), chief=self.ps > 0, ps=self.ps, evaluator=self.evaluator
        )
        folder = self.run_dir / f"attempt-{attempt}"
        folder.mkdir()
        return self._start(configs, folder)

    def _addresses(self) -> list[str]:
        """The addresses of chief, workers and parameter servers."""
        count = (self.ps > 0) + self.workers + self.ps
        if isinstance(self.network, VirtualHosts):
            return self.network.addresses[:count]
        return [f"127.0.0.1:{port}" for port in free_ports(count)]

    def _start(self, configs: Sequence[TFConfig], folder: Path) -> list[TaskProcess]:
        shares = share_cores(self.workers)
        started: list[TaskProcess] = []
        try:
            for index, config in enumerate(configs):
                # Servers wait for each other in threads, so with ps they need several threads.
                alone = config.task.type == EVALUATOR or self.ps > 0
                cores = [] if alone else shares[index]
                log = folder / f"{config.task.type}-{config.task.index}.log"
                started.append(self._process(config, log, cores))
        except BaseException:
            for process in started:
                process.close()
            raise
        return started

    def respawn(self, failed: TaskProcess) -> TaskProcess:
        """Starts a process that replaces a failed one at the same address."""
        return self._process(failed.config, failed.log, [])

    def _process(self, config: TFConfig, log: Path, cores: Sequence[int]) -> TaskProcess:
        self.fault_injector.reset_task(str(config.task))
        return TaskProcess(
            config,
            self.payload_path,
            log,
            cores,
            gpus=self._gpus(config.task),
            network=self._network(config),
            keras=self.keras,
            delay=self.fault_injector.take_start_delay(str(config.task)),
        )

    def _network(self, config: TFConfig) -> Network | None:
        if isinstance(self.network, VirtualHosts):
            tasks = config.tasks
            return self.network.networks[tasks.index(config.task) if config.task in tasks else -1]
        return self.network

    def _gpus(self, task: Task) -> str | None:
        """The GPUs of a task. Only workers get GPUs. None if the machine has no GPU."""
        if not visible_gpus():
            return None
        return assign_gpus(self.workers)[task.index] if task.type == WORKER else ""
