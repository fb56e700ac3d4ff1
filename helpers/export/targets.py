"""The files that start an exported program: on one machine, with Slurm, Kubernetes or Ray."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import ConfigError
from helpers.i18n import _

SCRIPT, SLURM, KUBERNETES, RAY = TARGETS = ("script", "slurm", "kubernetes", "ray")
TEMPLATES = Path(__file__).parent / "templates"
PORT = 2222  # of each pod
RESTARTS = 3
COMPUTING = ("Chief", "Worker")


@dataclass(frozen=True)
class Tasks:
    """The tasks of the training.

    Attributes:
      workers: the number of workers.
      ps: the number of parameter servers. With them, there is also a chief.
      evaluator: whether there is an evaluator.
      gpus: whether each worker needs a GPU.
    """

    workers: int
    ps: int
    evaluator: bool
    gpus: bool = False

    @property
    def count(self) -> int:
        """The number of processes."""
        return self.workers + self.ps + (self.ps > 0) + self.evaluator

    @property
    def roles(self) -> Mapping[str, int]:
        """The roles as a TFJob names them, and how many tasks each has."""
        counts = {"Chief": int(self.ps > 0), "Worker": self.workers, "PS": self.ps}
        counts["Evaluator"] = int(self.evaluator)
        return {role: count for role, count in counts.items() if count}


def target_files(target: str, tasks: Tasks) -> Mapping[str, str]:
    """The text of each file of a target, by name. Every target includes `launch.sh`.

    Raises:
      ConfigError: Ray's trainer has no such tasks.
    """
    files = {"launch.sh": fill("launch.sh", TASKS=tasks.count)}
    if target == SLURM:
        files["job.sbatch"] = _slurm(tasks)
    elif target == KUBERNETES:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        files["Dockerfile"] = fill("Dockerfile", PYTHON=python)
        files["tfjob.yaml"] = _tfjob(tasks)
        files["job.yaml"] = _job(tasks)
    elif target == RAY:
        files["ray_train.py"] = _ray(tasks)
    return files


def fill(template: str, **values: object) -> str:
    """A template whose markers, such as @TASKS@, are replaced with values."""
    text = (TEMPLATES / template).read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def with_constants(template: str, **values: object) -> str:
    """A Python template whose constants are set to other values."""
    text = (TEMPLATES / template).read_text("utf-8")
    for name, value in values.items():
        line = rf"^({name}(?:: [^=]+)?) = .*$"
        text, count = re.subn(line, rf"\1 = {double_quoted(value)}", text, flags=re.MULTILINE)
        assert count == 1, name
    return text


def double_quoted(value: object) -> str:
    """The source of a number, None, or a string that contains no quotes."""
    return repr(value).replace("'", '"')


def _slurm(tasks: Tasks) -> str:
    simple = not tasks.ps and not tasks.evaluator
    lines = [f"#SBATCH --nodes={tasks.workers}", "#SBATCH --ntasks-per-node=1"]
    if not simple:
        lines = [f"#SBATCH --ntasks={tasks.count}"]
    if tasks.gpus:
        lines.append("#SBATCH --gpus-per-task=1")
    return fill("job.sbatch", TASKS="\n".join(lines))


def _pod(gpus: bool, *, restart: str = "", environment: Mapping[str, str] | None = None) -> str:
    text = fill("pod.yaml", RESTART=restart)
    text = re.sub(r"^  \n", "", text, flags=re.MULTILINE)
    if gpus:
        text = text.replace("memory: 4Gi", "memory: 4Gi, nvidia.com/gpu: 1")
    for name, value in (environment or {}).items():
        text = text.replace("    env:\n", f"    env:\n    - {{name: {name}, value: {value}}}\n")
    return text


def _tfjob(tasks: Tasks) -> str:
    replicas = "".join(
        f"{role}:\n  replicas: {count}\n  restartPolicy: OnFailure\n  template:\n"
        + textwrap.indent(_pod(tasks.gpus and role in COMPUTING), "    ")
        for role, count in tasks.roles.items()
    )
    # Parameter servers end after the chief. An evaluator still evaluates the last checkpoint.
    clean = "None" if tasks.evaluator and not tasks.ps else "Running"
    replicas = textwrap.indent(replicas, "    ").rstrip("\n")
    return fill("tfjob.yaml", CLEAN=f'"{clean}"', REPLICAS=replicas)


def _job(tasks: Tasks) -> str:
    addresses = " ".join(f"training-{k}.training:{PORT}" for k in range(tasks.count))
    # A failed pod is replaced by one with the same index.
    environment = {"TASK_ADDRESSES": f'"{addresses}"'}
    # All pods of a Job are identical, so each gets a GPU.
    pod = _pod(
        tasks.gpus, restart="restartPolicy: Never\n  subdomain: training", environment=environment
    )
    backoff = RESTARTS * tasks.count
    pod = textwrap.indent(pod, "    ").rstrip("\n")
    return fill("job.yaml", TASKS=tasks.count, BACKOFF=backoff, POD=pod)


def _ray(tasks: Tasks) -> str:
    if tasks.ps or tasks.evaluator:
        message = _(
            'target="ray" is not possible with parameter servers or an evaluator, because Ray\'s '
            'trainer starts workers only. Choose "script", "slurm" or "kubernetes".'
        )
        raise ConfigError(message)
    return with_constants("ray_train.py", WORKERS=tasks.workers, USE_GPU=tasks.gpus)
