"""A cluster with its own network, made slow."""

from __future__ import annotations

import pytest

import helpers.system.netns
from helpers import LocalCluster
from helpers.errors import ConfigError
from helpers.system.netns import Network, netns_supported

BYTES = 2_000_000


def seconds_to_send() -> float:
    """In a worker: the time to send BYTES from one socket to another."""
    import socket
    import threading
    import time

    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            with socket.create_connection(server.getsockname()) as client:
                client.sendall(b"\0" * BYTES)

        threading.Thread(target=send).start()
        receiver, _address = server.accept()
        start = time.perf_counter()
        with receiver:
            while receiver.recv(1 << 16):
                pass
        return time.perf_counter() - start


@pytest.mark.skipif(not netns_supported(), reason="this machine forbids network namespaces")
def test_a_network_of_80_megabits_takes_a_second_for_10_megabytes() -> None:
    def send(bandwidth: float | None) -> float:
        with LocalCluster(workers=1, bandwidth=bandwidth) as cluster:
            return float(cluster.run(seconds_to_send)[0])

    expected = BYTES * 8 / 80e6
    limited = send(80e6)
    assert limited > 0.85 * expected
    assert send(None) < limited / 2  # a hundredth, on a quiet machine


@pytest.mark.parametrize("value", [0, -1, 1e15, 100])
def test_a_bandwidth_that_no_network_has_is_refused(value: float) -> None:
    with pytest.raises(ConfigError, match=r"bandwidth=.* must be bits per second"):
        LocalCluster(bandwidth=value)


def test_a_bandwidth_needs_a_network_of_the_clusters_own() -> None:
    with pytest.raises(ConfigError, match='network="host"'):
        LocalCluster(bandwidth=1e8, network="host")


def test_where_namespaces_are_forbidden_a_bandwidth_is_an_error_and_not_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(helpers.system.netns, "netns_supported", lambda: False)
    with pytest.raises(ConfigError, match="forbids network namespaces"):
        LocalCluster(bandwidth=1e8)


@pytest.mark.skipif(not netns_supported(), reason="this machine forbids network namespaces")
def test_a_kernel_without_the_queue_is_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    create = helpers.system.netns._create

    def refuse(bandwidth: float | None = None) -> list[int]:
        if bandwidth is not None:
            raise OSError("No such file or directory")
        return create()

    monkeypatch.setattr(helpers.system.netns, "_create", refuse)
    with pytest.raises(ConfigError, match="token bucket filter"):
        Network.create(1e8)
