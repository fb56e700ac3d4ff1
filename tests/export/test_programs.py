"""Exports of three lessons run without this package, to the weights of `LocalCluster`."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ROOT, clean_environment
from tests.support.faults import needs_keras_3
from tests.support.slurm import Slurm

SECONDS = 600.0
LESSONS = ("01", pytest.param("03", marks=needs_keras_3), pytest.param("05", marks=needs_keras_3))


@dataclass(frozen=True)
class Exported:
    """An exported lesson.

    Attributes:
      results: the results of `LocalCluster` for the same functions.
      folder: contains the export in "program" and, for an Estimator, the checkpoints of
        `LocalCluster` in "reference".
      python: the Python of an environment without this package.
    """

    lesson: str
    results: Any
    folder: Path
    python: Path

    @property
    def program(self) -> Path:
        """The folder of the export."""
        return self.folder / "program"

    def check(self, logs: str) -> None:
        """Compares the results in the logs of the program with the results of `LocalCluster`."""
        if self.lesson == "01":
            assert "trained to step 60" in logs
            expected, found = (_checkpoint(self.folder / name) for name in _CHECKPOINTS)
            assert expected.keys() == found.keys() and len(found) > 6
            for name, value in expected.items():
                np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-6, err_msg=name)
            return
        results = [ast.literal_eval(line) for line in _results(logs)]
        assert len(results) == len(self.results)
        for found, expected in zip(results, self.results, strict=True):
            if self.lesson == "05":  # asynchronous
                assert found["updates"] == expected["updates"] == 200
                assert found["losses"][-1] < 0.1 < found["losses"][0] < 1
                shards = json.loads(json.dumps(found["shards"]))
                assert shards == expected["shards"]
                continue
            assert found["steps"] == expected["steps"]
            for one, other in zip(found["weights"], expected["weights"], strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


_CHECKPOINTS = ("reference", "program/model")


def _results(logs: str) -> list[str]:
    return [line.partition("result: ")[2] for line in logs.splitlines() if "result: " in line]


def _checkpoint(folder: Path) -> dict[str, Any]:
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def export(lesson: str, folder: Path) -> Exported:
    """Trains a lesson on `LocalCluster` and exports it, in another process."""
    command = [sys.executable, "-m", "tests.export.lesson_cells", lesson, str(folder), "slurm"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=clean_environment.environ(),  # without the Keras of the tests
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout.splitlines()[-1])
    requirements = folder / "program" / "requirements.txt"
    python = clean_environment.create(folder / "venv", requirements)
    return Exported(lesson, results, folder, python)


@pytest.mark.programs
@pytest.mark.parametrize("lesson", LESSONS)
def test_an_exported_lesson_trains_as_local_processes(lesson: str, tmp_path: Path) -> None:
    exported = export(lesson, tmp_path)
    environ = clean_environment.environ() | {"PYTHON": str(exported.python)}
    done = subprocess.run(
        ["./launch.sh"],
        cwd=exported.program,
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    logs = [path.read_text() for path in sorted(exported.program.glob("task-*.log"))]
    assert done.returncode == 0, logs[0][-3000:]
    assert "A task failed" not in done.stderr
    exported.check("\n".join(logs))


@pytest.mark.slurm
@pytest.mark.parametrize("lesson", LESSONS)
def test_an_exported_lesson_trains_on_two_nodes_of_slurm(
    slurm: Slurm, lesson: str, tmp_path: Path
) -> None:
    exported = export(lesson, tmp_path)
    # As many threads as in LocalCluster, because the order of a sum depends on them. Slurm binds no
    # task here.
    threads = {f"TF_NUM_{kind}OP_THREADS": "1" for kind in ("INTRA", "INTER")}
    environ = {"PYTHON": str(exported.python), **({} if lesson == "05" else threads)}
    log = tmp_path / "log"
    # A file for each task. In a common file, their long lines can be mixed.
    environ["SLURM_STDOUTMODE"] = f"{log}-%t"
    variables = ",".join(f"{name}={value}" for name, value in environ.items())
    command = ["sbatch", "--wait", "--overcommit", "--nodes=2", f"--export=ALL,{variables}"]
    submitted = slurm.ask(
        *["env", f"--chdir={exported.program}", *(f"--unset={n}" for n in _UNSET)],
        *[*command, f"--output={log}", "job.sbatch"],
        seconds=SECONDS,
    )
    logs = "".join(path.read_text() for path in sorted(tmp_path.glob("log*"))) or submitted
    assert logs.count("result: ") or "trained to step" in logs, logs[-3000:]
    assert "srun: error" not in logs, logs[-3000:]
    exported.check(logs)


_UNSET = [name for name in clean_environment.LEFT_OUT if name in os.environ]
