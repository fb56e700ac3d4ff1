"""Arrays that workers send to each other, with the workers as threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from helpers.course import peers as peers_module
from helpers.course.peers import Peers
from helpers.errors import ClusterError
from helpers.system.ports import free_ports
from helpers.tf_config import TFConfig, build_tf_configs


def configs(count: int) -> list[TFConfig]:
    return build_tf_configs([f"127.0.0.1:{port}" for port in free_ports(count)])


def run(count: int, work: Callable[[Peers], Any]) -> list[Any]:
    """The result of each worker."""

    def one(config: TFConfig) -> Any:
        with Peers(config) as peers:
            return work(peers)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, configs(count)))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_every_worker_reaches_every_other_one_and_counts_its_bytes(count: int) -> None:
    def work(peers: Peers) -> tuple[list[int], int]:
        own = np.full(1000, peers.rank, "float32")
        found = [peers.exchange(to, own, source)[0] for to, source in peers.rounds()]
        return sorted(map(int, found)), peers.sent

    for rank, (found, sent) in enumerate(run(count, work)):
        assert found == [other for other in range(count) if other != rank]
        assert sent == (count - 1) * 4000


def test_an_array_arrives_with_its_shape_and_type_in_order() -> None:
    arrays = [np.arange(6, dtype="int16").reshape(2, 3), np.zeros((0, 4)), np.float64(2.5)]

    def work(peers: Peers) -> list[Any]:
        if peers.rank == 0:
            for array in arrays:
                peers.send(1, np.asarray(array))
            return []
        return [peers.receive(0) for _array in arrays]

    for sent, found in zip(arrays, run(2, work)[1], strict=True):
        assert found.dtype == np.asarray(sent).dtype
        assert found.shape == np.shape(sent) and np.array_equal(found, sent)


def test_two_workers_that_send_more_than_a_buffer_holds_do_not_block_each_other() -> None:
    def work(peers: Peers) -> float:
        other = 1 - peers.rank
        return float(peers.exchange(other, np.full(3_000_000, peers.rank + 1.0), other).mean())

    assert run(2, work) == [2.0, 1.0]


def test_one_worker_has_no_peers() -> None:
    with Peers(TFConfig()) as peers:
        assert (peers.count, list(peers.rounds())) == (1, [])


def test_a_worker_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "CONNECT_SECONDS", 0.1)
    first, second = configs(2)
    with pytest.raises(ClusterError, match="did not connect within"):
        Peers(first)
    with pytest.raises(ClusterError, match="Worker 0 did not accept"):
        Peers(second)
