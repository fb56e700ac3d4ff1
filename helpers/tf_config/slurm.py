"""The `TF_CONFIG` of a process that Slurm's `srun` started.

TensorFlow's own `SlurmClusterResolver` sorts host names as text, so that node10 comes before
node9 while Slurm numbers its tasks the other way round; and without a GPU it fails. These few
lines keep Slurm's order. Variables: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from helpers.errors import ConfigError
from helpers.i18n import _, join_items
from helpers.tf_config import WORKER, Task, TFConfig

TASKS = "SLURM_STEP_NUM_TASKS"
NEEDED = ("SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE")
# Below the ports that Linux gives to clients. Jobs on one node get ports of their own.
FIRST_PORT, PORTS_PER_JOB, JOBS = 20_000, 64, 190


def config_from_slurm(environ: Mapping[str, str]) -> TFConfig | None:
    """The place of this process among the tasks of its Slurm step, all of them workers.

    Task 0 is the chief. The tasks must be dealt out in blocks, which is Slurm's default.

    Returns: None where Slurm did not start several tasks.

    Raises:
      ConfigError: a variable that Slurm sets is missing or cannot be read.
    """
    if not environ.get(TASKS, "").isdecimal() or int(environ[TASKS]) < 2:
        return None
    values = [environ.get(name, "") for name in NEEDED]
    try:
        rank, hosts, counts = int(values[0]), _hosts(values[1]), _counts(values[2])
        pairs = list(zip(hosts, counts, strict=True))
    except ValueError:
        seen = join_items(f"{name}={environ.get(name)!r}" for name in NEEDED)
        message = _("Slurm's variables cannot be read: {seen}. Set TF_CONFIG yourself.")
        raise ConfigError(message.format(seen=seen)) from None
    job = int(environ.get("SLURM_JOB_ID", "0"))
    base = FIRST_PORT + PORTS_PER_JOB * (job % JOBS)
    addresses = tuple(f"{host}:{base + k}" for host, count in pairs for k in range(count))
    return TFConfig({WORKER: addresses}, Task(WORKER, rank))


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
