"""The operating-system process of each task of a local cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from helpers.cluster import temporary_folders
from helpers.cluster.environment import base_env
from helpers.cluster.event_lines import LineBuffer
from helpers.cluster.fork_client import ForkedProcess, can_fork, fork
from helpers.cluster.process_handle import ProcessHandle, ProcessSpec
from helpers.i18n import LANGUAGE, language, ngettext, number
from helpers.protocol.events import EVENT_FD, Event, EventType, decode
from helpers.system import orphans, parent_death, programs
from helpers.system.descriptors import fill_standard
from helpers.system.machine import VISIBLE_GPUS
from helpers.system.netns import NAMESPACES, Network
from helpers.tf_config import Task, TFConfig

READ_BYTES = 1 << 16
LOG_TAIL_BYTES = 1 << 14
MAX_LOG_BYTES = 1 << 24
EXIT_TIMEOUT = 5.0


class SpawnedProcess(subprocess.Popen[bytes]):
    """A worker in a new Python process, which imports TensorFlow itself."""

    def __init__(self, spec: ProcessSpec) -> None:
        environ = {**spec.env, **spec.extra_env, EVENT_FD: str(spec.event_fd)}
        if spec.namespaces:
            environ[NAMESPACES] = ",".join(map(str, spec.namespaces))
        super().__init__(
            programs.command("helpers.worker", *spec.arguments),
            stdin=subprocess.PIPE,
            stdout=spec.log_fd,
            stderr=subprocess.STDOUT,
            env=environ,
            pass_fds=[spec.event_fd, *spec.namespaces],
            start_new_session=True,  # Ctrl-C in the notebook must not reach it
        )

    def signal(self, number: int) -> None:
        if self.poll() is None:
            left_its_session = orphans.descendants(self.pid) if number == signal.SIGKILL else []
            with suppress(ProcessLookupError, PermissionError):  # it has just ended (macOS)
                os.killpg(self.pid, number)
            for pid in left_its_session:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        # Kills the remaining processes of its session.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return code

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()
        assert self.stdin is not None
        if not self.stdin.closed:
            parent_death.stop_guard(self.stdin.fileno())
            self.stdin.close()


class DelayedProcess:
    """A process that is started after a delay, unless it is killed first."""

    def __init__(self, spec: ProcessSpec, seconds: float) -> None:
        self._spec = replace(spec, log_fd=os.dup(spec.log_fd), event_fd=os.dup(spec.event_fd))
        self._process: ProcessHandle | None = None
        self._returncode: int | None = None  # of a process that was never started
        self._lock = threading.Lock()
        self._decided = threading.Event()
        self._timer = threading.Timer(seconds, self._begin)
        self._timer.daemon = True
        self._timer.start()

    @property
    def pid(self) -> int:
        self._decided.wait()
        if self._process is None:
            raise ProcessLookupError("ended before it began")
        return self._process.pid

    @property
    def process(self) -> ProcessHandle | None:
        """The process, after it was started."""
        return self._process

    @property
    def is_pending(self) -> bool:
        """Whether it has not been started yet."""
        return not self._decided.is_set()

    def poll(self) -> int | None:
        return self._process.poll() if self._process else self._returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._decided.wait(timeout):
            raise subprocess.TimeoutExpired("helpers.worker", timeout or 0)
        if self._process:
            return self._process.wait(timeout)
        assert self._returncode is not None
        return self._returncode

    def signal(self, number: int) -> None:
        if number == signal.SIGKILL:
            self._on_delay_elapsed(-number)
        if self._process:
            self._process.signal(number)

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process:
            self._process.close()

    def _begin(self) -> None:
        self._on_delay_elapsed(None)

    def _on_delay_elapsed(self, returncode: int | None) -> None:
        """Starts the process or, with a return code, never starts it. The first call decides."""
        with self._lock:
            if self._decided.is_set():
                return
            self._timer.cancel()
            self._returncode = returncode
            try:
                if returncode is None:
                    self._process = start_process(self._spec)
            except OSError:
                self._returncode = 1
            finally:
                os.close(self._spec.log_fd)
                os.close(self._spec.event_fd)
                self._decided.set()


def start_process(spec: ProcessSpec) -> ProcessHandle:
    """Starts a worker. It is forked if that is safe on this machine, else spawned."""
    return fork(spec) if can_fork() else SpawnedProcess(spec)


class TaskProcess:
    """The process of a task, with its own session, event pipe and log file.

    It ends with this process, because it is killed when the pipe to its standard input is closed
    (`helpers.system.parent_death`). If it is safe, it is forked from a process that has imported
    TensorFlow (`helpers.cluster.fork_server`).

    Attributes:
      config: its `TF_CONFIG`.
      log: the file that its output is written to.
      has_started: whether it has reported its start.

    Args:
      payload: the file that contains the job.
      cores: the cores it is bound to, or empty for all cores.
      gpus: the value of CUDA_VISIBLE_DEVICES, or None for all GPUs.
      network: an isolated network, or None for the machine's network.
      keras: the Keras it imports.
      delay: seconds to wait before it is started.
    """

    has_started = False

    def __init__(
        self,
        config: TFConfig,
        payload: Path,
        log: Path,
        cores: Sequence[int],
        *,
        gpus: str | None = None,
        network: Network | None = None,
        keras: int = 2,
        delay: float = 0.0,
    ) -> None:
        self.config = config
        self.log = log
        fill_standard()
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            with log.open("ab") as output:
                spec = ProcessSpec(
                    [str(payload), "--cores", ",".join(map(str, cores))],
                    base_env(keras),
                    _task_env(config, log.parent, gpus),
                    output.fileno(),
                    writer,
                    network.descriptors if network else [],
                    temporary_folders.containing(log),
                )
                self._process: ProcessHandle = (
                    DelayedProcess(spec, delay) if delay else start_process(spec)
                )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._reader: int | None = reader
        self._lines = LineBuffer()

    @property
    def task(self) -> Task:
        """The task that the process runs."""
        return self.config.task

    @property
    def pid(self) -> int:
        """The id of the process and of its process group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        pending = isinstance(self._process, DelayedProcess) and self._process.is_pending
        return not pending and self._process.poll() is None

    @property
    def start_error(self) -> str | None:
        """The output of the failed start, or None if the process could be started."""
        started = self._process
        process = started.process if isinstance(started, DelayedProcess) else started
        return process.start_error if isinstance(process, ForkedProcess) else None

    def fileno(self) -> int:
        """The event pipe, for `select`."""
        assert self._reader is not None
        return self._reader

    @property
    def has_exited(self) -> bool:
        """Whether the event pipe is closed, which means the process has ended."""
        return self._reader is None

    def read_events(self) -> list[Event]:
        """Reads the events that arrived since the last call, without waiting."""
        if self._reader is None:
            return []
        lines: list[bytes] = []
        try:
            while data := os.read(self._reader, READ_BYTES):
                lines += self._lines.add(data)
                if len(data) < READ_BYTES:
                    break  # there is no more
        except BlockingIOError:
            pass
        else:
            if not data:
                self._close_pipe()
        events = [event for line in lines if (event := decode(line)) is not None]
        self.has_started |= any(event["event"] == EventType.STARTED for event in events)
        return events

    def wait(self, seconds: float = EXIT_TIMEOUT) -> int:
        """Waits for the end, and returns the exit code, or minus the signal number.

        A process that is still running after `seconds` is killed.
        """
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self._process.wait()

    def signal(self, number: int) -> None:
        """Sends a signal to the process and its children, or does nothing if it has ended."""
        self._process.signal(number)

    def close(self) -> None:
        """Kills the process, waits for its end and closes the pipes."""
        self._process.close()
        self._close_pipe()

    def log_tail(self, lines: int = 12) -> str:
        """The last lines of the log."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def truncate_log(self) -> None:
        """Cuts the end of a log that is too long. New output is appended after a note."""
        with suppress(OSError):
            size = self.log.stat().st_size
            if size > MAX_LOG_BYTES:
                os.truncate(self.log, MAX_LOG_BYTES // 2)
                cut = size - MAX_LOG_BYTES // 2
                note = ngettext(
                    "… {cut} byte omitted here: a log has at most {most} …",
                    "… {cut} bytes omitted here: a log has at most {most} …",
                    cut,
                ).format(cut=number(cut, ",d"), most=number(MAX_LOG_BYTES, ",d"))
                with self.log.open("ab") as file:  # append, as the process does
                    file.write(f"\n{note}\n".encode())

    def _close_pipe(self) -> None:
        if self._reader is not None:
            os.close(self._reader)
            self._reader = None


def _task_env(config: TFConfig, folder: Path, gpus: str | None) -> dict[str, str]:
    """The environment variables of one worker."""
    return {
        **({VISIBLE_GPUS: gpus} if gpus is not None else {}),
        "TF_CONFIG": config.to_json(),
        "TMPDIR": str(folder),  # deleted with the run, after a kill too
        LANGUAGE: language(),  # for the errors that it sends to the notebook
    }
