"""One operating-system process for each task of a local cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from helpers.cluster.fork_client import ForkedProcess, Start, can_fork, fork
from helpers.i18n import LANGUAGE, _, language
from helpers.messages.events import EVENT_FD, Event, decode
from helpers.system import keras_choice, lifeline, orphans
from helpers.system.isolation import NAMESPACES, Network
from helpers.system.machine import VISIBLE_GPUS
from helpers.system.one_dnn import select_one_dnn
from helpers.system.ports import without_proxies
from helpers.tf_config import Task, TFConfig

READ_BYTES = 1 << 16
LOG_TAIL_BYTES = 1 << 14
LOG_BYTES = 1 << 24
END_SECONDS = 5.0
# By its import: a fork server that was started before this process imported it is as good.
# To TensorFlow 2.21, by name, with the value; None for any.
SET_BY_TENSORFLOW = {
    "ENABLE_RUNTIME_UPTIME_TELEMETRY": "1",
    "HDF5_PLUGIN_PATH": "disable",
    "TF2_BEHAVIOR": "1",
    "TPU_ML_PLATFORM": "Tensorflow",
    "TPU_ML_PLATFORM_VERSION": None,
}
OWN_VARIABLES: tuple[str, ...] = ("TF_CONFIG", "TMPDIR", LANGUAGE)


class SpawnedProcess(subprocess.Popen[bytes]):
    """A worker that is started anew and imports TensorFlow for itself."""

    def __init__(self, start: Start) -> None:
        environ = {**start.environment, **start.own, EVENT_FD: str(start.events)}
        if start.namespaces:
            environ[NAMESPACES] = ",".join(map(str, start.namespaces))
        super().__init__(
            [sys.executable, "-u", "-m", "helpers.worker", *start.arguments],
            stdin=subprocess.PIPE,
            stdout=start.log,
            stderr=subprocess.STDOUT,
            env=environ,
            pass_fds=[start.events, *start.namespaces],
            start_new_session=True,  # Ctrl-C in the notebook is not for the worker
        )

    def signal(self, number: int) -> None:
        """As `ForkedProcess.signal`."""
        if self.poll() is None:
            left_its_session = orphans.descendants(self.pid) if number == signal.SIGKILL else []
            with suppress(ProcessLookupError, PermissionError):  # it has just ended (macOS says so)
                os.killpg(self.pid, number)
            for pid in left_its_session:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def wait(self, timeout: float | None = None) -> int:
        """As that of `subprocess.Popen`; then kills what is left of its session."""
        code = super().wait(timeout)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        return code

    def close(self) -> None:
        """As `ForkedProcess.close`."""
        self.signal(signal.SIGKILL)
        self.wait()
        assert self.stdin is not None
        if not self.stdin.closed:
            lifeline.dismiss_guard(self.stdin.fileno())
            self.stdin.close()


class LateProcess:
    """A process that begins some seconds late, unless it is ended before.

    Args:
      start: what it will be given.
    """

    def __init__(self, start: Start, seconds: float) -> None:
        self._start = replace(start, log=os.dup(start.log), events=os.dup(start.events))
        self._process: ForkedProcess | SpawnedProcess | None = None
        self._returncode: int | None = None  # of one that never began
        self._lock = threading.Lock()
        self._decided = threading.Event()
        self._timer = threading.Timer(seconds, self._begin)
        self._timer.daemon = True
        self._timer.start()

    @property
    def pid(self) -> int:
        """As `ForkedProcess.pid`."""
        self._decided.wait()
        if self._process is None:
            raise ProcessLookupError("ended before it began")
        return self._process.pid

    @property
    def waits(self) -> bool:
        """Whether it is yet to begin."""
        return not self._decided.is_set()

    def poll(self) -> int | None:
        """As `ForkedProcess.poll`."""
        return self._process.poll() if self._process else self._returncode

    def wait(self, timeout: float | None = None) -> int:
        """As `ForkedProcess.wait`."""
        if not self._decided.wait(timeout):
            raise subprocess.TimeoutExpired("helpers.worker", timeout or 0)
        if self._process:
            return self._process.wait(timeout)
        assert self._returncode is not None
        return self._returncode

    def signal(self, number: int) -> None:
        """As `ForkedProcess.signal`; one that is yet to begin heeds nothing but SIGKILL."""
        if number == signal.SIGKILL:
            self._decide(-number)
        if self._process:
            self._process.signal(number)

    def close(self) -> None:
        """As `ForkedProcess.close`."""
        self.signal(signal.SIGKILL)
        if self._process:
            self._process.close()

    def _begin(self) -> None:
        self._decide(None)

    def _decide(self, returncode: int | None) -> None:
        """Has it begin or, with a return code, never begin; whoever comes first decides."""
        with self._lock:
            if self._decided.is_set():
                return
            self._timer.cancel()
            self._returncode = returncode
            try:
                if returncode is None:
                    self._process = begin(self._start)
            except OSError:
                self._returncode = 1
            finally:
                os.close(self._start.log)
                os.close(self._start.events)
                self._decided.set()


def begin(start: Start) -> ForkedProcess | SpawnedProcess:
    """Starts a worker, in the way of this machine."""
    return fork(start) if can_fork() else SpawnedProcess(start)


class TaskProcess:
    """A started task: its own session, its own event pipe, its own log file.

    It dies with this process: it is killed when the pipe to its standard input, whose other end
    only we hold, closes (`helpers.system.lifeline`). Where that is safe it is forked from a process
    which has imported TensorFlow (`helpers.cluster.fork_server`).

    Attributes:
      config: its `TF_CONFIG`.
      log: the file it prints to.

    Args:
      payload: the file with the job.
      cores: those it is bound to; none for all.
      gpus: those it sees, as CUDA_VISIBLE_DEVICES names them; None for all.
      network: the workers' own, or None for the machine's.
      keras: the Keras it imports.
      delay: seconds by which it begins late.
    """

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
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            with log.open("ab") as output:
                start = Start(
                    [str(payload), "--cores", ",".join(map(str, cores))],
                    common_environment(keras),
                    _own_environment(config, log.parent, gpus),
                    output.fileno(),
                    writer,
                    network.descriptors if network else [],
                )
                self._process = LateProcess(start, delay) if delay else begin(start)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._reader: int | None = reader
        self._unread: list[bytes] = []  # of a line that has no end yet

    @property
    def task(self) -> Task:
        """Which task of the cluster it is."""
        return self.config.task

    @property
    def pid(self) -> int:
        """The process id, also of its process group."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has begun, and not ended."""
        waits = isinstance(self._process, LateProcess) and self._process.waits
        return not waits and self._process.poll() is None

    def fileno(self) -> int:
        """The event pipe, for `select`."""
        assert self._reader is not None
        return self._reader

    @property
    def at_end(self) -> bool:
        """Whether the event pipe is closed, which means the process has ended."""
        return self._reader is None

    def read_events(self) -> list[Event]:
        """The events that have come since the last call, without waiting."""
        if self._reader is None:
            return []
        lines: list[bytes] = []
        try:
            while data := os.read(self._reader, READ_BYTES):
                first, *others = data.split(b"\n")
                self._unread.append(first)
                if others:
                    lines += [b"".join(self._unread), *others[:-1]]
                    self._unread = others[-1:]
                if len(data) < READ_BYTES:
                    break  # there is no more
        except BlockingIOError:
            pass
        else:
            if not data:
                self._close_pipe()
        return [event for line in lines if (event := decode(line)) is not None]

    def wait(self, seconds: float = END_SECONDS) -> int:
        """Waits for the end; the exit code, or minus the number of the signal.

        A process still there after `seconds` is killed.
        """
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            return self._process.wait()

    def signal(self, number: int) -> None:
        """Sends a signal to the process and whatever it started; none if it has ended."""
        self._process.signal(number)

    def close(self) -> None:
        """Kills the process, waits for its end and closes the pipes."""
        self._process.close()
        self._close_pipe()

    def log_tail(self, lines: int = 12) -> str:
        """The last lines it printed."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def cut_log(self) -> None:
        """Takes out the middle of a log that has become too long: what was printed first stays,
        and what is printed from now on.
        """
        with suppress(OSError):
            size = self.log.stat().st_size
            if size > LOG_BYTES:
                os.truncate(self.log, LOG_BYTES // 2)
                note = _("… {cut:,} bytes are cut out here: a log has at most {most:,} …")
                note = note.format(cut=size - LOG_BYTES // 2, most=LOG_BYTES)
                with self.log.open("ab") as file:  # as the process writes: at the end
                    file.write(f"\n{note}\n".encode())

    def _close_pipe(self) -> None:
        if self._reader is not None:
            os.close(self._reader)
            self._reader = None


def common_environment(keras: int = 2) -> dict[str, str]:
    """What all workers of this program with the same Keras have in common."""
    environ = without_proxies(os.environ)
    for name in (*OWN_VARIABLES, keras_choice.LEGACY_KERAS):
        environ.pop(name, None)
    for name, value in SET_BY_TENSORFLOW.items():
        if value in (None, environ.get(name)):
            environ.pop(name, None)
    environ |= keras_choice.variables(keras)
    environ.setdefault("MALLOC_ARENA_MAX", "2")  # 90 MB less in a worker, measured
    select_one_dnn(environ)
    environ["TF_CPP_MIN_LOG_LEVEL"] = "1"  # a notebook may silence itself, not the logs
    return environ


def _own_environment(config: TFConfig, folder: Path, gpus: str | None) -> dict[str, str]:
    """What each worker has for itself."""
    return {
        **({VISIBLE_GPUS: gpus} if gpus is not None else {}),
        "TF_CONFIG": config.to_json(),
        "TMPDIR": str(folder),  # what a killed process leaves there goes with the run
        LANGUAGE: language(),  # for the errors it sends to the notebook
    }
