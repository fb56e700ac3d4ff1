"""The content of `config` and `TF_CONFIG` in the reader's functions, against a plain Estimator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster.local import LocalCluster
from helpers.system.ports import free_ports
from helpers.tf_config import PS, TFConfig, build_tf_configs
from tests.worker.programs import reading_config

STEPS = 20
PROGRAM = [sys.executable, "-m", reading_config.__name__]
Seen = dict[str, Any]


def seen_in(folder: Path) -> dict[str, list[Seen]]:
    """The values that each task recorded, with placeholders for its ports."""
    noted = {}
    for path in folder.iterdir():
        if path.is_file() and path.suffix != ".log":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            noted[path.name] = [without_ports(line) for line in lines]
    return noted


def without_ports(seen: Seen) -> Seen:
    names = {
        address: f"{job}:{index}"
        for job, addresses in seen["TF_CONFIG"]["cluster"].items()
        for index, address in enumerate(addresses)
    }
    text = json.dumps(seen)
    for address, name in names.items():
        text = text.replace(address, name)
    return dict(json.loads(text))


def run_plain(folder: Path, strategy: str, configs: Sequence[TFConfig]) -> dict[str, list[Seen]]:
    """Runs the program once for each task, like a user."""
    folder.mkdir()
    started = []
    for config in configs:
        with (folder / f"{config.task}.log").open("w") as output:
            started.append(
                subprocess.Popen(
                    [*PROGRAM, str(folder), strategy, str(STEPS)],
                    env={**os.environ, "TF_CONFIG": config.to_json()},
                    stdout=output,
                    stderr=output,
                )
            )
    try:
        for config, process in zip(configs, started, strict=True):
            if config.task.type != PS:
                log = folder / f"{config.task}.log"
                assert process.wait(300) == 0, log.read_text()[-3000:]
    finally:
        for process in started:
            process.kill()
            process.wait()
    return seen_in(folder)


def run_ours(folder: Path, cluster: LocalCluster, evaluate: str) -> dict[str, list[Seen]]:
    model_fn, input_fn = reading_config.functions(str(folder))
    folder.mkdir()
    result = cluster.train(
        model_fn,
        input_fn,
        steps=STEPS,
        evaluate=evaluate,
        save_checkpoints_steps=10,
        model_dir=folder / "model",
        progress=False,
    )
    assert not result.restarts and result.evaluations[-1].step == result.checkpoints[-1]
    return seen_in(folder)


def distinct(seen: Sequence[Seen]) -> set[str]:
    return {json.dumps(one, sort_keys=True) for one in seen}


def test_each_worker_sees_its_place_and_reads_its_own_shard(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    ours = run_ours(tmp_path / "ours", cluster, "after")
    assert set(ours) == {"worker-0", "worker-1"}
    for index in (0, 1):
        for seen in ours[f"worker-{index}"]:
            assert seen["num_worker_replicas"] == 2
            assert (seen["global_id_in_cluster"], seen["task_id"]) == (index, index)
            assert seen["task_type"] == "worker" and seen["is_chief"] == (index == 0)
            assert seen["master"] == f"grpc://worker:{index}"
            assert seen["cluster_spec"] == {"worker": ["worker:0", "worker:1"]}
            assert seen["TF_CONFIG"]["task"] == {"type": "worker", "index": index}
    assert {seen["mode"] for seen in ours["worker-0"]} == {"train", "eval"}


@pytest.fixture(scope="module")
def two_workers_and_a_server() -> Iterator[LocalCluster]:
    with LocalCluster(workers=2, ps=1) as group:
        yield group


@pytest.mark.programs
def test_workers_see_what_a_plain_estimator_sees(cluster: LocalCluster, tmp_path: Path) -> None:
    ours = run_ours(tmp_path / "ours", cluster, "sidecar")
    configs = build_tf_configs([f"127.0.0.1:{port}" for port in free_ports(2)])
    plain = run_plain(tmp_path / "plain", "mirrored", configs)
    for task in ("worker-0", "worker-1"):
        assert distinct(ours[task]) == distinct(plain[task])


@pytest.mark.programs
def test_tasks_with_parameter_servers_see_what_a_plain_estimator_sees(
    two_workers_and_a_server: LocalCluster, tmp_path: Path
) -> None:
    ours = run_ours(tmp_path / "ours", two_workers_and_a_server, "sidecar")
    ports = free_ports(4)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    plain = run_plain(
        tmp_path / "plain", "ps", build_tf_configs(addresses, chief=True, ps=1, evaluator=True)
    )
    assert set(ours) == set(plain) == {"chief-0", "worker-0", "worker-1", "evaluator-0"}
    for task, seen in plain.items():
        assert distinct(ours[task]) == distinct(seen)
