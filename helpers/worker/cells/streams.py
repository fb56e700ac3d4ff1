"""Standard output, error and input of the cells that a worker runs."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from helpers.i18n import _
from helpers.worker.cells.connection import Connection
from helpers.worker.cells.display import TEXT, is_rich
from helpers.worker.cells.interrupts import Interrupts

MAX_CHARACTERS = 1_000_000  # of the output of one cell in one worker
MAX_DISPLAYS = 200  # pictures and other rich values of one cell
SEND_INTERVAL = 0.03
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


class Output:
    """Sends text to the notebook, at most `MAX_CHARACTERS` for each cell.

    A line is sent at once, unless text was sent within the last `SEND_INTERVAL`. All other text is
    sent by a thread soon after.
    """

    def __init__(self, connection: Connection, interrupts: Interrupts) -> None:
        self._connection = connection
        self._interrupts = interrupts
        self._lock = threading.RLock()
        self._pending: list[tuple[str, str]] = []
        self._has_pending = threading.Event()
        self._left = MAX_CHARACTERS
        self._displays_left = MAX_DISPLAYS
        self._sent = 0.0
        self.omitted = 0
        threading.Thread(target=self._send_late, daemon=True).start()

    def begin(self) -> None:
        """Begins to count the output of another cell."""
        with self._lock:
            self._left, self.omitted, self._sent = MAX_CHARACTERS, 0, 0.0
            self._displays_left = MAX_DISPLAYS

    def write(self, stream: str, text: str) -> None:
        """Sends text, or drops it after the limit."""
        with self._uninterrupted():
            self._write(stream, text)

    def _write(self, stream: str, text: str) -> None:
        with self._lock:
            shown = text[: self._left]
            self.omitted += len(text) - len(shown)
            self._left -= len(shown)
            if not shown:
                return
            self._pending.append((stream, shown))
        if "\n" in shown and time.monotonic() - self._sent > SEND_INTERVAL:
            self.flush()
        else:
            self._has_pending.set()

    def flush(self) -> None:
        """Sends the text that was written so far."""
        with self._uninterrupted(), self._lock:
            pending, self._pending = self._pending, []
            self._sent = time.monotonic()
            while pending:
                stream = pending[0][0]
                count = next((k for k, one in enumerate(pending) if one[0] != stream), len(pending))
                text = "".join(text for _stream, text in pending[:count])
                self._connection.send("stream", {"stream": stream, "text": text})
                del pending[:count]

    def display(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Sends a MIME bundle, or only text after the limit, after the text written before it."""
        with self._uninterrupted(), self._lock:
            if not is_rich(data) or not self._displays_left:
                self.write("stdout", f"{data[TEXT]}\n")
                return
            self._displays_left -= 1
            self.flush()
            self._connection.send("display", {"data": data, "metadata": metadata})

    @contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        self._interrupts.hold()
        try:
            yield
        finally:
            self._interrupts.release()

    def _send_late(self) -> None:
        while self._has_pending.wait():
            time.sleep(SEND_INTERVAL)
            self._has_pending.clear()
            self.flush()


class CellStream(io.TextIOBase):
    """Standard output or error of the cells, which no cell can close.

    Processes that a cell starts write to the descriptor, and so do forks of the worker.
    """

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, name: str, descriptor: int, output: Output, connection: Connection) -> None:
        self.name = name
        self._descriptor = descriptor
        self._output = output
        self._connection = connection
        self.buffer = _BinaryStream(self)

    def write(self, text: str) -> int:
        """Writes text."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._connection.is_own:
            self._output.write(self.name, text)
        else:
            os.write(self._descriptor, text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Sends the text that was written so far."""
        if self._connection.is_own:
            self._output.flush()

    def close(self) -> None:
        """Does nothing, because the next cell writes to it too."""

    def fileno(self) -> int:
        """The descriptor, for processes that a cell starts."""
        return self._descriptor

    def writable(self) -> bool:
        """It can be written to."""
        return True


class _BinaryStream(io.RawIOBase):
    """The bytes of a `CellStream`, as `sys.stdout.buffer`."""

    def __init__(self, text: CellStream) -> None:
        self._text = text

    def write(self, data: Any) -> int:
        view = bytes(data)
        self._text.write(view.decode(errors="replace"))
        return len(view)

    def flush(self) -> None:
        self._text.flush()

    def close(self) -> None:
        """Does nothing, as `CellStream.close`."""

    def writable(self) -> bool:
        return True


class NoInput(io.TextIOBase):
    """Standard input of the cells, which cannot be read. The real one must stay open."""

    def read(self, size: int | None = -1) -> str:
        """Raises EOFError."""
        raise _no_input()

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        """Raises EOFError."""
        raise _no_input()

    def close(self) -> None:
        """Does nothing. `exit()` closes it."""


def _no_input() -> EOFError:
    message = _(
        "A worker cannot read input. Call input() in a cell of the notebook, and send the value "
        "to the workers with %push."
    )
    return EOFError(message)


class StandardStreams:
    """Installs the streams before each cell, because the previous one may have replaced them."""

    def __init__(self, connection: Connection, interrupts: Interrupts) -> None:
        self.output = Output(connection, interrupts)
        self._streams = {
            "stdout": CellStream("stdout", STANDARD_OUTPUT, self.output, connection),
            "stderr": CellStream("stderr", STANDARD_ERROR, self.output, connection),
            "stdin": NoInput(),
        }
        self._log = os.dup(STANDARD_OUTPUT)

    def install(self) -> None:
        """Makes Python and the descriptors use them."""
        for name, stream in self._streams.items():
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        for descriptor in (STANDARD_OUTPUT, STANDARD_ERROR):
            with suppress(OSError):
                if not os.path.sameopenfile(descriptor, self._log):
                    os.dup2(self._log, descriptor)
                continue
            with suppress(OSError):  # it was closed
                os.dup2(self._log, descriptor)
