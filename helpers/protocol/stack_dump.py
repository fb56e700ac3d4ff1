"""The stacks of a worker, which it writes to a file on request.

A thread of the worker answers requests, with `faulthandler`, while it holds Python's lock, so no
frame changes meanwhile. While TensorFlow holds the lock and waits for peers, that thread cannot
run. Then a signal makes `faulthandler` write the stacks from its handler in C, which needs no lock.
The signal is not the first choice, because a handler that reads the frames of threads that run at
that moment may crash the process.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from helpers.protocol.failures import Frame

SIGNAL = getattr(signal, "SIGUSR1", None)  # not used by TensorFlow, Python or this package
REQUEST = b"s"
_MAIN = re.compile(r"Main thread 0x([0-9a-f]+)\n")
_HEADING = re.compile(r"^(?:Current thread|Thread) 0x(?=[0-9a-f])", re.MULTILINE)
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


class ThreadStack(NamedTuple):
    """The stack of one thread.

    Attributes:
      is_main: whether it is the thread that runs the job.
      frames: the most recent call last, as in a traceback.
    """

    is_main: bool
    frames: tuple[Frame, ...]


class DumpFiles(NamedTuple):
    """The files of one process.

    Attributes:
      requests: a named pipe (FIFO), from which the thread reads a `REQUEST`.
      answers: the answers of the thread.
      signal_answers: the answers to signals.
    """

    requests: Path
    answers: Path
    signal_answers: Path

    @classmethod
    def of(cls, folder: Path, pid: int) -> DumpFiles:
        """The files of a process on this machine. Several machines may share the folder."""
        name = f"stacks-{socket.gethostname()}-{pid}"
        return cls(folder / f"{name}.fifo", folder / f"{name}.txt", folder / f"{name}-signal.txt")


def serve_stacks(folder: Path) -> None:
    """Makes this process answer requests and signals, as far as the system supports it."""
    files = DumpFiles.of(folder, os.getpid())
    with suppress(OSError):
        if SIGNAL is not None and hasattr(faulthandler, "register"):
            # faulthandler keeps the file open.
            faulthandler.register(SIGNAL, file=_create(files.signal_answers), all_threads=True)
    with suppress(OSError, AttributeError):  # a system without named pipes
        os.mkfifo(files.requests)
        answers = _create(files.answers)
        requests = os.open(files.requests, os.O_RDWR)  # so that it has no end
        threading.Thread(target=_answer, args=(requests, answers), daemon=True).start()


def _create(path: Path) -> IO[str]:
    """Creates a file that begins with the number of the main thread."""
    file = path.open("a")
    file.write(f"Main thread {threading.main_thread().ident:#x}\n")
    file.flush()
    return file


def _answer(requests: int, answers: IO[str]) -> None:
    """Appends the stacks of all threads for each request."""
    with suppress(OSError, ValueError):  # the reader's function has closed the files
        while os.read(requests, 1) == REQUEST:
            faulthandler.dump_traceback(answers, all_threads=True)


def main_thread(header: str) -> int:
    """The main thread, from the first line of a file, or 0."""
    found = _MAIN.match(header)
    return int(found[1], 16) if found else 0


def parse(text: str, main: int) -> list[ThreadStack]:
    """The threads in one answer, the main thread first if it is there.

    Args:
      main: the main thread's number.
    """
    stacks = []
    for part in _HEADING.split(text)[1:]:
        heading, *lines = part.splitlines()
        number = int(heading.split()[0], 16)
        frames = [_FRAME.fullmatch(line) for line in reversed(lines)]
        found = ((_decoded(f[1]), int(f[2]), _decoded(f[3])) for f in frames if f)
        stacks.append(ThreadStack(number == main, tuple(found)))
    return sorted(stacks, key=lambda stack: not stack.is_main)


def _decoded(name: str) -> str:
    """Replaces the escapes of characters that are not ASCII."""
    return _ESCAPED.sub(lambda found: chr(int(found[1] or found[2] or found[3], 16)), name)
