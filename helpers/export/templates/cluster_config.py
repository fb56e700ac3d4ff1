"""Sets TF_CONFIG, and with it the role of this process. Import it before TensorFlow.

TF_CONFIG lists the addresses of all tasks by role, and contains the role of this process. Source:
https://www.tensorflow.org/guide/distributed_training

If a TFJob or Ray has started this process, TF_CONFIG is already set. Otherwise it is computed from
the addresses of all tasks and the number of this task:

- launch.sh and the Job of Kubernetes set TASK_ADDRESSES.
- Slurm sets variables, from which the addresses are computed
  (https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess

PARAMETER_SERVERS = 0
"""The number of parameter servers. With them, task 0 is the chief."""
EVALUATOR = False
"""Whether the last task is the evaluator."""
LEGACY_KERAS: str | None = "0"
"""Selects `tf.keras`: "1" is Keras 2, "0" is Keras 3, and None is the only Keras of TensorFlow."""
MODEL_DIR = os.path.abspath(os.environ.get("MODEL_DIR", "model"))
"""The folder for checkpoints. All tasks must be able to access it."""


def set_tf_config() -> tuple[str, int]:
    """Sets TF_CONFIG if necessary, and returns the role of this process and its index."""
    if "TF_CONFIG" not in os.environ:
        if "TASK_ADDRESSES" in os.environ:
            addresses = os.environ["TASK_ADDRESSES"].split()
            number = os.environ.get("TASK_NUMBER") or os.environ["JOB_COMPLETION_INDEX"]
        elif "SLURM_STEP_NODELIST" in os.environ:
            addresses, number = slurm_addresses(), os.environ["SLURM_PROCID"]
        else:
            raise SystemExit("TF_CONFIG is not set. README.md lists the ways to start all tasks.")
        os.environ["TF_CONFIG"] = json.dumps(tf_config(addresses, int(number)))
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return task["type"], task["index"]


def tf_config(addresses: list[str], number: int) -> dict[str, object]:
    """TF_CONFIG of a task: [chief,] workers, [parameter servers,] [evaluator]."""
    chief = 1 if PARAMETER_SERVERS else 0
    workers = len(addresses) - chief - PARAMETER_SERVERS - EVALUATOR
    if workers < 1:
        raise SystemExit(f"{len(addresses)} tasks are too few: no worker is left.")
    counts = {"chief": chief, "worker": workers, "ps": PARAMETER_SERVERS}
    roles = [(role, index) for role, count in counts.items() for index in range(count)]
    cluster: dict[str, list[str]] = {}
    for (role, _index), address in zip(roles, addresses, strict=False):
        cluster.setdefault(role, []).append(address)
    role, index = [*roles, ("evaluator", 0)][number]
    return {"cluster": cluster, "task": {"type": role, "index": index}}


def slurm_addresses() -> list[str]:
    """The address of each task of `srun --distribution=block`, in the order of the tasks.

    Slurm assigns no ports. The ports depend on the job, so that two jobs can share a node.
    """
    command = ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]]
    nodes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    counts: list[int] = []
    for part in os.environ["SLURM_STEP_TASKS_PER_NODE"].split(","):  # as in "2(x3),1"
        count, _, repeated = part.rstrip(")").partition("(x")
        counts += [int(count)] * int(repeated or 1)
    first_port = 20_000 + 64 * (int(os.environ["SLURM_JOB_ID"]) % 190)
    return [
        f"{node}:{first_port + k}"
        for node, count in zip(nodes, counts, strict=True)
        for k in range(count)
    ]


def use_own_cores() -> None:
    """Binds this process to its part of the cores, if launch.sh has started several workers.

    On two cores, two workers with one core each train 1.3 times as fast as without binding.
    """
    tasks = int(os.environ.get("TASKS_ON_THIS_MACHINE", "1"))
    if tasks < 2 or PARAMETER_SERVERS or not hasattr(os, "sched_setaffinity"):
        return
    cores, number = sorted(os.sched_getaffinity(0)), int(os.environ["TASK_NUMBER"])
    each = len(cores) // tasks
    if each:
        os.sched_setaffinity(0, cores[number * each : (number + 1) * each])


if platform.machine() in ("x86_64", "AMD64"):
    # By default TensorFlow uses oneDNN on the newest processors only. It halves the time of a step.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors
if LEGACY_KERAS is None:
    os.environ.pop("TF_USE_LEGACY_KERAS", None)
else:
    os.environ["TF_USE_LEGACY_KERAS"] = LEGACY_KERAS
use_own_cores()
ROLE, INDEX = set_tf_config()
