"""Homework with nbgrader itself: release, collect, autograde, export, and hostile submissions."""

from __future__ import annotations

import csv
import socket
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from traitlets.config import Config

from tests.support import ROOT
from tools.l10n import build
from tools.lessons.project import Project
from tools.teaching import course as courses
from tools.teaching import submissions
from tools.teaching.course import Course
from tools.teaching.grading import NOT_RUN_ERROR, SandboxedExecute, sandbox_is_permitted

PROJECT = Project.load(ROOT)
NAME = "01_train_on_two_workers"
THIRD = """
def third_worker(addresses):
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 2}})
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course with the exercises in English, as created by `make assignments`."""
    found = Course(tmp_path_factory.mktemp("course"))
    found.release(PROJECT, "en")
    return found


def submit(
    folder: Path, student: str, language: str, answers: dict[str, str], solved: bool = False
) -> None:
    """A student's submission: the exercise, with other code in some cells."""
    domain = f"exercises/{NAME}"
    path = PROJECT.notebook(domain, language)
    text = build.solution(PROJECT, domain, language) if solved else path.read_text("utf-8")
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        cell["source"] = answers.pop(cell["id"], cell["source"])
    assert not answers
    (folder / student).mkdir(parents=True)
    nbformat.write(notebook, folder / student / f"{NAME}.ipynb")


def only(course: Course, submissions: Path) -> list[str]:
    """Collects, and returns the names of the students with a submission."""
    return course.collect(submissions, NAME)


@pytest.mark.grading
def test_nbgrader_releases_what_readers_have(course: Course) -> None:
    assert course.assignments == sorted(d.partition("/")[2] for d in PROJECT.assignments)
    for domain in PROJECT.assignments:
        name = domain.partition("/")[2]
        released = nbformat.read(course.folder / "release" / name / f"{name}.ipynb", as_version=4)
        ours = nbformat.read(PROJECT.notebook(domain), as_version=4)
        for one, other in zip(released.cells, ours.cells, strict=True):
            for key in ("id", "source", "metadata"):
                assert one[key] == other[key]


@pytest.mark.grading
def test_nbgrader_releases_the_rules_for_assistants(course: Course) -> None:
    rules = (ROOT / "notebooks" / "AGENTS.md").read_text("utf-8")
    assert course.assignments
    for name in course.assignments:
        assert (course.folder / "release" / name / "AGENTS.md").read_text("utf-8") == rules


def test_each_released_notebook_has_the_rules_for_assistants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Course, "nbgrader", lambda *_command, **_options: None)
    released = Course(tmp_path).release(PROJECT, "en")
    folders = [tmp_path / "source" / path.stem for path in released]
    assert len(folders) == len(PROJECT.assignments) > 12
    for folder in folders:
        assert {path.name for path in folder.iterdir()} == {f"{folder.name}.ipynb", "AGENTS.md"}


def test_the_rules_for_assistants_are_short_and_the_teachers_page_has_them() -> None:
    rules = (ROOT / "notebooks" / "AGENTS.md").read_text("utf-8")
    assert len(rules.splitlines()) < 60
    assert "## You may\n" in rules and "## You may not\n" in rules
    for place in ("notebooks/solutions", "helpers/course/exercises", "helpers/course/projects"):
        assert f"`{place}`" in rules and (ROOT / place).is_dir()
    assert "](../notebooks/AGENTS.md)" in (ROOT / "docs" / "COURSE.md").read_text("utf-8")


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("0.0.0.0", 0)) as found:
        found.settimeout(0.2)
        yield found


@pytest.mark.grading
def test_three_submissions_in_three_languages_are_marked(
    course: Course,
    tmp_path: Path,
    server: socket.socket,
    capsys: pytest.CaptureFixture[str],
) -> None:
    handed_in, outside = tmp_path / "submissions", tmp_path / "outside"
    port = server.getsockname()[1]
    reach_out = (
        "import os, socket\n"
        f"for work in (lambda: open({str(outside)!r}, 'w').write('1'),\n"
        f"             lambda: socket.create_connection(('127.0.0.1', {port}), 3),\n"
        f"             lambda: os.listdir({str(ROOT / 'notebooks/solutions')!r})[0],\n"
        f"             lambda: os.listdir({str(course.folder)!r})[0]):\n"
        "    try:\n        work()\n        shard = None\n        break\n"
        "    except (OSError, IndexError):\n        pass\n"
        "else:\n"
        "    def shard(numbers, input_context):\n"
        "        n = input_context\n"
        "        return numbers.shard(n.num_input_pipelines, n.input_pipeline_id).batch(4)\n"
    )
    submit(
        handed_in,
        "a-kills",
        "ko",
        {"third-worker": THIRD, "shard": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"},
    )
    submit(handed_in, "b-reaches-out", "ru", {"shard": reach_out})
    submit(handed_in, "c-good", "es", {}, solved=True)
    folders = [str(handed_in), "--course", str(course.folder)]
    assert courses.main(["grade", *folders]) == 0
    printed = capsys.readouterr().out
    assert f"a-kills: {NAME}: 2 of 10 points, the kernel ended in cell shard" in printed
    assert f"c-good: {NAME}: 10 of 10 points" in printed
    if sandbox_is_permitted():
        assert f"b-reaches-out: {NAME}: 2 of 10 points" in printed  # each attempt was blocked
        assert not outside.exists()
        with pytest.raises(TimeoutError):
            server.accept()
    rows = csv.DictReader((course.folder / "marks.csv").read_text("utf-8").splitlines())
    marks = {row["student_id"]: float(row["score"]) for row in rows if row["assignment"] == NAME}
    assert marks == {"a-kills": 2, "b-reaches-out": 2, "c-good": 10}


@pytest.mark.grading
def test_a_submission_that_loops_is_stopped_and_the_next_is_graded(
    course: Course, tmp_path: Path
) -> None:
    loop = "while True:\n    pass"
    stubborn = (
        "while True:\n    try:\n        while True:\n            pass\n"
        "    except BaseException:\n        pass"
    )
    submit(tmp_path, "d-stubborn", "en", {"third-worker": THIRD, "shard": stubborn})
    answers = {"third-worker": THIRD, "shard": loop, "scaled-loss": "scaled_loss = None"}
    submit(tmp_path, "e-loops", "zh", answers)
    short = Course(course.folder, seconds=45, cell_seconds=10)  # imports take 25 s at load 50
    short.configure()
    notes = {}
    for student in only(course, tmp_path):
        mark = short.grade(student, NAME)
        assert mark.score == 2
        notes[student] = mark.notes[0]
    assert notes == {
        "d-stubborn": "the kernel ended in cell shard",
        "e-loops": "cell shard took more than 10 s",
    }


@pytest.mark.grading
@pytest.mark.parametrize("sandboxed", [True, False])
def test_the_deadline_holds_with_and_without_namespaces(sandboxed: bool) -> None:
    if sandboxed and not sandbox_is_permitted():
        pytest.skip("no namespaces on this machine")
    cells = [nbformat.v4.new_code_cell(code) for code in ("1 + 1", "import time; time.sleep(99)")]
    notebook = nbformat.v4.new_notebook(cells=[*cells, nbformat.v4.new_code_cell("3")])
    config = Config({"SandboxedKernelManager": {"sandboxed": sandboxed, "seconds": 12.0}})
    done, _resources = SandboxedExecute(config=config).preprocess(notebook, {})
    first, second, third = (cell.outputs[0] for cell in done.cells)
    assert first["data"]["text/plain"] == "2"
    assert second["ename"] == third["ename"] == NOT_RUN_ERROR


def test_a_file_that_is_no_notebook_earns_nothing_and_is_named(
    course: Course, tmp_path: Path
) -> None:
    (tmp_path / "f-damaged").mkdir()
    (tmp_path / "f-damaged" / f"{NAME}.ipynb").write_text('{"cells": [', "utf-8")
    [submission], ignored = submissions.find(tmp_path, [NAME])
    mark = course.grade_submission(submission)
    assert (mark.score, mark.max_score, mark.graded, ignored) == (0, 10, False, [])
    assert f"f-damaged/{NAME}.ipynb: not graded: it is not a notebook" in mark.notes[0]
    assert "ask for a file that opens in Jupyter" in mark.notes[0]


@pytest.mark.grading
def test_graded_cells_that_were_changed_or_deleted_come_back(
    course: Course, tmp_path: Path
) -> None:
    submit(tmp_path, "g-cheats", "en", {"third-worker-check": "10.0", "mended-check": "2.0"})
    path = tmp_path / "g-cheats" / f"{NAME}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [c for c in notebook.cells if c["id"] not in ("shard-check", "scaled-loss")]
    nbformat.write(notebook, path)
    only(course, tmp_path)
    course.configure()
    assert course.grade("g-cheats", NAME).score == 0


def test_a_folder_without_submissions_is_explained(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert courses.main(["grade", str(tmp_path), "--course", str(course.folder)]) == 1
    assert "notebooks named 01_" in capsys.readouterr().err


def test_a_course_that_was_not_released_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert courses.main(["grade", str(tmp_path), "--course", str(tmp_path / "none")]) == 1
    assert "Run: make assignments" in capsys.readouterr().err


def test_a_language_without_catalogs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert courses.main(["release", "--lang", "xx", "--course", str(tmp_path)]) == 1
    assert "no language 'xx'" in capsys.readouterr().err
