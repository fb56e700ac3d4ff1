"""A process of a project: runs the student's module on request of the kernel.

    python -m helpers.course.projects.worker CONTROL LISTENER

The arguments are descriptors of sockets. The kernel sends messages (`wire`) to the first one. The
fields of a message are the arguments of a method of `Session`, and each message has one answer.
"""

from __future__ import annotations

import importlib.util
import io
import socket
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from helpers.course import process_memory
from helpers.course.projects import adapters, wire
from helpers.system import parent_death

Answer = tuple[dict[str, Any], list[Any]]
MAX_TEXT = 500  # characters of an error
FOLDER = Path.cwd()  # of the student's module


class Session:
    """The student's object, its arguments, and its last result."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._subject: Any = None
        self._arguments: list[Any] = []
        self._result: Any = None

    def open(
        self, module: str, adapter: str, rank: int, addresses: list[Any], timeout: float
    ) -> Answer:
        """Imports the module, and calls the project's adapter."""
        places = [(str(host), int(port)) for host, port in addresses]
        place = adapters.Place(rank, self._listener, places, timeout)
        return self._timed(
            lambda: getattr(adapters, adapter)(load(Path(module)), place), "_subject"
        )

    def put(self, arrays: list[Any]) -> Answer:
        """Stores the arguments of the next calls."""
        self._result = None
        self._arguments = arrays
        process_memory.return_free()
        return {}, []

    def call(self, method: str, repeat: int) -> Answer:
        """Calls a method of the object with the stored arguments, and keeps the last result."""
        before = _checksums(self._arguments)
        function = getattr(self._subject, method, None)
        header, arrays = self._timed(
            lambda: _required(function, method)(*self._arguments), "_result", repeat
        )
        header["changed"] = _checksums(self._arguments) != before
        return header, arrays

    def fetch(self) -> Answer:
        """Returns the last result, if it is an array."""
        found = self._result
        if isinstance(found, np.ndarray) and not found.dtype.hasobject:
            return {}, [found]
        return {"other": f"{type(found).__name__} {found!r}"[:MAX_TEXT]}, []

    def _timed(self, function: Callable[[], Any], attribute: str, repeat: int = 1) -> Answer:
        """Stores the value of a function, and answers with its seconds or its error."""
        seconds = []
        try:
            for _turn in range(repeat):
                setattr(self, attribute, None)  # frees the last result
                start = time.perf_counter()
                setattr(self, attribute, function())
                seconds.append(time.perf_counter() - start)
        except BaseException as error:  # SystemExit of the student's code too
            return describe(error), []
        return {"seconds": seconds}, []


def load(path: Path) -> ModuleType:
    """Imports the student's module from its file. It may import modules of the same folder."""
    sys.path.append(str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def describe(error: BaseException) -> dict[str, Any]:
    """An error, and the student's last line in its traceback, if there is one."""
    kind, text, file, line = type(error).__name__, str(error), "", 0
    frames = traceback.extract_tb(error.__traceback__)
    for frame in frames:
        if Path(frame.filename).parent == FOLDER:
            file, line = Path(frame.filename).name, frame.lineno or 0
    if isinstance(error, SyntaxError) and error.filename:
        text, file, line = error.msg, Path(error.filename).name, error.lineno or 0
    text = ": ".join(part for part in (kind, text) if part)
    return {"error": text[:MAX_TEXT], "type": kind, "file": file, "line": line}


def serve(connection: Connection, session: Session) -> None:
    """Answers messages until the kernel closes the connection."""
    while True:
        try:
            header, arrays = wire.receive(connection)
            operation = header.pop("operation")
            if operation == "put":
                header["arrays"] = arrays
            wire.send(connection, *getattr(session, operation)(**header))
        except (EOFError, OSError):
            return


def main() -> None:
    """Runs the process."""
    parent_death.die_with_parent()
    control, listener = map(int, sys.argv[1:])
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # because most processes end by a signal
    serve(Connection(control), Session(socket.socket(fileno=listener)))


def _required(function: Any, method: str) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"the object has no method {method}()")
    return function


def _checksums(arrays: list[Any]) -> list[int]:
    return [zlib.crc32(np.ascontiguousarray(array)) for array in arrays]


if __name__ == "__main__":
    main()
