"""The ports of a worker's server are not reachable from outside its namespace."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import helpers.system.netns
from helpers import LocalCluster
from helpers.protocol.events import Event
from helpers.results.training_result import TrainingResult
from helpers.system.netns import Network, netns_supported
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn

OPEN = "ports are open to the network"


def train_and_at_a_step(cluster: LocalCluster, deed: Callable[[], Any]) -> TrainingResult:
    """Trains, and calls a function at each report of a step, when all servers are running."""

    def on_event(event: Event) -> None:
        if event["event"] == "step":
            deed()

    return cluster.train(
        tiny_model_fn,
        tiny_input_fn,
        steps=200,
        params=PARAMS,
        evaluate=None,
        progress=False,
        on_event=on_event,
    )


def can_connect(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 2).close()
    except OSError:
        return False
    return True


def reached_ports(network: str) -> tuple[set[bool], TrainingResult]:
    reached: set[bool] = set()

    def knock() -> None:
        config = cluster.processes[0].config
        reached.update(can_connect(config.address_of(task)) for task in config.tasks)

    with LocalCluster(workers=2, network=network) as cluster:
        result = train_and_at_a_step(cluster, knock)
    return reached, result


def test_no_port_of_an_isolated_cluster_can_be_reached_from_outside() -> None:
    if not netns_supported():
        pytest.skip("this machine forbids network namespaces")
    reached, result = reached_ports("isolated")
    assert reached == {False}
    assert not result.warnings
    assert OPEN not in repr(result)


def test_the_ports_of_a_cluster_that_is_not_isolated_are_open_and_its_result_says_so() -> None:
    reached, result = reached_ports("host")
    assert reached == {True}  # so that the test above can fail
    [notice] = result.warnings  # two workers, one line
    assert OPEN in notice
    assert notice in repr(result)


def test_a_machine_that_forbids_namespaces_trains_without_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(helpers.system.netns, "netns_supported", lambda: False)
    reached, result = reached_ports("isolated")
    assert reached == {True}
    assert OPEN in repr(result)


def test_a_kernel_that_refuses_is_answered_with_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[int]:
        raise OSError("Operation not permitted")

    monkeypatch.setattr(helpers.system.netns, "_create", refuse)
    helpers.system.netns.netns_supported.cache_clear()
    try:
        assert not helpers.system.netns.netns_supported()
        assert Network.create() is None
    finally:
        helpers.system.netns.netns_supported.cache_clear()


def test_all_workers_share_a_namespace_that_is_not_the_notebooks_and_ends_with_them() -> None:
    if not netns_supported():
        pytest.skip("this machine forbids network namespaces")
    namespaces: set[str] = set()

    def look() -> None:
        namespaces.update(os.readlink(f"/proc/{p.pid}/ns/net") for p in cluster.processes)

    with LocalCluster(workers=2) as cluster:
        train_and_at_a_step(cluster, look)
    assert len(namespaces) == 1
    assert namespaces != {os.readlink("/proc/self/ns/net")}
    [name] = namespaces
    number = re.findall(r"\d+", name)[0]
    held = [fd.name for fd in Path("/proc/self/fd").iterdir() if number in link(fd)]
    assert not held


def link(path: Path) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def test_only_the_owner_can_read_what_goes_to_the_workers() -> None:
    modes: dict[str, set[int]] = {"payload": set(), "folder": set()}

    def look() -> None:
        folder = cluster.processes[0].log.parents[1]
        for path in folder.glob("payload*"):
            modes["payload"].add(stat.S_IMODE(path.stat().st_mode))
        modes["folder"] |= {stat.S_IMODE(f.stat().st_mode) for f in (folder, folder.parent)}

    with LocalCluster(workers=1) as cluster:
        train_and_at_a_step(cluster, look)
        folder = cluster.processes[0].log.parents[2]
        assert folder.exists()
    assert modes == {"payload": {0o600}, "folder": {0o700}}
    assert not folder.exists()
