"""Training under a real Slurm with two nodes: `make test-slurm`, as root."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from helpers import estimator_job
from tests.support import ROOT
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn
from tests.support.processes import wait_until
from tests.support.slurm import NODES, Slurm
from tools.lessons import notebook
from tools.lessons.project import Project

pytestmark = pytest.mark.slurm
JOB_TIMEOUT = 240.0
PROJECT = Project.load(ROOT)


def documented_script(payload: Path) -> str:
    """The batch script in docs/CLUSTERS.md, with another payload and a core for each task."""
    text = (ROOT / "docs" / "CLUSTERS.md").read_text("utf-8")
    [block] = re.findall(r"\n((?:    .*\n)+)", text[text.index("## Slurm") :])[:1]
    script = re.sub("^    ", "", block, flags=re.MULTILINE)
    command = "--kill-on-bad-exit=1 python -m helpers.worker /shared/payload.pkl"
    assert f"srun --cpus-per-task=8 {command}" in script
    script = script.replace("--cpus-per-task=8", "--cpus-per-task=1")
    return script.replace("/shared/payload.pkl", str(payload))


def write_job(folder: Path, steps: int) -> Path:
    """Writes a training run to `steps` as a batch script, in a folder that all nodes share."""
    job = estimator_job(
        tiny_model_fn,
        tiny_input_fn,
        model_dir=str(folder / "model"),
        steps=steps,
        params=PARAMS,
        save_checkpoints_steps=100,
        evaluate=None,
    )
    job.save(folder / "payload.pkl")
    script = folder / "job.sh"
    script.write_text(documented_script(folder / "payload.pkl"))
    return script


def submit(slurm: Slurm, script: Path, *options: str) -> str:
    """Submits a script and returns its job ID."""
    environ = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']},PYTHONPATH={ROOT}"
    told = slurm.ask(
        *["sbatch", "--parsable", f"--export=ALL,{environ}", f"--output={script.parent}/log"],
        *["--cpus-per-task=1", *options, str(script)],
    )
    assert told.strip().isdecimal(), told
    return told.strip()


def state(slurm: Slurm, job: str) -> str:
    return slurm.ask("scontrol", "show", "job", job).partition("JobState=")[2].partition(" ")[0]


def wait_for(slurm: Slurm, job: str, script: Path) -> str:
    """Waits for a job to succeed and returns its output."""
    ended = wait_until(lambda: state(slurm, job) not in ("PENDING", "RUNNING"), JOB_TIMEOUT)
    log = (script.parent / "log").read_text()
    assert ended and state(slurm, job) == "COMPLETED", log[-3000:]
    return log


def last_step(folder: Path) -> int:
    """Returns the step of the newest checkpoint."""
    steps = [int(path.stem.partition("-")[2]) for path in folder.glob("model/model.ckpt-*.index")]
    return max(steps, default=0)


def workers_on(slurm: Slurm, node: str) -> list[psutil.Process]:
    processes = [psutil.Process(pid) for pid in slurm.pids(node)]
    return [one for one in processes if one.cmdline()[1:3] == ["-m", "helpers.worker"]]


def start_job(slurm: Slurm, folder: Path) -> tuple[Path, str, psutil.Process]:
    """Trains 3,000 steps on two nodes: the script, the job, and the second node's worker."""
    script = write_job(folder, steps=3000)
    job = submit(slurm, script, "--nodes=2")
    assert wait_until(lambda: 300 <= last_step(folder) < 2500, JOB_TIMEOUT)
    [worker] = workers_on(slurm, NODES[1])
    return script, job, worker


def test_the_documented_script_trains_on_two_nodes_and_survives_the_loss_of_a_task(
    slurm: Slurm, tmp_path: Path
) -> None:
    script, job, victim = start_job(slurm, tmp_path)
    lost_at = last_step(tmp_path)
    victim.send_signal(signal.SIGKILL)
    log = wait_for(slurm, job, script)
    assert last_step(tmp_path) == 3000
    begun = [int(step) for step in re.findall(r"ready at step (\d+)", log)]
    assert begun[:2] == [0, 0], log
    assert len(begun) == 4 and min(begun[2:]) >= lost_at, log


def test_after_sigterm_to_a_task_the_next_step_follows_the_last_one(
    slurm: Slurm, tmp_path: Path
) -> None:
    script, job, victim = start_job(slurm, tmp_path)
    victim.send_signal(signal.SIGTERM)
    log = wait_for(slurm, job, script)
    assert "was preempted (SIGTERM), and" in log
    begun = [int(step) for step in re.findall(r"ready at step (\d+)", log)]
    assert len(begun) == 4 and begun[2] == begun[3], log
    before, _ready, _after = log.partition(f"ready at step {begun[2]}:")
    assert f"checkpoint of step {begun[2]}\n" in before, log
    assert max(map(int, re.findall(r"step (\d+)/", before))) <= begun[2], log
    assert last_step(tmp_path) == 3000


def test_several_tasks_share_a_node(slurm: Slurm, tmp_path: Path) -> None:
    script = write_job(tmp_path, steps=200)
    job = submit(slurm, script, "--nodes=2", "--ntasks=3", "--ntasks-per-node=2")
    wait_for(slurm, job, script)
    assert last_step(tmp_path) == 200


def test_two_jobs_train_on_the_same_nodes_at_once(slurm: Slurm, tmp_path: Path) -> None:
    scripts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        scripts.append(write_job(tmp_path / name, steps=1500))
    jobs = [submit(slurm, script, "--nodes=2", "--ntasks-per-node=1") for script in scripts]
    both = wait_until(lambda: {state(slurm, job) for job in jobs} == {"RUNNING"}, JOB_TIMEOUT)
    assert both
    for job, script in zip(jobs, scripts, strict=True):
        wait_for(slurm, job, script)
        assert last_step(script.parent) == 1500


def test_the_program_of_lesson_7_trains_on_two_nodes_with_the_lines_for_slurm(
    slurm: Slurm, tmp_path: Path
) -> None:
    lesson = notebook.read(PROJECT.notebook("07_run_on_a_real_cluster"))
    sources = {cell["id"]: notebook.source(cell) for cell in lesson["cells"]}
    [lines] = re.findall(r"```python\n(import os\n.*?)```", sources["worker-result"], re.DOTALL)
    program = sources["program"].partition("\n")[2]  # without %%writefile
    (tmp_path / "program.py").write_text(f"{lines}\n{program}")
    images = np.random.default_rng(1).integers(0, 255, [640, 28, 28, 1], np.uint8)
    labels = images[:, 0, 0, 0] // 26
    np.savez(tmp_path / "mnist.npz", x=images, y=labels, test_x=images, test_y=labels)
    script = tmp_path / "job.sh"
    script.write_text(
        f"#!/bin/bash\ncd {tmp_path}\nsrun --kill-on-bad-exit=1 python program.py model\n"
    )
    job = submit(slurm, script, "--nodes=2", "--ntasks-per-node=1")
    log = wait_for(slurm, job, script)
    losses = re.findall(r"trained with all-reduce, loss ([\d.]+)", log)
    assert len(losses) == 2 and losses[0] == losses[1], log


TELL = """
import json, os, socket, time
from helpers.tf_config.slurm import config_from_slurm
try:
    config = config_from_slurm(os.environ)
    print(f"{config.task.index} on {socket.gethostname()}:", *config.cluster["worker"])
except ValueError as error:
    print("refused:", error)
"""
LAYOUTS = {
    "block": ["-N2", "-n4", "--distribution=block"],
    "cyclic": ["-N2", "-n4", "--distribution=cyclic"],
    "plane": ["-N2", "-n7", "--distribution=plane=2"],
    "by components": ["-n1", "-N1", ":", "-n2", "-N1"],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_distribution_gives_each_task_its_own_host(slurm: Slurm, name: str) -> None:
    told = slurm.ask(*tell(*LAYOUTS[name]))
    lines = re.findall(r"^(\d+) on (n\d): (.*)$", told, re.MULTILINE)
    assert len(lines) in (3, 4, 7), told
    [addresses] = {line[2] for line in lines}
    for rank, host, _all in lines:
        assert addresses.split()[int(rank)].startswith(f"{host}:"), told


def test_an_arbitrary_distribution_is_refused_by_every_task(slurm: Slurm, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n1\nn2\nn2\nn1\n")
    arbitrary = tell("-N2", "-n4", "--distribution=arbitrary")
    told = slurm.ask("env", f"SLURM_HOSTFILE={hosts}", *arbitrary)
    assert told.count("refused: Slurm's variables do not show") == 4, told


def tell(*options: str) -> list[str]:
    """A command with which each task prints its interpretation of the variables."""
    environ = ["env", f"PYTHONPATH={ROOT}"]
    return [*environ, "srun", "--overcommit", *options, sys.executable, "-c", TELL]
