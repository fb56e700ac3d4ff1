"""The `TF_CONFIG` of a process that Slurm's `srun` started.

TensorFlow's own `SlurmClusterResolver` sorts host names as text, so that node10 precedes node9,
while Slurm numbers its tasks in the opposite order. Without a GPU it also fails. These few lines
keep Slurm's order. Variables:
https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from helpers.errors import ConfigError
from helpers.i18n import _, join_items
from helpers.tf_config import WORKER, Task, TFConfig

TASKS = "SLURM_STEP_NUM_TASKS"
NEEDED = ("SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
DISTRIBUTION, PLANE_SIZE = "SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE"
TASKS_ON_NODE, NODE = "SLURM_GTIDS", "SLURM_NODEID"  # about the node of this task
HETEROGENEOUS = "SLURM_HET_SIZE"
# Below the ports that Linux assigns to clients. Jobs on one node get separate ports.
FIRST_PORT, PORTS_PER_JOB, JOBS = 20_000, 64, 190


def config_from_slurm(environ: Mapping[str, str]) -> TFConfig | None:
    """The place of this process among the tasks of its Slurm step, all of them workers.

    Task 0 is the chief. The distribution of the tasks over the nodes may be block, cyclic or
    plane. Slurm provides each task with the list of tasks on its node, which must agree.

    Returns: None if Slurm did not start several tasks.

    Raises:
      ConfigError: a variable that Slurm sets is missing or cannot be read, or the variables do not
        determine the node of each task.
    """
    if not environ.get(TASKS, "").isdecimal() or int(environ[TASKS]) < 2:
        return None
    values = [environ.get(name, "") for name in NEEDED]
    try:
        rank, hosts, counts = int(values[0]), _hosts(values[1]), _counts(values[2])
        if len(hosts) != len(counts):
            raise ValueError(values[2])
        layout = _layout(counts, environ)
        is_known = bool(layout) and _is_confirmed(layout, rank, environ)
    except ValueError:
        raise _unreadable(environ) from None
    if not is_known:
        raise _unknown_layout(environ)
    job = int(environ.get("SLURM_JOB_ID", "0"))
    base = FIRST_PORT + PORTS_PER_JOB * (job % JOBS)
    places = {
        task: f"{host}:{base + k}"
        for host, tasks in zip(hosts, layout, strict=True)
        for k, task in enumerate(tasks)
    }
    addresses = tuple(places[task] for task in range(len(places)))
    return TFConfig({WORKER: addresses}, Task(WORKER, rank))


def _layout(counts: list[int], environ: Mapping[str, str]) -> list[list[int]]:
    """The tasks on each node, by Slurm's distribution (srun --distribution).

    Returns: an empty list for an arbitrary distribution, which no variable describes.

    Raises:
      ValueError: the plane has no size.
    """
    # As "cyclic:block,NoPack". The part after the colon concerns the cores within a node.
    name, _equals, size = re.split("[:,]", environ.get(DISTRIBUTION, ""))[0].partition("=")
    if name == "arbitrary":
        return []
    if HETEROGENEOUS in environ:  # the name describes one component
        return _deal(counts, max(counts))
    if name == "plane":
        return _deal(counts, int(size or environ.get(PLANE_SIZE, "")))
    return _deal(counts, 1 if name == "cyclic" else max(counts))


def _deal(counts: list[int], at_once: int) -> list[list[int]]:
    """Assigns tasks to nodes round-robin, up to `at_once` per node, until each has its count."""
    if at_once < 1:
        raise ValueError(at_once)
    layout: list[list[int]] = [[] for _count in counts]
    task = 0
    while task < sum(counts):
        for tasks, count in zip(layout, counts, strict=True):
            share = min(at_once, count - len(tasks))
            tasks.extend(range(task, task + share))
            task += share
    return layout


def _is_confirmed(layout: list[list[int]], rank: int, environ: Mapping[str, str]) -> bool:
    """Whether the tasks on this node are the tasks that Slurm lists.

    Each task checks its own node, so the whole layout is correct if no task finds a difference.
    """
    if TASKS_ON_NODE not in environ:
        single = all(len(tasks) == 1 for tasks in layout) or len(layout) == 1
        return single or HETEROGENEOUS not in environ
    told = [int(task) for task in environ[TASKS_ON_NODE].split(",")]
    node = int(environ.get(NODE, next((k for k, t in enumerate(layout) if rank in t), "")))
    return node < len(layout) and layout[node] == told and rank in told


def _unreadable(environ: Mapping[str, str]) -> ConfigError:
    message = _("Slurm's variables cannot be read: {seen}. Set TF_CONFIG yourself.")
    return ConfigError(message.format(seen=_seen(environ, NEEDED)))


def _unknown_layout(environ: Mapping[str, str]) -> ConfigError:
    message = _(
        "Slurm's variables do not show on which node each task runs: {seen}. Use srun "
        "--distribution=block, cyclic or plane, without --het-group, or set TF_CONFIG yourself."
    )
    names = (*NEEDED, DISTRIBUTION, PLANE_SIZE, TASKS_ON_NODE, HETEROGENEOUS)
    return ConfigError(message.format(seen=_seen(environ, names)))


def _seen(environ: Mapping[str, str], names: Iterable[str]) -> str:
    needed = [name for name in names if name in NEEDED or name in environ]
    return join_items(f"{name}={environ.get(name)!r}" for name in needed)


def _counts(text: str) -> list[int]:
    """Tasks on each node: "2(x3),1" is [2, 2, 2, 1]."""
    found = [re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part) for part in text.split(",")]
    if not all(found):
        raise ValueError(text)
    return [int(m[1]) for m in found if m for _again in range(int(m[2] or 1))]


def _hosts(text: str) -> list[str]:
    """The names of a node list: "n[08-10],gpu1" is ["n08", "n09", "n10", "gpu1"]."""
    parts = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text)
    if not parts or ",".join(parts) != text:
        raise ValueError(text)
    return [name for part in parts for name in _expand(part)]


def _expand(part: str) -> list[str]:
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _bracket, after = rest.partition("]")
    names = []
    for span in inside.split(","):
        first, _dash, last = span.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        names += [f"{before}{k:0{len(first)}}{end}" for k in numbers for end in _expand(after)]
    return names
