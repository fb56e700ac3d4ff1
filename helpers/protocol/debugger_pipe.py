"""The named pipe (FIFO) through which the notebook sends lines to the debugger of a worker.

The debugger's output is sent in events. The pipe exists while the debugger waits.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

PREFIX = "debugger-"


def pipe_path(folder: Path, pid: int) -> Path:
    """The pipe of a process on this machine. Several machines may share the folder."""
    return folder / f"{PREFIX}{socket.gethostname()}-{pid}.fifo"


def send_line(folder: Path, pid: int, line: str) -> None:
    """Sends a line to a debugger that waits, or does nothing if its process has ended."""
    with suppress(OSError):  # no such file, or no reader
        pipe = os.open(pipe_path(folder, pid), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.set_blocking(pipe, True)
            left = f"{line}\n".encode()
            while left:
                left = left[os.write(pipe, left) :]
        finally:
            os.close(pipe)


def is_any_waiting(folder: Path) -> bool:
    """Whether a debugger of a process of this attempt waits for a line."""
    return any(folder.glob(f"{PREFIX}*"))
