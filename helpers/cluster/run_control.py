"""The control of a running group of local processes, from any thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from helpers.cluster.elastic import ElasticCluster
from helpers.cluster.fault_injection import FaultInjector
from helpers.cluster.group_size import GroupSize
from helpers.cluster.processes import TaskProcess
from helpers.cluster.stacks import Stacks
from helpers.cluster.supervisor import Supervisor
from helpers.system.virtual_hosts import VirtualHosts


class RunControl(ElasticCluster):
    """Stops, resizes and inspects the run of a `LocalCluster`, and injects faults into it."""

    def _init_control(self, tasks: Sequence[str]) -> None:
        self._fault_injector = FaultInjector(tasks)
        self._supervisor: Supervisor | None = None  # guarded by the lock too

    @contextmanager
    def _controlled(
        self,
        supervisor: Supervisor,
        size: GroupSize,
        tasks: Sequence[str],
        hosts: VirtualHosts | None,
    ) -> Iterator[None]:
        """Allows the methods below to act on a run, and closes its supervisor at its end."""
        with self._lock:
            self._supervisor = supervisor
        self._fault_injector.attach(tasks, size, hosts)
        try:
            with self._resizable(size):
                yield
        finally:
            with self._lock:
                supervisor.close()
            self._fault_injector.detach()

    @property
    def processes(self) -> list[TaskProcess]:
        """The process of each task, in the current or the last run."""
        return self._supervisor.processes if self._supervisor else []

    def stacks(self) -> Stacks:
        """Shows where each task is: your line, what it waits for, and all frames.

        Call it while `train` or `run` is running: from `on_event`, from another thread, or from a
        button. It waits at most a second. When a timeout expires, the stacks are collected before
        the processes are killed, and this method returns them after the run.

        Returns: a dict with the `helpers.cluster.stacks.TaskStack` of each task, such as
          `stacks()["worker 1"].place`. When printed, it has a line for each task.
        """
        return self._supervisor.stacks() if self._supervisor else Stacks()

    def stop(self) -> None:
        """Stops `train` or `run` from any thread, or does nothing if none is running."""
        with self._lock:
            if self._supervisor and self._running:
                self._supervisor.stop()

    def inject_fault(self, fault: str, task: str, **options: Any) -> None:
        """Injects a fault into the process of a running task. Can be called from any thread.

        Call it while `train` or `run` is running: from `on_event`, from another thread, or from a
        button. Each fault is recorded as the event "fault_injected" and as a line of
        `TrainingResult.fault_log`, which also reports how the fault was detected and when training
        resumed. A fault ends when its process ends: after a restart, the new process has no fault.

        Args:
          fault: one of these (docs/FAULTS.md describes TensorFlow's reaction to each):

            - "kill": sends SIGKILL, as the kernel does if memory runs out.
            - "pause": sends SIGSTOP to the process and its children, for `seconds` or until
              cleared.
            - "throttle": runs the process at 1/`factor` of its speed (default 4, at most 50) until
              cleared.
            - "partition": drops all packets from and to the process, as if its network cable were
              pulled, for `seconds` or until cleared. Connections stay open. Needs
              `network="per_task"`.
            - "disk_full": makes every write to a file fail, to its log too, until cleared. On a
              full disk, TensorFlow gets "No space left on device" (ENOSPC). Here it gets "File too
              large" (EFBIG, RLIMIT_FSIZE), because the disk of the machine is not filled.
            - "delay_start": delays the next start of the task by `seconds` (5): the start after a
              restart or, if called before `train` or `run`, the first start.
            - "node_loss": kills a worker and makes its machine unavailable, for `seconds` or until
              cleared. An elastic group continues with fewer workers. Other groups end.
            - "preempt": sends SIGTERM, as a cloud or Slurm does before it reclaims a machine.

          task: the task, as "worker 1", "ps 0", "chief 0", "evaluator 0".
          options: the options named above.

        Raises:
          ConfigError: there is no such fault, task or option, or this cluster cannot inject it.
          ClusterError: the process is not running.
        """
        self._fault_injector.inject(fault, task, options)

    def clear_fault(self, fault: str, task: str) -> None:
        """Clears a fault that `inject_fault` injected, and records the event "fault_cleared".

        Raises:
          ConfigError: there is no such fault or task.
          ClusterError: the fault is not active in this task, or the process is not running.
        """
        self._fault_injector.clear(fault, task)
