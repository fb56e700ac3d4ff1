"""The training cells of the lessons on Keras, as plain programs under today's TensorFlow.

Cells with the tag `trains` are one program, together with the imports of the set-up cell. It must
run as a file, without the course's clusters, with `import helpers.keras_3` as its only extra line:

- The cells define functions; only what they call may run TensorFlow's operations, because a
  strategy has to be created before the first operation.
- The last function takes no argument, and the program calls it. It trains, and returns a dict with
  "loss", which is equal on all workers. A cell that writes a whole program (`%%writefile`), and
  prints its loss, needs no function.
- Under ParameterServerStrategy the program is the coordinator; the other tasks run a server.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from helpers import free_ports
from helpers.system.keras_version import LEGACY_KERAS
from helpers.system.ports import without_proxies
from helpers.tf_config import build_tf_configs
from tests.support import ROOT
from tests.support.faults import needs_keras_3
from tools.lessons import notebook

TAG, SETUP = "trains", "language"
FIX = "import helpers.keras_3\n"
KERAS_LESSONS = ("02", "03", "04", "05", "06", "08", "10", "12")
KERAS_2_ONLY = re.compile(r"\boptimizers\.legacy\b|\bhelpers\.estimator\b|TF_USE_LEGACY_KERAS")
SECONDS = 180
SERVER = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
task = {"job_name": resolver.task_type, "task_index": resolver.task_id}
tf.distribute.Server(resolver.cluster_spec(), protocol="grpc", **task).join()
"""


def code_cells(number: str, folder: str = "en") -> list[notebook.Json]:
    [path] = ROOT.glob(f"notebooks/{folder}/{number}_*.ipynb")
    return list(notebook.cells(notebook.read(path), "code"))


def program_of(cells: list[notebook.Json]) -> str:
    """The program that the training cells of a lesson are."""
    [setup] = [notebook.source(cell) for cell in cells if cell["id"] == SETUP]
    imports = [
        ast.unparse(line)
        for line in ast.parse(setup).body
        if isinstance(line, ast.Import | ast.ImportFrom)
    ]
    parts = [notebook.source(cell) for cell in cells if TAG in notebook.tags(cell)]
    assert parts, f"no cell has the tag {TAG}"
    if parts[-1].startswith("%%writefile"):
        return parts[-1].partition("\n")[2]
    last = ast.parse(parts[-1]).body[-1]
    assert isinstance(last, ast.FunctionDef), "the last training cell ends with no function"
    assert not last.args.args, f"{last.name} takes arguments"
    return "\n\n".join(["\n".join(imports), *parts, f"print({last.name}())\n"])


def run(program: str, folder: Path) -> list[tuple[int, str]]:
    """Exit code and output of each task that runs the program."""
    (folder / "program.py").write_text(program, "utf-8")
    (folder / "server.py").write_text(SERVER, "utf-8")
    asynchronous = "ParameterServerStrategy(" in program
    addresses = [f"127.0.0.1:{port}" for port in free_ports(4 if asynchronous else 2)]
    configs = build_tf_configs(addresses, chief=asynchronous, ps=int(asynchronous))
    processes, outputs = [], []
    try:
        for config in configs:
            serves = asynchronous and config.task.type != "chief"
            output = folder / f"{config.task}.log"
            with output.open("wb") as file:
                process = subprocess.Popen(
                    [sys.executable, "server.py" if serves else "program.py"],
                    cwd=folder,
                    env=environ(config.to_json()),
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            processes.append(process)
            outputs += [] if serves else [(process, output)]
        return [(process.wait(SECONDS), output.read_text()) for process, output in outputs]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def environ(tf_config: str) -> Mapping[str, str]:
    """That of a plain program, with the data that the course has."""
    base = {k: v for k, v in without_proxies(os.environ).items() if k != LEGACY_KERAS}
    return base | {
        "TF_CONFIG": tf_config,
        "TFDS_DATA_DIR": str(ROOT / "helpers" / "datasets"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": str(ROOT),
    }


@pytest.mark.parametrize("folder", ["en", "solutions"])
@pytest.mark.parametrize("number", KERAS_LESSONS)
def test_a_lesson_on_keras_has_no_code_for_keras_2_alone(number: str, folder: str) -> None:
    sources = [notebook.source(cell) for cell in code_cells(number, folder)]
    assert len(sources) > 3
    assert [source for source in sources if KERAS_2_ONLY.search(source)] == []


@pytest.mark.parametrize("number", KERAS_LESSONS)
def test_the_training_cells_of_a_lesson_are_a_program(number: str) -> None:
    compile(program_of(code_cells(number)), number, "exec")


@needs_keras_3
@pytest.mark.keras_3
@pytest.mark.parametrize("number", KERAS_LESSONS)
def test_the_training_cells_train_as_plain_processes(number: str, tmp_path: Path) -> None:
    done = run(FIX + program_of(code_cells(number)), tmp_path)
    assert [code for code, _output in done] == [0] * len(done), done[0][1][-3000:]
    results = [output.splitlines()[-1] for _code, output in done]
    assert len(set(results)) == 1
    assert re.search(r"loss\W+\d", results[0]), results[0]


@needs_keras_3
@pytest.mark.keras_3
def test_fit_of_a_lesson_fails_without_the_fix(tmp_path: Path) -> None:
    done = run(program_of(code_cells("03")), tmp_path)
    assert all(code != 0 and "PerReplica" in output for code, output in done)
