from __future__ import annotations

import csv
import faulthandler
import json
import re
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ET
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from benchmarks import first_interaction, grading, machine, projects, repaint, scale, start
from benchmarks.contenders import ours
from benchmarks.contenders.report import Arguments, Report
from benchmarks.throughput import __main__ as throughput
from benchmarks.throughput import launch, lineup, measure
from benchmarks.throughput.course import Plan
from helpers.cluster.fork_client import can_fork
from helpers.protocol.stack_dump import SIGNAL, serve_stacks
from tests.support import ROOT
from tests.support.processes import is_running, wait_until
from tools.teaching.course import Course, Score


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.throughput", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.benchmarks
def test_the_smallest_benchmark_runs_and_writes_its_results(tmp_path: Path) -> None:
    done = run("--quick", "--steps=40", "--from-step=10", f"--output={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr

    with (tmp_path / "throughput.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["contender"], row["batch_size"]) for row in rows] == [
        ("published tutorial", "64"),
        ("this package", "64"),
        ("ceiling", "64"),
        ("ceiling", "256"),
    ]
    for row in rows:
        assert row["steps"] == "40"
        assert float(row["examples_per_second"]) > 0
        assert float(row["peak_memory"]) > 0
    assert [bool(row["accuracy"]) for row in rows] == [True, True, False, False]

    picture = "".join(ET.parse(tmp_path / "throughput.svg").getroot().itertext())
    assert "this package · 2 × 64" in picture
    assert json.loads((tmp_path / "machine.json").read_text())["tensorflow"] in picture
    assert "this package, 2 workers, batch 64 / ceiling: " in done.stdout


def test_throughput_counts_from_the_step_asked_for_and_adds_up_the_processes() -> None:
    throughput = measure.throughput
    steady = Report(10, [(50, 0.0), (100, 4.0), (200, 6.0), (300, 9.0)])
    assert throughput([steady], 90) == (300 - 100) * 10 / 5
    assert throughput([steady], 90, 250) == (200 - 100) * 10 / 2
    assert throughput([steady, steady, Report()], 100) == 2 * 400
    assert throughput([steady, Report(10, [(50, 0.0)])], 40) is None
    assert throughput([steady], 250) is None


def test_a_ratio_compares_within_a_round() -> None:
    def row(name: str, repeat: int, speed: float) -> Any:
        rest: list[Any] = [None] * (len(fields(measure.Row)) - 7)
        return measure.Row(name, 2, 64, repeat, 1, 1, speed, *rest)

    rows = [row("a", 1, 30.0), row("b", 1, 10.0), row("a", 2, 8.0), row("b", 2, 4.0)]
    found = measure.ratio(rows, ("a", 2, 64), ("b", 2, 64), "examples_per_second")
    assert found and found.values == (3.0, 2.0)
    assert found.show(".1f") == "2.5 (2.0–3.0)"


def test_every_second_round_has_the_reverse_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[tuple[int, str]] = []

    class FakeCourse:
        def __init__(self, *_arguments: Any) -> None: ...

        def measure(self, contender: lineup.Contender, repeat: int) -> None:
            order.append((repeat, contender.name))
            raise launch.BenchmarkError("not measured")

    monkeypatch.setattr(throughput, "Course", FakeCourse)
    contenders = [lineup.ours(2, 64), lineup.without_stacks(2)]
    rows, failures = throughput.measure_all(contenders, Plan(1, None, 1, ""), 2, tmp_path / "csv")
    first, second = (contender.name for contender in contenders)
    assert order == [(1, first), (1, second), (2, second), (2, first)]
    assert (rows, failures) == ([], 4)


def test_a_worker_without_stacks_has_neither_a_handler_nor_a_thread_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = threading.active_count()
    serve_stacks(tmp_path)
    assert threading.active_count() == before + 1
    read = ours.without_stacks(lambda mode, _params, _context: mode)
    assert [read("train", {}), read("eval", {})] == ["train", "eval"]
    unregister: Any = faulthandler.unregister
    assert not unregister(SIGNAL)
    assert wait_until(lambda: threading.active_count() == before, 10)


def test_a_contender_that_hangs_is_killed_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "TIMEOUT_SECONDS", 2.0)
    python = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; echo waiting; wait")
    with pytest.raises(launch.BenchmarkError, match=r"did not end within 2 s(.|\n)*waiting"):
        launch.run(python, lineup.ours(2, 64), arguments(tmp_path))
    child = int((tmp_path / "child").read_text())
    assert wait_until(lambda: not is_running(child), 10)


def test_a_contender_that_fails_is_named_with_its_last_lines(tmp_path: Path) -> None:
    python = script(tmp_path, "echo no such thing; exit 3")
    expected = r"this package, 2 workers, batch 64: process 0 ended with code 3(.|\n)*no such thing"
    with pytest.raises(launch.BenchmarkError, match=expected):
        launch.run(python, lineup.ours(2, 64), arguments(tmp_path))


def test_an_interpreter_without_torch_is_told_apart(tmp_path: Path) -> None:
    assert machine.find_torch(str(tmp_path / "missing")) is None
    assert machine.find_torch(script(tmp_path, "exit 1")) is None
    assert machine.find_torch(script(tmp_path, "echo 2.13.0")) == "2.13.0"


def arguments(folder: Path) -> Any:
    return Arguments(folder, 0, 2, 64, 1, None, 0.025, 0.9, None)


def script(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.benchmarks
@pytest.mark.skipif(not can_fork(), reason="forks need Linux 5.3 and no GPU")
def test_both_ways_to_start_a_group_are_measured(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "benchmarks.start", "--repeat=1", "--workers=2"]
    program += ["--steps=20"]
    subprocess.run([*program, f"--output={tmp_path}"], timeout=300, check=True)
    rows = [
        line.split("|") for line in (tmp_path / "start.md").read_text().splitlines() if "|" in line
    ]
    ways = [row[2].strip() for row in rows]
    assert ways == ["they are", "---", "forked", "started anew", "anew / forked"]
    assert all(float(value) > 0 for row in rows[2:] for value in row[3:6])


def test_a_training_too_short_for_checkpoints_before_the_kill_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "measure", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(sys, "argv", ["start", "--steps=2"])
    with pytest.raises(SystemExit) as ended:
        start.main()
    assert ended.value.code == 2
    assert "--steps=2: 3 or more" in capsys.readouterr().err


@pytest.mark.benchmarks
def test_the_first_training_of_a_notebook_is_measured_both_ways(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "benchmarks.run_all", "--repeat=1", f"--output={tmp_path}"]
    subprocess.run(program, cwd=ROOT, timeout=300, check=True)
    rows = [line.split("|") for line in (tmp_path / "run_all.md").read_text().splitlines()[4:]]
    assert [row[1].strip() for row in rows[2:]] == ["presses Run All", "reads, and presses Run"]
    assert all(float(row[2]) > 0 for row in rows[2:])


def test_the_seconds_of_interactions_are_written_as_a_table() -> None:
    text = first_interaction.report_text({"question answered": [2.0, 2.46, 9.0]})
    assert "| question answered | 2.5 | 2.0 to 9.0 |" in text


def test_the_costs_of_a_repaint_are_written_as_a_table() -> None:
    cost = repaint.Cost(workers=64, step=300, seconds=0.004, calls=9000, sent=20_000)
    assert cost.core == pytest.approx(0.016)
    assert "| 64 | 300 | 4.00 | 1.6% | 9000 | 20.0 |" in repaint.report_text([cost])


@pytest.mark.parametrize(("score", "code"), [(10, 0), (9, 1)])
def test_grading_is_timed_for_every_exercise_and_must_earn_all_points(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, score: int, code: int
) -> None:
    course = Course
    graded = []

    def grade(_course: Any, student: str, assignment: str) -> Any:
        graded.append(assignment)
        return Score(student, assignment, score, 10)

    monkeypatch.setattr(course, "release", lambda *_unused: [])
    monkeypatch.setattr(course, "assignments", ["01_train_on_two_workers", "02_choose_a_strategy"])
    monkeypatch.setattr(
        course, "collect", lambda _course, folder, name: [*folder.glob(f"*/{name}.ipynb")] or 1 / 0
    )
    monkeypatch.setattr(course, "grade", grade)
    monkeypatch.setattr(sys, "argv", ["grading.py", "--repeat=2", f"--output={tmp_path}"])
    assert grading.main() == code
    assert graded == ["01_train_on_two_workers"] * 2 + ["02_choose_a_strategy"] * 2
    assert (
        f"| 02_choose_a_strategy | {score} of 10 | 0 | 0 |" in (tmp_path / "grading.md").read_text()
    )


@pytest.mark.benchmarks
def test_an_all_reduce_by_hand_is_measured_beside_tensorflows(tmp_path: Path) -> None:
    projects.main(["ring_all_reduce", "--quick", f"--output={tmp_path}"])
    text = (tmp_path / "ring_all_reduce.md").read_text("utf-8")
    for name in ("reference solution", "TensorFlow's RING"):
        assert re.search(rf"^\| {name} \| \d+\.\d\d \| \d+\.\d\d to ", text, re.MULTILINE)


@pytest.mark.benchmarks
def test_data_parallelism_by_hand_is_measured_beside_tensorflows(tmp_path: Path) -> None:
    projects.main(["data_parallel", "--quick", f"--output={tmp_path}"])
    text = (tmp_path / "data_parallel.md").read_text("utf-8")
    for name in ("reference solution", "TensorFlow"):
        assert re.search(
            rf"^\| {name} \| \d+\.\d\d \| .* to .* \| \de-0[78] \|", text, re.MULTILINE
        )


@pytest.mark.benchmarks
def test_a_sharded_adam_by_hand_has_half_of_tensorflows_moments(tmp_path: Path) -> None:
    projects.main(["sharded_adam", "--quick", f"--output={tmp_path}"])
    text = (tmp_path / "sharded_adam.md").read_text("utf-8")
    for name, megabytes in (("reference solution", "1.39"), ("TensorFlow", "2.78")):
        assert re.search(
            rf"^\| {name} \| {megabytes} \| \d+\.\d\d \| .* to .* \| \de-0[678] \|",
            text,
            re.MULTILINE,
        )


@pytest.mark.benchmarks
def test_tensor_parallelism_by_hand_is_measured_beside_dtensor(tmp_path: Path) -> None:
    projects.main(["model_parallel", "--quick", f"--output={tmp_path}"])
    text = (tmp_path / "model_parallel.md").read_text("utf-8")
    for name in ("reference solution", "TensorFlow's DTensor"):
        assert re.search(
            rf"^\| {name} \| \d+\.\d\d \| .* to .* \| \de-1[1-6] \|", text, re.MULTILINE
        )


@pytest.mark.benchmarks
def test_a_parameter_server_by_hand_is_measured_beside_tensorflows(tmp_path: Path) -> None:
    projects.main(["parameter_server", "--quick", f"--output={tmp_path}"])
    text = (tmp_path / "parameter_server.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()[6:]]
    own, other = "reference solution, bound 2", "TensorFlow"
    assert [row[1] for row in rows] == [own, other] * 2
    assert [row[2] for row in rows] == ["none"] * 2 + ["10 ms per step"] * 2
    assert all(float(row[3]) > 0 for row in rows)
    assert all(int(row[6]) <= 2 for row in rows if row[1] == own)


def test_talkers_are_watched_as_workers_are_and_one_that_dies_is_missed() -> None:
    cost = scale.measure(workers=3, seconds=1.0)
    assert cost.events > 10
    assert cost.noticed > 0
    assert scale.report_text([cost]).splitlines()[-1].startswith("| 3 | ")
