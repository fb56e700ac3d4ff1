"""A relay through which all connections between the processes of a project go.

It belongs to the kernel, so the student's processes cannot change its counters. Each process has a
separate address for each other process. So the relay knows both ends of a connection, however the
student's design connects them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from helpers.course.projects.adapters import Address

HOST = "127.0.0.1"
CHUNK = 1 << 18  # bytes that are forwarded at once
CLOSE_TIMEOUT = 5.0


class Trigger(NamedTuple):
    """Calls `action` when a process has sent this many bytes, and silences it if `final`."""

    rank: int
    sent: int
    action: Callable[[], None]
    final: bool


class Relay:
    """Forwards connections in a thread, and counts the bytes that each process sends.

    Args:
      targets: the real address of each process, in the order of the ranks.
      latency: the seconds by which each chunk is delayed.

    Attributes:
      sent: the bytes that each process has sent so far.
      connections: the number of connections so far.
    """

    def __init__(self, targets: Sequence[Address], latency: float = 0.0) -> None:
        self.sent = [0] * len(targets)
        self.connections = 0
        self._targets, self._latency = targets, latency
        self._trigger: Trigger | None = None
        self._silent: set[int] = set()  # processes with a final trigger that has fired
        self._forwards = asyncio.Event()
        self._forwards.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers: dict[tuple[int, int], asyncio.Server] = self._wait(self._listen())

    def addresses(self, rank: int, own: Address) -> list[Address]:
        """The addresses that a process gets: its own, and the relay's for every other process."""
        return [
            own if other == rank else self._servers[rank, other].sockets[0].getsockname()[:2]
            for other in range(len(self._targets))
        ]

    def set_trigger(
        self, rank: int, more: int, action: Callable[[], None], *, final: bool = True
    ) -> None:
        """Calls `action` in the relay's thread once a process has sent this many more bytes.

        Args:
          final: whether all later bytes of this process are dropped. Otherwise bytes in the buffers
            of the system could be enough for the other processes, so that a fault would have no
            effect. False for a process that continues later.
        """
        self._trigger = Trigger(rank, self.sent[rank] + more, action, final)

    @property
    def is_triggered(self) -> bool:
        """Whether no action is pending."""
        return self._trigger is None

    def pause(self) -> None:
        """Holds all data back until `resume`. It is still counted when it is sent."""
        self._wait(self._set_flow(self._forwards.clear))

    def resume(self) -> None:
        """Forwards data again, and first what has arrived since `pause`."""
        self._wait(self._set_flow(self._forwards.set))

    def close(self) -> None:
        """Closes all connections, and ends the thread."""
        self._wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT)
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(CLOSE_TIMEOUT)

    async def _set_flow(self, change: Callable[[], None]) -> None:
        change()  # in the relay's thread, because an event of asyncio is not thread-safe

    async def _listen(self) -> dict[tuple[int, int], asyncio.Server]:
        ranks = range(len(self._targets))
        return {
            (sender, receiver): await asyncio.start_server(
                self._handler(sender, receiver), sock=listening_socket(), limit=CHUNK
            )
            for sender in ranks
            for receiver in ranks
            if sender != receiver
        }

    async def _stop(self) -> None:
        for server in self._servers.values():
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handler(self, sender: int, receiver: int) -> Callable[..., Coroutine[Any, Any, None]]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self.connections += 1
            far: asyncio.StreamWriter | None = None
            try:
                host, port = self._targets[receiver]
                back, far = await asyncio.open_connection(host, port, limit=CHUNK)
                _send_at_once(writer, far)
                await asyncio.gather(
                    self._pump(sender, reader, far), self._pump(receiver, back, writer)
                )
                writer.close()
                far.close()
            except (OSError, asyncio.CancelledError):  # a process has ended, or the relay closes
                for end in (writer, far):
                    if end is not None:
                        end.transport.abort()

        return handle

    async def _pump(
        self, sender: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forwards what a process sends until it closes its end."""
        while data := await reader.read(CHUNK):
            self.sent[sender] += len(data)
            trigger = self._trigger
            if trigger and trigger.rank == sender and self.sent[sender] >= trigger.sent:
                self._trigger = None
                if trigger.final:
                    self._silent.add(sender)
                trigger.action()
            if sender in self._silent:
                continue
            if self._latency:
                await asyncio.sleep(self._latency)
            await self._forwards.wait()
            writer.write(data)
            await writer.drain()
        with suppress(OSError):  # the other end is already closed
            writer.write_eof()


def listening_socket() -> socket.socket:
    """A socket that listens on a free port. Its connections have small receive buffers.

    Otherwise the buffers of a connection could hold tens of megabytes, and hide deadlocks.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
    listener.bind((HOST, 0))
    listener.listen()
    return listener


def _send_at_once(*writers: asyncio.StreamWriter) -> None:
    """Disables Nagle's algorithm, which would delay small messages (tcp(7), TCP_NODELAY)."""
    for writer in writers:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
