"""The resources of this machine, or its container, that a process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers.cluster.timeouts import DEFAULT_START_TIMEOUT, default_start_timeout
from helpers.system import machine


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 cores and 8000 kB, and the folder of its control groups."""
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 8000 kB\n")
    (tmp_path / "cgroup").write_text("0::/class/seat-3\n")
    group = tmp_path / "groups" / "class" / "seat-3"
    group.mkdir(parents=True)
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "OWN_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "CGROUP", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    return group


def limit_memory(group: Path, limit: str) -> None:
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text("3000000\n")
    (group / "memory.stat").write_text("anon 2000000\ninactive_file 1000000\n")


def test_forks_share_what_each_worker_would_have_for_itself() -> None:
    assert machine.needed_memory(1, forked=True) == machine.needed_memory(1, forked=False)
    assert machine.needed_memory(4, forked=True) < 0.6 * machine.needed_memory(4, forked=False)


def test_memory_is_the_smallest_of_machine_and_containers(container: Path) -> None:
    assert machine.free_memory() == 8000 * 1024
    limit_memory(container, "5000000")
    assert machine.free_memory() == 3_000_000
    limit_memory(container, "max")
    assert machine.free_memory() == 8000 * 1024
    limit_memory(container.parent, "4000000")  # of the container around it
    assert machine.free_memory() == 2_000_000


def test_where_a_system_tells_only_what_memory_it_has_all_of_it_counts_as_free(
    container: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.MEMINFO.unlink()
    sizes = {"SC_PHYS_PAGES": 2_000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert machine.free_memory() == 2_000 * 4096
    limit_memory(container, "5000000")
    assert machine.free_memory() == 3_000_000

    def unknown(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert machine.free_memory() is None


def test_the_kernel_tells_how_often_it_killed_because_memory_ran_out(
    container: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "VMSTAT", tmp_path / "vmstat")
    assert machine.oom_kill_count() == 0
    machine.VMSTAT.write_text("nr_free_pages 7\noom_kill 3\n")
    assert machine.oom_kill_count() == 3
    machine.VMSTAT.write_text("nr_free_pages 7\n")
    assert machine.oom_kill_count() == 0


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("1000 100000", 1)],
)
def test_cores_are_those_that_the_container_has_time_on(
    container: Path, quota: str, cores: int
) -> None:
    (container.parent / "cpu.max").write_text(f"{quota}\n")
    assert machine.cores() == cores


def test_a_machine_without_control_groups_has_the_cores_it_may_run_on(container: Path) -> None:
    machine.OWN_CGROUP.unlink()
    assert machine.cores() == 8


def test_groups_of_version_1_limit_too_each_kind_in_a_tree_of_its_own(container: Path) -> None:
    machine.OWN_CGROUP.write_text("5:memory:/seat\n3:cpu,cpuacct:/class/seat\n0::/\n")
    cpu, memory = machine.CGROUP / "cpu" / "class", machine.CGROUP / "memory" / "seat"
    for folder in (cpu / "seat", memory):
        folder.mkdir(parents=True)
    for group, quota in ((cpu, "150000"), (cpu / "seat", "-1")):
        (group / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (group / "cpu.cfs_period_us").write_text("100000\n")
    assert machine.cores() == 2
    (memory / "memory.usage_in_bytes").write_text("3000000\n")
    (memory / "memory.stat").write_text("cache 0\ntotal_inactive_file 1000000\n")
    for limit, free in (("5000000", 3_000_000), ("9223372036854771712", 8000 * 1024)):
        (memory / "memory.limit_in_bytes").write_text(f"{limit}\n")
        assert machine.free_memory() == free


def test_each_worker_gets_cores_of_its_own_and_no_more_than_the_container_has(
    container: Path,
) -> None:
    assert machine.share_cores(2) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    (container / "cpu.max").write_text("400000 100000\n")
    one, other = machine.share_cores(2)
    assert len(one) == len(other) == 2
    assert len({*one, *other}) == 4 and {*one, *other} <= set(range(8))
    assert len({tuple(machine.share_cores(1)[0]) for _again in range(50)}) > 1


@pytest.mark.parametrize(
    ("visible", "workers", "shares"),
    [
        (None, 2, ["0,1", "2,3"]),
        (None, 3, ["0", "1", "2"]),
        (None, 5, ["", "", "", "", ""]),
        ("3, 1", 2, ["3", "1"]),
        ("GPU-a,GPU-b", 1, ["GPU-a,GPU-b"]),
        ("2,-1,3", 1, ["2"]),
        ("", 1, [""]),
    ],
)
def test_the_gpus_are_divided_among_the_workers(
    visible: str | None,
    workers: int,
    shares: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(4):
        (tmp_path / f"nvidia{number}").touch()
    monkeypatch.setattr(machine, "NVIDIA", str(tmp_path / "nvidia[0-9]*"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.assign_gpus(workers) == shares


def test_a_group_gets_more_time_to_start_where_its_container_has_few_cores(
    container: Path,
) -> None:
    assert default_start_timeout(16) == DEFAULT_START_TIMEOUT
    (container / "cpu.max").write_text("200000 100000\n")
    assert default_start_timeout(16) == 4 * DEFAULT_START_TIMEOUT
