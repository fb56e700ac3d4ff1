"""The stacks of a worker, which it writes to a file when its process receives a signal.

`faulthandler` writes them from the signal's handler in C. It needs no lock of Python, so a worker
answers even while TensorFlow holds the lock and waits for peers.
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
from typing import NamedTuple

from helpers.protocol.failures import Frame

SIGNAL = getattr(signal, "SIGUSR1", None)  # not used by TensorFlow, Python or this package
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


def dump_path(folder: Path, pid: int) -> Path:
    """The file of a process on this machine. Several machines may share the folder."""
    return folder / f"stacks-{socket.gethostname()}-{pid}.txt"


def write_on_signal(folder: Path) -> None:
    """Makes this process append the stacks of all threads to its file at each `SIGNAL`.

    Does nothing on a system without that signal, or if the file cannot be created.
    """
    if SIGNAL is None or not hasattr(faulthandler, "register"):
        return
    with suppress(OSError):
        file = dump_path(folder, os.getpid()).open("a")  # faulthandler keeps it open
        file.write(f"Main thread {threading.main_thread().ident:#x}\n")
        file.flush()
        faulthandler.register(SIGNAL, file=file, all_threads=True)


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
