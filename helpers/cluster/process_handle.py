"""The interface of a forked or spawned worker process, and the specification to start one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class ProcessSpec:
    """The arguments, environment and descriptors of a new worker.

    Attributes:
      arguments: of `helpers.worker.main.main`.
      env: the environment that all workers of this program share.
      extra_env: the variables of this worker only.
      log_fd: the descriptor of its log.
      event_fd: the descriptor that its events are written to.
      namespaces: descriptors of the namespaces that it enters.
      folder: the temporary folder of its run, or None if it has another folder.
    """

    arguments: Sequence[str]
    env: Mapping[str, str]
    extra_env: Mapping[str, str]
    log_fd: int
    event_fd: int
    namespaces: Sequence[int]
    folder: Path | None = None


class ProcessHandle(Protocol):
    """A worker process, forked or spawned."""

    @property
    def pid(self) -> int:
        """The id of the process and of its process group. Waits until the process has started.

        Raises:
          ProcessLookupError: it was killed before it was started.
        """

    def poll(self) -> int | None:
        """Returns the exit code, or minus the signal number, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end, and returns the value of `poll`.

        Raises:
          subprocess.TimeoutExpired: it is still running after `timeout` seconds.
        """

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children, or does nothing if it has ended.

        A process that has not been started yet can only be killed.
        """

    def close(self) -> None:
        """Kills the process if it runs, waits for its end, and closes its pipes."""
