"""Answers the notebook's requests in a worker: runs cells, and sends and receives values.

The function that `LocalCluster` runs in the workers of a notebook's cells is `serve`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _, join_items
from helpers.protocol import payload, values
from helpers.protocol.cell_messages import Message
from helpers.protocol.failures import error_fields
from helpers.worker.cells.connection import Connection
from helpers.worker.cells.display import display
from helpers.worker.cells.execution import Namespace
from helpers.worker.cells.interrupts import Interrupts
from helpers.worker.cells.streams import StandardStreams
from helpers.worker.context import WorkerContext

BACKEND = "module://helpers.worker.cells.matplotlib_backend"
MAX_NAMES = 200
MAX_FRAMES = 100

Reply = tuple[dict[str, Any], list[values.Buffer]]


def serve(address: str, context: WorkerContext) -> None:
    """Answers requests until the notebook closes the connection, which ends the process.

    Args:
      address: the path of the notebook's Unix socket.
      context: of this worker.
    """
    connection = Connection(address)
    server = Server(connection)
    connection.send("hello", {"worker": context.config.task.index})
    connection.listen()
    while True:
        server.answer(connection.next_request())


class Server:
    """The namespace of a worker's cells, and the requests that use it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        interrupts = Interrupts()
        self._streams = StandardStreams(connection, interrupts)
        self._namespace = Namespace(interrupts)
        display.show = self._streams.output.display
        _use_backend()
        self._handlers: dict[str, Callable[[Message], Reply]] = {
            "run": self._run,
            "push": self._push,
            "pull": self._pull,
            "complete": self._complete,
        }

    def answer(self, request: Message) -> None:
        """Handles one request and sends its reply. No exception of a cell ends the worker."""
        output = self._streams.output
        output.begin()
        self._streams.install()
        fields: dict[str, Any] = {"error": None}
        buffers: list[values.Buffer] = []
        try:
            more, buffers = self._handlers[request.kind](request)
            fields |= more
        except BaseException as error:  # also SystemExit and KeyboardInterrupt
            fields["error"] = _error_fields(error)
        if not self._connection.is_own:
            os._exit(0)  # a fork, in which the cell has ended too
        self._streams.install()
        output.flush()
        fields |= {
            "id": request.fields["id"],
            "names": self._namespace.names[:MAX_NAMES],
            "omitted": output.omitted,
        }
        self._connection.send("done", fields, buffers)

    def _run(self, request: Message) -> Reply:
        self._namespace.run(request.fields["code"], request.fields["name"])
        return {}, []

    def _push(self, request: Message) -> Reply:
        payload.add_sources(request.fields["sources"])
        self._namespace.variables.update(values.load(request.buffers))
        return {}, []

    def _pull(self, request: Message) -> Reply:
        variables, names = self._namespace.variables, request.fields["names"]
        if missing := [name for name in names if name not in variables]:
            message = _("The worker has no variable {name}.")
            raise ConfigError(message.format(name=missing[0]))
        try:
            return {}, values.dump({name: variables[name] for name in names})
        except Exception as error:  # __reduce__ of the reader's objects may raise any exception
            message = _(
                "{names} cannot be sent to the notebook: {error}. Pull a value that pickle "
                "supports, such as a NumPy array, and not a strategy, a dataset or a model."
            )
            raise ConfigError(message.format(names=join_items(names), error=error)) from error

    def _complete(self, request: Message) -> Reply:
        names: list[str] = []
        with suppress(Exception):  # a property of the reader's objects may raise any exception
            names = self._namespace.complete(request.fields["text"])
        return {"matches": names[:MAX_NAMES]}, []


def _use_backend() -> None:
    """Makes matplotlib show its figures in the notebook. A kernel's own backend needs IPython."""
    os.environ["MPLBACKEND"] = BACKEND
    if matplotlib := sys.modules.get("matplotlib"):
        matplotlib.use(BACKEND)


def _error_fields(error: BaseException) -> dict[str, Any]:
    """Like `helpers.protocol.failures.error_fields`, but omits most frames of a deep recursion."""
    fields = error_fields(error)
    unique = list(dict.fromkeys(map(tuple, fields["frames"])))
    fields["frames"] = [*unique[: MAX_FRAMES // 2], *unique[MAX_FRAMES // 2 :][-MAX_FRAMES // 2 :]]
    return fields
