"""The processes of one start of the workers, and the notebook's connections to them."""

from __future__ import annotations

import functools
import os
import selectors
import signal
import socket
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from helpers.cluster import temporary_folders
from helpers.cluster.local import LocalCluster
from helpers.cluster.processes import TaskProcess
from helpers.protocol.cell_messages import Decoder, Message, MessageError
from helpers.protocol.events import Event, EventType
from helpers.protocol.job import FunctionJob
from helpers.worker.cells.server import serve

PREFIX = "worker-cells-"
MAX_ADDRESS = 100  # bytes in the path of a Unix socket (104 on macOS)
MAX_TAIL_BYTES = 1 << 14
MAX_READS = 64  # of one connection, before the others are read


class WorkerLink:
    """One worker: its process, its connection, and the data to send to it.

    Attributes:
      index: of the worker.
      process: of the worker.
      connection: the connection that it has opened, or None.
      decoder: of the messages from it.
      cpu: the CPU time in seconds that it has reported last.
      error: the "error" event of a worker that could not start, or None.
      is_lost: whether its connection has ended.
    """

    def __init__(self, index: int, process: TaskProcess) -> None:
        self.index = index
        self.process = process
        self.connection: socket.socket | None = None
        self.decoder = Decoder()
        self.cpu = 0.0
        self.error: Event | None = None
        self.is_lost = False
        self._log_start = 0
        self._unsent: deque[memoryview] = deque()

    @property
    def task(self) -> str:
        """Its name, as "worker 1"."""
        return str(self.process.task)

    @property
    def is_connected(self) -> bool:
        """Whether it can receive requests."""
        return self.connection is not None

    def connect(self, connection: socket.socket, decoder: Decoder) -> None:
        """Uses a connection on which the worker has sent its index."""
        self.connection, self.decoder = connection, decoder
        self._log_start = self.process.log.stat().st_size

    def log_tail(self, lines: int) -> str:
        """The last lines that its processes have written since it was connected."""
        with self.process.log.open("rb") as file:
            file.seek(max(self._log_start, self.process.log.stat().st_size - MAX_TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    @property
    def has_unsent(self) -> bool:
        """Whether there is data to send."""
        return bool(self._unsent)

    def queue(self, message: Message) -> None:
        """Queues a message, which `write` sends."""
        self._unsent += message.parts()

    def write(self) -> None:
        """Sends as much as the connection accepts, without waiting."""
        assert self.connection
        with suppress(BlockingIOError):
            while self._unsent:
                part = self._unsent[0]
                sent = self.connection.send(part)
                if sent == len(part):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = part[sent:]

    def read(self) -> Iterator[Message]:
        """Yields the messages that have arrived.

        Raises:
          ConnectionResetError: the connection has ended.
        """
        assert self.connection
        with suppress(BlockingIOError):
            for _read in range(MAX_READS):
                count = self.connection.recv_into(self.decoder.free) or _end_of_connection()
                if message := self.decoder.advance(count):
                    yield message

    def close(self) -> None:
        """Closes the connection."""
        if self.connection:
            self.connection.close()


Received = tuple[WorkerLink, Message]


class CellGroup:
    """The workers of one start. They end with this object, or with this process.

    Args:
      cluster: its settings determine the number of the workers and their network.
      keras: the Keras of the workers, 2 or 3.
      on_warning: is called with each warning of a worker.

    Attributes:
      on_warning: the same.
    """

    def __init__(
        self, cluster: LocalCluster, keras: int, on_warning: Callable[[str], None]
    ) -> None:
        self.on_warning = on_warning
        self._kept: list[Received] = []
        self._debugger_events: list[Event] = []
        self._folder = _private_folder()
        self._selector = selectors.DefaultSelector()
        address = str(self._folder / "cells")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(address)
        self._listener.listen(cluster.workers)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        job = FunctionJob(
            functools.partial(serve, address), keras=keras, collective=cluster.collective
        )
        try:
            processes, close_network = cluster.start_unsupervised(job, self._folder)
        except BaseException:
            self._listener.close()
            temporary_folders.delete(self._folder)
            raise
        self.links = [WorkerLink(index, process) for index, process in enumerate(processes)]
        for link in self.links:
            read = functools.partial(self._read_events, link)
            self._selector.register(link.process.fileno(), selectors.EVENT_READ, read)
        # Called when the last reference is dropped, and when this program ends.
        self.close = weakref.finalize(
            self, _close, self.links, self._listener, close_network, self._folder, os.getpid()
        )

    @property
    def are_connected(self) -> bool:
        """Whether all workers can receive requests."""
        return all(link.is_connected for link in self.links)

    @property
    def lost(self) -> list[WorkerLink]:
        """The workers whose process or connection has ended."""
        return [link for link in self.links if link.is_lost or link.process.has_exited]

    def poll(self, seconds: float) -> list[Received]:
        """Sends and receives for at most `seconds`, and returns the messages that arrived."""
        found, self._kept = self._kept, []
        return found + self._select(0 if found else seconds)

    def watch(self, seconds: float) -> None:
        """As `poll`, but keeps the messages for the next call of `poll`."""
        self.keep(self._select(seconds))

    def take_debugger_events(self) -> list[Event]:
        """The events of debuggers that have arrived since the last call."""
        found, self._debugger_events = self._debugger_events, []
        return found

    def keep(self, messages: Sequence[Received]) -> None:
        """Keeps messages for the next call of `poll`, such as the output of a thread."""
        self._kept += messages

    def _select(self, seconds: float) -> list[Received]:
        for link in self.links:
            if link.connection is not None:
                wanted = selectors.EVENT_READ | selectors.EVENT_WRITE * link.has_unsent
                key = self._selector.get_map().get(link.connection)
                if key and key.events != wanted:
                    self._selector.modify(link.connection, wanted, key.data)
        found: list[Received] = []
        for key, mask in self._selector.select(seconds):
            found += key.data(mask)
        return found

    def _accept(self, _mask: int) -> Iterator[Received]:
        connection, _address = self._listener.accept()
        connection.setblocking(False)
        read = functools.partial(self._greet, connection, Decoder())
        self._selector.register(connection, selectors.EVENT_READ, read)
        yield from ()

    def _greet(self, connection: socket.socket, decoder: Decoder, _mask: int) -> Iterator[Received]:
        """Reads the first message of a connection, which tells which worker sent it."""
        try:
            hello = decoder.advance(connection.recv_into(decoder.free) or _end_of_connection())
        except (OSError, MessageError):
            self._selector.unregister(connection)
            connection.close()
            return
        if hello:
            link = self.links[hello.fields["worker"]]
            link.connect(connection, decoder)
            serve_link = functools.partial(self._serve_link, link)
            self._selector.modify(connection, selectors.EVENT_READ, serve_link)
        yield from ()

    def _serve_link(self, link: WorkerLink, mask: int) -> Iterator[Received]:
        try:
            if mask & selectors.EVENT_WRITE:
                link.write()
            if mask & selectors.EVENT_READ:
                for message in link.read():
                    yield link, message
        except (OSError, MessageError):  # it has ended, or a cell has closed its descriptors
            if link.connection:
                self._selector.unregister(link.connection)
            link.is_lost = True
            link.process.signal(signal.SIGKILL)

    def _read_events(self, link: WorkerLink, _mask: int) -> Iterator[Received]:
        descriptor = link.process.fileno()
        for event in link.process.read_events():
            if event["event"] == EventType.HEARTBEAT:
                cpu = event.get("cpu")
                link.cpu = cpu if isinstance(cpu, float) else link.cpu
            elif event["event"] == EventType.WARNING:
                self.on_warning(event["message"])
            elif event["event"] in (EventType.DEBUGGER_STOPPED, EventType.DEBUGGER_CONTINUED):
                self._debugger_events.append(event | {"task": link.task})
            elif event["event"] == EventType.ERROR:
                link.error = event
        if link.process.has_exited:
            self._selector.unregister(descriptor)
        yield from ()


def _end_of_connection() -> int:
    raise ConnectionResetError


def _private_folder() -> Path:
    """Creates a folder that only this user can read, with a path that fits into an address."""
    folder = temporary_folders.create(PREFIX)
    if len(os.fsencode(folder)) + len("/cells") > MAX_ADDRESS:
        temporary_folders.delete(folder)
        folder = temporary_folders.create(PREFIX, "/tmp")
    return folder


def _close(
    links: Sequence[WorkerLink],
    listener: socket.socket,
    close_network: Callable[[], None],
    folder: Path,
    owner: int,
) -> None:
    """Kills the workers, and sends all signals before it waits for the first one."""
    if owner != os.getpid():  # a fork of the notebook's process
        return
    for link in links:
        link.process.signal(signal.SIGKILL)
    for link in links:
        link.process.close()
        link.close()
    listener.close()
    close_network()
    temporary_folders.delete(folder)
