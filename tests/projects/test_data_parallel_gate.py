"""The gate of project 2, at which the kernel stops backward passes, with threads as processes."""

from __future__ import annotations

import functools
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from helpers.course.projects import data_parallel_runs
from helpers.course.projects.data_parallel_gate import Gate
from helpers.course.projects.data_parallel_network import Network, Training
from helpers.course.projects.data_parallel_runs import Job, make_arguments
from tests.support.processes import wait_until

SECONDS = 20.0  # the deadline of a test


class FakeGroup:
    """Counts what the trainers of a test send, and whether its relay is paused."""

    def __init__(self) -> None:
        self.sent, self.relay = [0, 0], self
        self.flows = threading.Event()
        self.flows.set()
        self.paused = 0

    def pause(self) -> None:
        self.flows.clear()
        self.paused += 1

    def resume(self) -> None:
        self.flows.set()


class Trainer:
    """Calls a function with its rank and each layer."""

    def __init__(self, rank: int, function: Callable[[int, int], object]) -> None:
        self._rank, self._function = rank, function

    def train(self, network: Network, batches: Any, rate: float, bucket: int) -> None:
        for batch in batches:
            for layer, _gradient in network.gradients(*batch):
                self._function(self._rank, layer)


STOPPED = Job((9, 8, 7, 2, 2), [[1, 1]] * 3, bucket=200)  # the last layers have 24 and 64 bytes


def stop(
    monkeypatch: pytest.MonkeyPatch, function: Callable[[FakeGroup, int, int], object]
) -> tuple[dict[str, Any], FakeGroup]:
    """What the kernel finds if two threads train."""
    monkeypatch.setattr(data_parallel_runs, "EARLY", 0.01)
    monkeypatch.setattr(data_parallel_runs, "WAIT", 0.3)
    group: Any = FakeGroup()
    found: dict[str, Any] = {}

    def script(gate: Gate) -> None:
        data_parallel_runs.stop_two_steps(group, gate, STOPPED, found)

    with Gate(2, script) as gate:
        threads = []
        for rank, own in enumerate(make_arguments(STOPPED, 0, gate.port)):
            trainer = Trainer(rank, functools.partial(function, group))
            target = Training(trainer, rank, "127.0.0.1").train
            threads.append(threading.Thread(target=target, args=own, daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(SECONDS)
            assert not thread.is_alive()
    assert group.flows.is_set()
    return found, group


def test_the_first_bucket_ends_with_the_layer_that_fills_it() -> None:
    assert STOPPED.layers == [320, 252, 64, 24]
    assert [
        data_parallel_runs.full_after(STOPPED._replace(bucket=size)) for size in (24, 25, 200)
    ] == [
        3,
        2,
        1,
    ]


def test_what_is_sent_at_each_stop_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def send_full(group: FakeGroup, rank: int, layer: int) -> None:
        group.sent[rank] += {1: 340, 0: 320}.get(layer, 0)

    found, group = stop(monkeypatch, send_full)
    assert found == {"smaller": 88, "full": 340, "early": 0, "during": 680, "waits": None}
    assert group.paused == 1

    def send_each(group: FakeGroup, rank: int, layer: int) -> None:
        group.sent[rank] += STOPPED.layers[layer]

    found, _group = stop(monkeypatch, send_each)
    assert (found["early"], found["during"]) == (176, 680)

    found, _group = stop(monkeypatch, lambda *_place: None)
    assert (found["early"], found["during"], found["waits"]) == (0, 0, None)


def test_a_process_that_waits_for_data_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(group: FakeGroup, rank: int, layer: int) -> None:
        if (rank, layer) == (1, 2):
            assert group.flows.wait(SECONDS)

    found, _group = stop(monkeypatch, wait)
    assert found["waits"] == {"rank": 1, "layer": 2}


def test_the_gate_ends_with_a_process_and_without_one() -> None:
    ended = threading.Event()

    def script(gate: Gate) -> None:
        try:
            gate.wait_for_all(SECONDS)
        finally:
            ended.set()

    with Gate(1, script):
        pass
    assert ended.is_set()
    ended.clear()
    with Gate(2, script) as gate, socket.create_connection(("127.0.0.1", gate.port)) as end:
        end.sendall(b"\x00\x03")
        end.shutdown(socket.SHUT_WR)
        assert ended.wait(SECONDS)
        assert end.recv(1) == b""


def test_the_gate_names_the_processes_that_have_not_stopped() -> None:
    missing: list[list[int]] = []

    def script(gate: Gate) -> None:
        missing.append(gate.wait_for_all(0.2))
        missing.append(gate.wait_for_all(SECONDS))
        gate.open()

    with Gate(2, script) as gate:
        address = "127.0.0.1", gate.port
        with socket.create_connection(address) as one, socket.create_connection(address) as two:
            two.sendall(b"\x01\x05")
            assert wait_until(lambda: missing == [[0]], SECONDS)
            one.sendall(b"\x00\x05")
            assert one.recv(1) == two.recv(1) == b"."
    assert missing == [[0], []]
