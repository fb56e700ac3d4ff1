"""Groups on a real Ray that shrink and grow, while every example is counted."""

from __future__ import annotations

import functools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from helpers.backends.ray.cluster import RayCluster
from helpers.protocol.events import Event
from helpers.results.training_result import TrainingResult
from helpers.strategies import MULTI_WORKER
from tests.backends.test_ray import (
    START,
    Diary,
    cluster,
    events_of,
    start,
    two_raylets,
    wait_for_two_hosts,
)
from tests.cluster.test_elastic_training import (
    BATCH_SIZE,
    EPOCHS,
    assert_exact,
    at_steps,
    grow,
    train_counted_on,
)
from tests.support.counted import SLOW, assert_nothing_repeated, counted_fit
from tests.support.faults import needs_keras_3

__all__ = ["cluster"]  # a fixture

pytestmark = pytest.mark.ray
ESTIMATOR, KERAS_3 = "Estimator", "Keras 3"


def drive(address: str, folder: str, api: str) -> None:
    """The notebook on host 0. It prints each event, one JSON object per line."""
    wait_for_two_hosts(address)
    place: dict[str, Any] = {"address": address, "storage_path": folder}

    def show(event: Event) -> None:
        print(json.dumps(event), flush=True)

    with RayCluster(workers=3, min_workers=1, start_timeout=START, **place) as cluster:
        if api == ESTIMATOR:
            train_counted_on(cluster, Path(folder), show)
            return
        fit = functools.partial(counted_fit, folder, EPOCHS, BATCH_SIZE, backup_every=7)
        cluster.run(fit, keras=3, on_event=show)


@pytest.mark.parametrize("api", [ESTIMATOR, pytest.param(KERAS_3, marks=needs_keras_3)])
def test_a_group_continues_without_a_lost_host_and_grows_when_it_returns(
    api: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    result = TrainingResult.for_run(MULTI_WORKER, 3, "AUTO")
    hosts: dict[int, list[int | None]] = {}  # of the workers of each attempt
    weights = []
    with two_raylets() as raylets:
        for event in events_of(driver := raylets.drive(f"{__name__}.drive", tmp_path, api)):
            result.add(event)
            if event["event"] == "started":
                hosts.setdefault(event["attempt"], []).append(raylets.host_of(event["pid"]))
            is_lost = (log / SLOW).exists() or result.restarts
            if event["event"] == "step" and event["step"] >= 30 and not is_lost:
                (log / SLOW).touch()  # so that the training does not end before the return
                raylets.hosts.kill(1)
            if event["event"] == "group_resized" and event["workers"] == 2:
                raylets.start(1)
            if event["event"] == "group_resized" and event["workers"] == 3:
                (log / SLOW).unlink()
            if event["event"] == "result" and api == KERAS_3:
                weights += event["value"]
        assert driver.wait(60) == 0
    print(result, hosts, result.fault_log)
    assert [(one.previous, one.workers) for one in result.resizes] == [(3, 2), (2, 3)]
    first, *_others, last = hosts.values()
    assert {*first} == {*last} == {0, 1}
    assert [0, 0] in hosts.values()
    assert result.resizes[1].reason == "Ray has resources for 3 workers"
    assert all(str(resize) in repr(result) for resize in result.resizes)
    assert_exact(tmp_path, 3, weights[0] if weights else None)


def test_resize_changes_a_group_on_ray_at_a_checkpoint(cluster: RayCluster, tmp_path: Path) -> None:
    start(cluster)
    slow = tmp_path / "log" / SLOW
    slow.parent.mkdir()
    slow.touch()  # so that the training does not end before the notebook reacts
    with RayCluster(workers=2, min_workers=1, start_timeout=START) as pair:
        request = at_steps(pair, (2, lambda cluster: cluster.resize(1)), (12, grow))

        def react(event: Event) -> None:
            request(event)
            if event["event"] == "group_resized" and event["workers"] == 2:
                slow.unlink()

        result = train_counted_on(pair, tmp_path, react)
    assert [(one.previous, one.workers) for one in result.resizes] == [(2, 1), (1, 2)]
    assert result.restarts == ["resize(1) was called", "resize(2) was called"]
    assert_exact(tmp_path, 2)


def test_a_preempted_worker_on_ray_costs_no_step(cluster: RayCluster, tmp_path: Path) -> None:
    start(cluster)
    diary = Diary(lambda: os.kill(diary.pids["worker 1"], signal.SIGTERM), at=30)
    with RayCluster(workers=2, min_workers=1, start_timeout=START) as pair:
        result = train_counted_on(pair, tmp_path, diary)
    [resize] = result.resizes
    assert (resize.previous, resize.workers) == (2, 1)
    assert resize.reason.startswith("worker 1 was preempted (SIGTERM) at step")
    assert_exact(tmp_path, 2)
    assert_nothing_repeated(tmp_path / "log")
