"""The node of each task: the variables of Slurm 22.05 in real steps, and our result."""

from __future__ import annotations

import pytest

from helpers.errors import ConfigError
from helpers.tf_config.slurm import config_from_slurm

# Each step has its counts, its distribution and other variables, and the host of each task. All
# were recorded with srun on the two nodes of tests/support/slurm.py, except for the three nodes.
STEPS = {
    "the default": ("2(x2)", {}, "n1 n1 n2 n2"),
    "block": ("2(x2)", {"SLURM_DISTRIBUTION": "block"}, "n1 n1 n2 n2"),
    "cyclic": ("2(x2)", {"SLURM_DISTRIBUTION": "cyclic"}, "n1 n2 n1 n2"),
    "cyclic, cores in blocks": ("2,1", {"SLURM_DISTRIBUTION": "cyclic:block"}, "n1 n2 n1"),
    "cyclic, uneven": ("1,3", {"SLURM_DISTRIBUTION": "cyclic"}, "n1 n2 n2 n2"),
    "plane": (
        "4,3",
        {"SLURM_DISTRIBUTION": "plane", "SLURM_DIST_PLANESIZE": "2"},
        "n1 n1 n2 n2 n1 n1 n2",
    ),
    "plane, as sbatch writes it": ("3,1", {"SLURM_DISTRIBUTION": "plane=2"}, "n1 n1 n2 n1"),
    "three nodes": ("2,1,2", {"SLURM_DISTRIBUTION": "cyclic"}, "n1 n2 n3 n1 n3"),
    "a heterogeneous job": (
        "1,2",
        {"SLURM_DISTRIBUTION": "cyclic", "SLURM_HET_SIZE": "2"},
        "n1 n2 n2",
    ),
    "one component of it": ("2", {"SLURM_DISTRIBUTION": "block", "SLURM_HET_SIZE": "2"}, "n1 n1"),
}


def variables_of(rank: int, hosts: list[str], counts: str, more: dict[str, str]) -> dict[str, str]:
    """The environment variables of the task with this rank."""
    nodes = sorted(set(hosts))
    return {
        "SLURM_JOB_ID": "5",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(len(hosts)),
        "SLURM_STEP_NODELIST": f"n[1-{len(nodes)}]" if len(nodes) > 1 else nodes[0],
        "SLURM_STEP_TASKS_PER_NODE": counts,
        "SLURM_NODEID": str(nodes.index(hosts[rank])),
        "SLURM_GTIDS": ",".join(str(k) for k, host in enumerate(hosts) if host == hosts[rank]),
        **more,
    }


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("told", [True, False], ids=["GTIDS", "no GTIDS"])
def test_every_task_knows_the_host_of_every_task(name: str, told: bool) -> None:
    counts, more, text = STEPS[name]
    hosts = text.split()
    if not told and name == "a heterogeneous job":
        pytest.skip("refused: see below")
    found = set()
    for rank in range(len(hosts)):
        variables = variables_of(rank, hosts, counts, more)
        if not told:
            del variables["SLURM_GTIDS"], variables["SLURM_NODEID"]
        config = config_from_slurm(variables)
        assert config is not None and config.task.index == rank
        addresses = config.cluster["worker"]
        assert [address.partition(":")[0] for address in addresses] == hosts
        assert len(set(addresses)) == len(hosts)
        found.add(addresses)
    assert len(found) == 1


ARBITRARY = {"SLURM_DISTRIBUTION": "arbitrary"}
UNKNOWN = {
    "arbitrary": ("2(x2)", ARBITRARY, "n1 n2 n2 n1"),
    "arbitrary, one a node": ("1(x2)", ARBITRARY, "n2 n1"),
    "components laid out cyclically": ("2(x2)", {"SLURM_HET_SIZE": "2"}, "n1 n2 n1 n2"),
    "another distribution than is named": ("2(x2)", {}, "n1 n2 n2 n1"),
    "a plane of no size": ("2(x2)", {"SLURM_DISTRIBUTION": "plane"}, "n1 n1 n2 n2"),
    "a plane of nothing": ("2(x2)", {"SLURM_DISTRIBUTION": "plane=0"}, "n1 n1 n2 n2"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_where_slurm_does_not_tell_the_node_of_each_task_every_task_says_so(name: str) -> None:
    counts, more, text = UNKNOWN[name]
    reason = "cannot be read" if "plane" in name else "do not show on which node each task runs"
    for rank in range(len(text.split())):
        with pytest.raises(ConfigError, match=reason):
            config_from_slurm(variables_of(rank, text.split(), counts, more))


def test_without_the_tasks_of_its_node_a_heterogeneous_step_is_refused() -> None:
    counts, more, text = STEPS["a heterogeneous job"]
    variables = variables_of(0, text.split(), counts, more)
    del variables["SLURM_GTIDS"]
    with pytest.raises(ConfigError, match="without --het-group"):
        config_from_slurm(variables)
