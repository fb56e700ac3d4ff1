"""`breakpoint()` and `pdb.set_trace()` in a worker, with the prompt in the notebook.

The standard input of a worker belongs to its supervisor, and other workers may stop at the same
time. So the debugger sends its output as events, and reads lines from a named pipe.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import pdb
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Any

from helpers.i18n import _
from helpers.protocol.debugger_pipe import pipe_path
from helpers.protocol.events import EventType
from helpers.protocol.failures import Frame
from helpers.worker.context import Report

VARIABLE = "PYTHONBREAKPOINT"  # Python reads it: 0, or the name of another function
SKIPPED = ("helpers.*", "tensorflow.*")  # modules that `step` and `next` do not enter
MAX_TEXT = 100_000  # characters for one prompt, far below the limit of an event


def install(report: Report, folder: Path, name: str) -> None:
    """Makes `breakpoint` and `pdb.set_trace` of this process open a prompt in the notebook.

    Args:
      report: sends the events.
      folder: where the pipe is created.
      name: the worker's name, which its prompt shows.
    """
    owner = os.getpid()

    def stop(frame: FrameType, header: str | None = None) -> None:
        console = Console(report, pipe_path(folder, os.getpid()))
        if os.getpid() != owner or not console.create_pipe():
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            message = _("breakpoint() at {place} was skipped, because this process has no prompt.")
            print(message.format(place=place), file=sys.stderr, flush=True)
            return
        if header is not None:
            console.write(f"{header}\n")
        NotebookPdb(console, name).set_trace(frame)

    def breakpoint_hook(*args: Any, **options: Any) -> Any:
        if os.environ.get(VARIABLE):
            return sys.__breakpointhook__(*args, **options)
        return stop(sys._getframe(1), *args, **options)

    def set_trace(*, header: str | None = None) -> None:
        stop(sys._getframe(1), header)

    sys.breakpointhook = breakpoint_hook
    pdb.set_trace = set_trace


class Console(io.TextIOBase):
    """Standard input and output of a debugger.

    Args:
      report: sends the events.
      path: the path of the pipe.
    """

    lock = threading.Lock()  # held while the debugger of one thread waits

    def __init__(self, report: Report, path: Path) -> None:
        self._report = report
        self._path = path
        self._text = ""
        self._lines: IO[bytes] | None = None
        self._place: Frame = ("", 0, "")

    def create_pipe(self) -> bool:
        """Checks that the system can create the pipe."""
        with contextlib.suppress(OSError, AttributeError), self.opened(None):
            return True
        return False

    @contextlib.contextmanager
    def opened(self, frame: FrameType | None) -> Iterator[None]:
        """Receives lines while the debugger is at a frame, or only creates the pipe without one."""
        with self.lock:
            with contextlib.suppress(FileNotFoundError):  # an interrupt may have left one
                os.unlink(self._path)
            try:
                os.mkfifo(self._path)
                if frame is None:
                    yield
                    return
                code = frame.f_code
                self._place = (code.co_filename, frame.f_lineno, code.co_name)
                with open(self._path, "r+b", buffering=0) as self._lines:  # never at end of file
                    yield
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)
                self._lines = None
                if frame is not None:
                    self._report(EventType.DEBUGGER_CONTINUED, text=self._take())

    def write(self, text: str) -> int:
        """Keeps text for the next event."""
        self._text += text
        return len(text)

    def flush(self) -> None:
        """Does nothing, because the next event sends the text."""

    def close(self) -> None:
        """Does nothing. `exit()` closes standard input."""

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        """Sends the text so far, and waits for a line."""
        assert self._lines is not None
        sys.stdout.flush()  # what was printed before
        self._report(EventType.DEBUGGER_STOPPED, text=self._take(), place=self._place)
        return self._lines.readline().decode(errors="replace")

    def _take(self) -> str:
        """The text so far. Long output is cut to its beginning and the prompt."""
        lines, newline, prompt = self._text.rpartition("\n")
        self._text = ""
        if len(lines) > MAX_TEXT:
            lines = f"{lines[:MAX_TEXT]}…"
        return f"{lines}{newline}{prompt[:MAX_TEXT]}"


class NotebookPdb(pdb.Pdb):
    """A debugger with a console instead of a terminal.

    Args:
      console: its input and output.
      name: the worker's name, for the prompt.
    """

    def __init__(self, console: Console, name: str) -> None:
        streams: Any = console
        super().__init__(stdin=streams, stdout=streams, skip=SKIPPED, nosigint=True, readrc=False)
        self._console = console
        self.prompt = f"(Pdb {name}) "

    def _cmdloop(self) -> None:
        """Reads commands. In contrast to the loop of `Pdb`, this loop ends at an interrupt."""
        with self._console.opened(self.curframe):
            self.cmdloop()

    def canonic(self, filename: str) -> str:
        """The name of a file. A cell has no path, but its text is known by its name."""
        return filename if filename in linecache.cache else super().canonic(filename)

    def do_interact(self, arg: str) -> None:
        """Starts an interactive interpreter on the console. `exit()` returns to the debugger."""
        before = sys.stdin, sys.stdout, sys.stderr
        sys.stdin = sys.stdout = sys.stderr = self._console
        try:
            with contextlib.suppress(SystemExit):
                super().do_interact(arg)
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
