"""The relay: it forwards and counts, ends with its ends, and triggers faults."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from helpers.course.projects.relay import Relay, listening_socket
from tests.support.processes import wait_until

SECONDS = 20.0  # the deadline of a test


@pytest.fixture
def listeners() -> Iterator[list[socket.socket]]:
    found = [listening_socket() for _process in range(3)]
    for listener in found:
        listener.settimeout(SECONDS)
    yield found
    for listener in found:
        listener.close()


@pytest.fixture
def relay(listeners: list[socket.socket]) -> Iterator[Relay]:
    found = Relay([listener.getsockname() for listener in listeners])
    yield found
    found.close()


def connect(
    relay: Relay, listeners: list[socket.socket], sender: int, receiver: int
) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection through the relay."""
    addresses = relay.addresses(sender, listeners[sender].getsockname())
    near = socket.create_connection(addresses[receiver], SECONDS)
    far, _address = listeners[receiver].accept()
    far.settimeout(SECONDS)
    return near, far


def read(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := end.recv(count - len(data))):
        data += more
    return data


def test_bytes_count_for_the_process_that_sends_them(
    relay: Relay, listeners: list[socket.socket]
) -> None:
    near, far = connect(relay, listeners, 0, 2)
    with near, far:
        data = bytes(range(250)) * 4000
        sender = threading.Thread(target=near.sendall, args=[data])
        sender.start()
        assert read(far, len(data)) == data
        sender.join()
        far.sendall(b"thanks")
        assert read(near, 6) == b"thanks"
    assert relay.sent == [len(data), 0, 6]
    assert relay.connections == 1


def test_a_process_gets_its_own_address_and_the_relays_for_the_others(
    relay: Relay, listeners: list[socket.socket]
) -> None:
    own = listeners[1].getsockname()
    addresses = relay.addresses(1, own)
    assert addresses[1] == own
    everyone = {address for rank in range(3) for address in relay.addresses(rank, ("", 0))}
    assert len(everyone - {("", 0)}) == 6  # one for each pair


def test_a_closed_end_closes_the_other_one_after_its_data(
    relay: Relay, listeners: list[socket.socket]
) -> None:
    near, far = connect(relay, listeners, 1, 0)
    with near, far:
        near.sendall(b"last words")
        near.shutdown(socket.SHUT_WR)
        assert read(far, 100) == b"last words"
        far.sendall(b"still open")  # the other direction
        far.close()
        assert read(near, 100) == b"still open"


def test_a_connection_to_a_process_that_has_ended_is_closed(
    relay: Relay, listeners: list[socket.socket]
) -> None:
    address = relay.addresses(0, ("", 0))[1]
    listeners[1].close()
    with socket.create_connection(address, SECONDS) as near:
        assert near.recv(1) == b""


def test_a_trigger_fires_once_at_its_byte_and_silences_the_process(
    relay: Relay, listeners: list[socket.socket]
) -> None:
    near, far = connect(relay, listeners, 0, 1)
    fired: list[int] = []
    with near, far:
        near.sendall(b"x" * 50)
        read(far, 50)
        relay.set_trigger(0, 100, lambda: fired.append(relay.sent[0]))
        near.sendall(b"x" * 99)
        far.sendall(b"x" * 500)  # another process
        read(far, 99)
        read(near, 500)
        assert not relay.is_triggered
        assert not fired
        near.sendall(b"x")
        assert wait_until(lambda: relay.is_triggered, SECONDS)
        near.sendall(b"x" * 200)
        far.sendall(b"y")
        assert read(near, 1) == b"y"
        near.shutdown(socket.SHUT_WR)
        assert read(far, 1) == b""
    assert fired == [150]


def test_a_process_that_continues_after_its_trigger_is_not_silenced(
    relay: Relay, listeners: list[socket.socket]
) -> None:
    near, far = connect(relay, listeners, 0, 1)
    fired: list[int] = []
    with near, far:
        relay.set_trigger(0, 10, lambda: fired.append(relay.sent[0]), final=False)
        near.sendall(b"x" * 10)
        assert read(far, 10) == b"x" * 10
        near.sendall(b"later")
        assert read(far, 5) == b"later"
    assert fired == [10]


def test_a_paused_relay_counts_but_holds_back(relay: Relay, listeners: list[socket.socket]) -> None:
    near, far = connect(relay, listeners, 0, 1)
    with near, far:
        relay.pause()
        near.sendall(b"later")
        assert wait_until(lambda: relay.sent[0] == 5, SECONDS)
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(5)
        far.settimeout(SECONDS)
        relay.resume()
        assert read(far, 5) == b"later"


def test_closing_ends_open_connections_and_the_thread(listeners: list[socket.socket]) -> None:
    before = set(threading.enumerate())
    relay = Relay([listener.getsockname() for listener in listeners])
    near, far = connect(relay, listeners, 2, 1)
    with near, far:
        relay.close()
        assert read(far, 1) == b""
    assert wait_until(lambda: set(threading.enumerate()) <= before, SECONDS)
