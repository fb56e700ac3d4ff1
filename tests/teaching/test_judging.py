"""Grades are computed outside the submission's process, from observations of its answers."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbgrader.preprocessors import ClearSolutions
from nbgrader.utils import determine_grade, is_grade, is_solution
from traitlets.config import Config

from helpers import i18n
from helpers.course.check import TASK_MODULES, find_task
from helpers.course.criteria import CheckFailed
from helpers.course.exercises import sandbox_protocol
from helpers.course.exercises.sandbox_protocol import from_json, to_json
from helpers.errors import ConfigError
from helpers.protocol import results
from helpers.tf_config import build_tf_configs
from tests.exercises.forgeries import SHAPELESS, marked
from tests.support import ROOT
from tools.l10n import build as builder
from tools.lessons.project import Project
from tools.teaching import judging
from tools.teaching.grading import (
    MAX_CHARACTERS,
    SandboxedExecute,
    limits_are_permitted,
)

PROJECT = Project.load(ROOT)
EMPTY_CASE = base64.b64encode(pickle.dumps({})).decode()

# Each makes an answer right inside the process in which the submission runs.
PATCHES = {
    "check": "import helpers.course.check\nhelpers.course.check.check = lambda *a, **k: 99.0",
    "what check finds wrong": (
        "import helpers.course.criteria as parts\n"
        "parts.expect = lambda *a, **k: None\n"
        "import helpers.course.exercises.train_on_two_workers as lesson\n"
        "lesson.expect = parts.expect\n"
        "for task in lesson.EXERCISES.values():\n"
        "    for part in task.parts:\n"
        "        object.__setattr__(part, 'judge', lambda *a: None)"
    ),
    "the comparisons": (
        "import builtins, math, numpy as np\n"
        "np.allclose = math.isclose = lambda *a, **k: True\n"
        "builtins.all = builtins.any = lambda *a: True"
    ),
    "the words of a mark": (
        "import nbgrader.utils\nnbgrader.utils.determine_grade = lambda *a: (9.0, 9.0)"
    ),
    "the observation": (
        "from helpers.course.exercises import sandbox_protocol\n"
        "sandbox_protocol.run_and_encode = lambda *a: '3.0'\n"
        "sandbox_protocol.parse_result = lambda *a: None"
    ),
    "cells that show nothing": "get_ipython().ast_node_interactivity = 'none'",
    "a mark that is shown already": (
        "from IPython.display import display, update_display\n"
        "def scaled_loss(*a):\n"
        "    for place in range(3):\n"
        "        display({'text/plain': '0'}, raw=True, display_id=f'mark {place}')\n"
        "import atexit, IPython\n"
        "def forge(*a):\n"
        "    for place in range(3):\n"
        "        update_display({'text/plain': '3.0'}, raw=True, display_id=f'mark {place}')\n"
        "get_ipython().events.register('pre_run_cell', forge)"
    ),
    "the value of the cell": (
        "from IPython import get_ipython\n"
        "get_ipython().display_formatter.format = lambda *a, **k: ({'text/plain': '3.0'}, {})"
    ),
}


def exercise(name: str, answers: dict[str, str], language: str = "en") -> Any:
    """A submitted exercise, with graded cells in their places and these answers in it."""
    text = builder.solution(PROJECT, f"exercises/{name}", language)
    found, _resources = ClearSolutions().preprocess(nbformat.reads(text, as_version=4), {})
    for cell in found.cells:
        if is_solution(cell):
            cell["source"] = answers.get(cell.metadata.nbgrader.grade_id, cell["source"])
    return found


def marks(notebook: Any, **limits: Any) -> dict[str, float]:
    """The points of each graded cell, after a run in the sandbox."""
    config = Config({"SandboxedKernelManager": {"seconds": 120.0, **limits}})
    done, _resources = SandboxedExecute(config=config, timeout=60).preprocess(notebook, {})
    graded = [cell for cell in done.cells if is_grade(cell)]
    return {cell.metadata.nbgrader.grade_id: determine_grade(cell)[0] for cell in graded}


@pytest.mark.grading
@pytest.mark.parametrize("patch", PATCHES)
def test_whatever_a_submission_patches_earns_nothing(patch: str) -> None:
    wrong = "def third_worker(addresses):\n    return 'no TF_CONFIG'\n"
    answers = {
        "third_worker": wrong + PATCHES[patch],
        "shard": "shard = 1",
        "mended": "mended = {}",
    }
    earned = marks(exercise("01_train_on_two_workers", answers))
    assert set(earned.values()) == {0}, earned


@pytest.mark.parametrize("task", TASK_MODULES)
def test_an_observation_of_nothing_earns_nothing(task: str) -> None:
    assert {repr(seen): marked(task, seen) for seen in SHAPELESS} == {
        repr(seen): 0 for seen in SHAPELESS
    }


IMAGES = {"values": [(image + 1) / 10 for image in range(32)], "decode": 32, "scale": 99}
ANSWERS = [{"class": np.ones(size, int), "score": np.ones(size)} for size in (1, 5)]
# Right values that a submission contains, and the points for those it can know.
BROUGHT: list[tuple[str, Any, float]] = [
    ("run_steps", {"found": 1.0, "mean": 1.0, "error": None, "done": 30, "read": 7, "most": 2}, 0),
    ("max_steps", {"steps": [60, 20, 6000, 1500], "epochs": 2}, 2),
    ("max_steps", {"steps": [60, 20, 6000, 1500], "real": 10**9}, 2),
    (
        "speed_up",
        {"case 0": 3.333, "case 1": 0.1639, "case 2": 1.0, "predicted": 1.0, "measured": 1.0},
        0,
    ),
    ("speed_up", {"paper": [3.333, 0.1639, 1.0], "predicted": 1.0, "measured": 1.0}, 2),
    ("fast", {"passes": [IMAGES, {**IMAGES, "decode": 0}], "batches": 99}, 0),
    ("fast", [IMAGES, {**IMAGES, "decode": 0}], 2),
    ("shares", {"found": [0.125] * 3, "real": [0.125] * 8}, 0),
    (
        "served",
        {
            "names": ["serving_default"],
            "inputs": {"pixels": "uint8 (None, 4)"},
            "outputs": {"class": "int64 (None,)", "score": "float32 (None,)"},
            "found": ANSWERS,
            "right": ANSWERS,
        },
        1,
    ),
    ("restored", {"predictions": np.ones([0, 5, 3]), "step": 1200}, 0),
    ("ported", [{"replicas": 2, "weights": np.ones([4, 0, 4])}] * 2, 1),
]


@pytest.mark.parametrize(("task", "seen", "most"), BROUGHT)
def test_what_is_right_is_not_taken_from_a_submission(task: str, seen: Any, most: float) -> None:
    assert marked(task, seen) <= most


RIGHT_LAST = {
    "staleness": "logs",
    "to_keep": "series",
    "evaluated": "trainings",
    "cheapest": "situations",
    "max_steps": "trainings",
    "speed_up": "predict",
    "starving": "groups",
}


@pytest.mark.parametrize(("task", "key"), RIGHT_LAST.items())
def test_a_submission_is_not_told_the_right_values_of_a_case(task: str, key: str) -> None:
    found = find_task(task)
    other = {**found.case, key: [(*entry[:-1], "else") for entry in found.case[key]]}
    assert found.visible_case(other) == found.visible_case(found.case)
    assert len(found.visible_case(other)[key]) == len(found.case[key])


WITH_ANSWERS = [
    ("own_part", "parts"),
    ("slurm_config", "addresses"),
    ("strategy_for", "wanted"),
]


@pytest.mark.parametrize(("task", "name"), WITH_ANSWERS)
def test_a_submission_is_told_what_it_is_asked_and_not_the_answer(task: str, name: str) -> None:
    found = find_task(task)
    assert f"'{name}'" in repr(found.case)
    assert f"'{name}'" not in repr(found.visible_case(found.case))


def test_a_submission_is_not_told_when_a_group_is_done() -> None:
    found = find_task("start_again")
    lengths = [
        len(group["codes"])
        for groups in found.visible_case(found.case)["groups"].values()
        for group in groups
    ]
    assert len(lengths) == 6
    assert len(set(lengths)) == 1


def test_the_checks_of_every_exercise_can_be_marked_elsewhere() -> None:
    for domain in PROJECT.exercises:
        text = builder.solution(PROJECT, domain, "en")
        for cell in nbformat.reads(text, as_version=4).cells:
            if is_grade(cell):
                calls = judging.check_calls(cell)
                assert {f"{name}_check" for name, _case in calls} == {
                    cell.metadata.nbgrader.grade_id
                }
                assert len(calls) == cell["source"].count("check(")


def test_a_graded_cell_of_somebody_else_is_not_executed_here(tmp_path: Path) -> None:
    cell = nbformat.v4.new_code_cell(f"open({str(tmp_path / 'x')!r}, 'w')\ncheck('shard')")
    cell.metadata["nbgrader"] = {
        **{"grade": True, "solution": False, "locked": True, "schema_version": 3},
        **{"grade_id": "shard_check", "points": 3, "task": False},
    }
    assert judging.check_calls(cell) == [("shard", {})]
    empty = nbformat.v4.new_output("execute_result", {"text/plain": "'no pickle'"})

    def execute(question: Any) -> Any:
        question.outputs = [empty]
        return question

    _printed, value = judging.grade_cell(judging.check_calls(cell), execute)
    assert value["data"]["text/plain"] == "0.0"
    assert not (tmp_path / "x").exists()
    cell["source"] = "check('shard', examples=open('/etc/passwd'))"
    assert judging.check_calls(cell) == []


class Trap:
    """A result of a worker that would touch a file in the process that reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self._path,)


def test_the_process_that_judges_unpickles_nothing(tmp_path: Path) -> None:
    touched, attempt = tmp_path / "touched", tmp_path / "attempt-0"
    attempt.mkdir()

    def read() -> Any:
        fields = results.fields(Trap(touched), attempt, "worker 0")
        return results.read({"task": "worker 0", "attempt": 0, **fields}, tmp_path)

    def execute(question: Any) -> Any:
        with pytest.raises(ConfigError, match="does not unpickle results"):
            read()
        observed = sent(seen={"dict": [["pickled", to_json(Trap(touched))]]})
        question["outputs"] = [
            nbformat.v4.new_output("execute_result", {"text/plain": observed}, execution_count=1)
        ]
        return question

    judging.grade_cell([("third_worker", {})], execute)
    assert not touched.exists()
    assert not list(attempt.iterdir())
    read()
    assert touched.exists(), "the trap works in a process that trusts its workers"


def sent(**found: Any) -> str:
    text = json.dumps({"seen": None, "wrong": None, "language": "en"} | found)
    return repr(base64.b64encode(text.encode()).decode())


def test_what_observations_are_made_of_comes_through() -> None:
    config = build_tf_configs(["a:1", "b:1"])[0]
    arrays = [np.arange(6.0).reshape(2, 3), np.float32(2), np.array(["a", "bc"])]
    seen: dict[Any, Any] = {"config": config, 3: config.task, (1, None): {2.5, ("x", True)}}
    seen |= {"bytes": b"12", "range": range(2, 9, 3), "odd": object}
    read = from_json(json.loads(json.dumps(to_json(seen | {"arrays": arrays}))))
    assert repr(read.pop("odd")) == repr(seen.pop("odd"))
    for one, other in zip(read.pop("arrays"), arrays, strict=True):
        assert np.array_equal(one, other) and one.dtype == other.dtype
    assert read == seen


@pytest.mark.parametrize(
    "text",
    [
        *("", "''", "not base64", "'AAAA'", repr("A" * (sandbox_protocol.MAX_CHARACTERS + 4))),
        *(sent(wrong=3), sent(wrong=["one"]), sent(seen={"no tag": 1})),
        *(sent(seen={"array": ["O", [1], "AAAAAAAAAAA="]}), sent(seen={"range": [0, 10**12, 1]})),
        *(sent(seen={"array": ["<f8", [10**9], "AAAAAAAAAAA="]}), sent(seen={"TFConfig": "{"})),
        repr(base64.b64encode(b'{"seen":' + b"[" * 10**5 + b"]" * 10**5 + b"}").decode()),
    ],
)
def test_what_is_no_observation_is_read_as_a_wrong_answer(text: str) -> None:
    with pytest.raises(CheckFailed):
        sandbox_protocol.parse_result(text)


def test_a_mark_speaks_the_language_of_the_submission_and_leaves_the_process_its_own() -> None:
    wrong = sent(wrong=["1", "2", "…"], language="es")

    def execute(question: Any) -> Any:
        value = {"text/plain": wrong}
        question.outputs = [nbformat.v4.new_output("execute_result", value)]
        return question

    printed, _value = judging.grade_cell([("shard", {})], execute)
    assert "puntos" in printed["text"]
    assert i18n.language() == "en"


def test_an_answer_that_contains_itself_is_wrong() -> None:
    def endless(name: str, case: Any) -> Any:
        found: list[Any] = []
        found.append(found)
        return found

    with pytest.raises(CheckFailed):
        sandbox_protocol.parse_result(
            repr(sandbox_protocol.run_and_encode(endless, "shard", EMPTY_CASE))
        )


@pytest.mark.grading
@pytest.mark.skipif(not limits_are_permitted(), reason="no control groups on this machine")
def test_floods_of_memory_processes_and_words_end_with_their_kernel() -> None:
    """The previous cells keep their points."""
    third = (
        "def third_worker(addresses):\n"
        "    task = {'type': 'worker', 'index': 2}\n"
        "    return json.dumps({'cluster': {'worker': addresses}, 'task': task})\n"
    )
    talk = "print('x' * 1000)\n" * 3 + "for _ in range(3000):\n    print('y' * 1000)\n"
    # Its children sleep, because five hundred busy ones would starve the tests that run in
    # parallel.
    bomb = (
        "import os, time\n"
        "while True:\n"
        "    try:\n"
        "        os.fork() or time.sleep(999)\n"
        "    except OSError:\n"
        "        time.sleep(0.1)\n"
    )
    greedy = "held = [bytearray(b'x') * 10**9 for gigabyte in range(10)]"
    for flood in (bomb, greedy):
        answers = {"third_worker": f"{third}{talk}", "shard": flood}
        notebook = exercise("01_train_on_two_workers", answers)
        earned = marks(notebook, memory=3 * 10**9, processes=500, seconds=25.0)
        assert earned["third_worker_check"] == 2 and sum(earned.values()) == 2, earned
        [cell] = [cell for cell in notebook.cells if cell["id"] == "third-worker"]
        assert sum(len(output["text"]) for output in cell.outputs) <= MAX_CHARACTERS
