"""The README of an exported program, in the language of the messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from helpers.export import bundle
from helpers.export.targets import KUBERNETES, RAY, SLURM, Tasks
from helpers.export.values import ARRAYS, DATASETS
from helpers.i18n import _

if TYPE_CHECKING:
    from helpers.export.program import Program


def readme(program: Program, tasks: Tasks, target: str) -> str:
    """The text of README.md."""
    parts = [
        f"# {_('Distributed training')}",
        _(
            "The `export` method of a cluster wrote this program. It needs TensorFlow and "
            "the packages in `requirements.txt`, but not the course's package `helpers`."
        ),
        "\n".join(f"- `{name}`: {text}" for name, text in _contents(program)),
        *_install(),
        *_on_this_machine(tasks),
        *_on_several_machines(tasks),
        *_TARGETS.get(target, lambda: ())(),
        *_checkpoints(program),
    ]
    return "\n\n".join(parts) + "\n"


def _contents(program: Program) -> Iterator[tuple[str, str]]:
    """The files, and what each contains."""
    yield "train.py", _("your functions and the values that they use; `run_task` runs a task")
    yield "cluster_config.py", _("sets `TF_CONFIG`, and with it the role of each process")
    texts = {
        "multi_worker_estimator.py": _("training and evaluation of an Estimator"),
        "parameter_servers.py": _(
            "runs the `tf.distribute.Server` of a worker or parameter server"
        ),
        f"{bundle.ESTIMATOR}.py": _("`tf.estimator` for TensorFlow 2.16 and later"),
        f"{bundle.KERAS_3}/__init__.py": _(
            "fixes for Keras 3 on several workers (https://github.com/keras-team/keras/issues/20585)"
        ),
        f"{bundle.LESSONS}/__init__.py": _("functions of the course that your functions call"),
    }
    for name, text in texts.items():
        if name in program.files:
            yield name.replace("/__init__.py", "/"), text
    for path in program.collector.modules.values():
        yield path.name + "/" * path.is_dir(), _("a copy of your module")
    if program.collector.values.arrays:
        yield ARRAYS, _("the arrays that your functions use")
    if program.uses_datasets:
        yield f"{DATASETS}/", _("the course's datasets, with their license")


def _install() -> Iterator[str]:
    yield f"## {_('Install')}"
    yield _(
        "Create an environment with the package versions that were installed when the program was "
        "exported:"
    )
    yield _code("python3 -m venv .venv", ".venv/bin/pip install -r requirements.txt")


def _on_this_machine(tasks: Tasks) -> Iterator[str]:
    yield f"## {_('On one machine')}"
    yield _(
        "`launch.sh` starts all tasks ({count}) as processes on this machine, each with its own "
        "log. If a task fails, the script restarts all tasks, up to three times. The section on "
        "checkpoints describes where they resume."
    ).format(count=tasks.count)
    yield _code("PYTHON=.venv/bin/python ./launch.sh")


def _on_several_machines(tasks: Tasks) -> Iterator[str]:
    yield f"## {_('On several machines')}"
    yield _(
        "Put this folder on a drive that all machines can reach under the same path. Start each "
        "task with the addresses of all tasks, in the order chief, workers, parameter servers, "
        "evaluator, and with its own number. Each task must be able to connect to the others."
    )
    hosts = " ".join(f"node{k + 1}:2222" for k in range(tasks.count))
    yield _code(
        "unset http_proxy https_proxy grpc_proxy",
        f'TASK_ADDRESSES="{hosts}" TASK_NUMBER=0 .venv/bin/python train.py',
    )
    yield _(
        "TensorFlow's servers require no password. Make sure that only the tasks can reach their "
        "ports."
    )


def _slurm() -> Iterator[str]:
    yield "## Slurm"
    yield _(
        "Adapt the `#SBATCH` lines in `job.sbatch` to your cluster, and submit it from this "
        "folder. `cluster_config.py` computes the addresses from Slurm's variables."
    )
    yield _code("PYTHON=$PWD/.venv/bin/python sbatch job.sbatch")


def _kubernetes() -> Iterator[str]:
    yield "## Kubernetes"
    yield _(
        "Build the image and push it to a registry that your cluster can reach. In the manifests, "
        "replace the image name with yours, and `shared` with a volume that many pods can write to "
        "(ReadWriteMany)."
    )
    yield _code(
        "docker build -t registry.example/training:1 .", "docker push registry.example/training:1"
    )
    yield _(
        "With version 1.9 of the Kubeflow Training Operator, use `tfjob.yaml`. Without it, use "
        "`job.yaml`, a Job whose pods get their addresses from a headless Service. (Kubeflow "
        "Trainer 2 has no TFJob.)"
    )
    yield _code("kubectl apply -f job.yaml", "kubectl logs -f job/training")


def _ray() -> Iterator[str]:
    yield "## Ray"
    yield _(
        "Ray Train starts the workers and restarts them after a failure. `/mnt/shared` stands for "
        "a folder that all machines can reach."
    )
    yield _code(
        "MODEL_DIR=/mnt/shared/model .venv/bin/python ray_train.py --address auto "
        "--storage /mnt/shared/ray"
    )


def _checkpoints(program: Program) -> Iterator[str]:
    yield f"## {_('Checkpoints')}"
    if "multi_worker_estimator.py" in program.files:
        yield _(
            "Checkpoints are written to the folder `model`, or to the folder in the environment "
            "variable MODEL_DIR, which all tasks must be able to access. Training resumes from the "
            "last one. For a new training run, delete the folder."
        )
    else:
        yield _(
            "After a restart, a function starts from the beginning, unless it saves its progress, "
            "for example with `keras.callbacks.BackupAndRestore` and a folder in "
            "`cluster_config.MODEL_DIR`. Give each worker its own backup folder."
        )


def _code(*lines: str) -> str:
    return "\n".join(["```bash", *lines, "```"])


_TARGETS = {SLURM: _slurm, KUBERNETES: _kubernetes, RAY: _ray}
