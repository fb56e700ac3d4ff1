"""Attacks by submissions on the graders and on other students, and honest submissions."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbgrader.api import Gradebook
from nbgrader.preprocessors import DeduplicateIds
from traitlets.config import Config

from tests.support import ROOT, unprivileged
from tests.support.processes import command_of, wait_until
from tools.l10n import build
from tools.lessons.project import Project
from tools.teaching import course as courses
from tools.teaching import grades_table, submissions
from tools.teaching.course import NOT_ALL_GRADED, Course
from tools.teaching.grading import (
    MAX_GROWTH_BYTES,
    MAX_NOTEBOOK_CHARACTERS,
    NOT_RUN_ERROR,
    SandboxedExecute,
    SandboxedKernelManager,
    sandbox_is_permitted,
)
from tools.teaching.restore_cells import RestoreCells
from tools.teaching.sandbox import remove_folder

NAME = "01_train_on_two_workers"
DOMAIN = f"exercises/{NAME}"
needs_sandbox = pytest.mark.skipif(
    not sandbox_is_permitted(), reason="no namespaces on this machine"
)
THIRD = """
def third_worker(addresses):
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 2}})
"""


class OneExercise(Project):
    """The repository, as if it had one exercise."""

    @property
    def assignments(self) -> list[str]:
        """The assignments of that repository."""
        return [DOMAIN]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course folder with one exercise, which no test changes."""
    course = Course(tmp_path_factory.mktemp("course"))
    course.release(OneExercise.load(ROOT), "en")
    return course.folder


@pytest.fixture
def course(released: Path, tmp_path: Path) -> Course:
    """A course with one exercise."""
    subprocess.run(["cp", "-r", released, tmp_path / "course"], check=True)
    found = Course(tmp_path / "course", seconds=120.0)
    found.configure()
    return found


def exercise(answers: dict[str, str] | None = None, solved: bool = False) -> Any:
    """The notebook as a student saves it, with these answers."""
    project = Project.load(ROOT)
    text = build.solution(project, DOMAIN, "en")
    if not solved:
        text = project.notebook(DOMAIN, "en").read_text("utf-8")
    notebook = nbformat.reads(text, as_version=4)
    for cell in notebook.cells:
        cell["source"] = (answers or {}).get(cell["id"], cell["source"])
    return notebook


def hand_in(folder: Path, student: str | bytes, notebook: Any) -> Path:
    """Saves it in the folder of a student."""
    own = os.path.join(os.fsencode(folder), os.fsencode(student))
    path = Path(os.fsdecode(own), f"{NAME}.ipynb")
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def cell_of(notebook: Any, name: str) -> tuple[int, Any]:
    [found] = [(n, cell) for n, cell in enumerate(notebook.cells) if cell["id"] == name]
    return found


def copy_cell(notebook: Any, name: str, below: int = 1) -> Any:
    """Copies a cell like JupyterLab: with its metadata, and another id."""
    place, cell = cell_of(notebook, name)
    copy = nbformat.from_dict({**cell, "id": f"{name}-2"})
    notebook.cells.insert(place + below, copy)
    return copy


def graded_cells(notebook: Any, released: Path) -> list[str]:
    """The names of the graded cells, in the order in which nbgrader executes them."""
    resources = {
        "nbgrader": {
            **{"notebook": NAME, "assignment": NAME},
            "db_url": f"sqlite:///{released / 'gradebook.db'}",
        }
    }
    config = Config({"RestoreCells": {"add_missing_cells": True}})
    for step in (DeduplicateIds(), RestoreCells(config=config)):
        notebook, resources = step.preprocess(notebook, resources)
    nbformat.validate(notebook)
    names = [cell.metadata.get("nbgrader") for cell in notebook.cells]
    return [name["grade_id"] for name in names if name and name["grade"]]


ALL = [f"{name}_check" for name in ("third_worker", "shard", "scaled_loss", "mended")]


@pytest.mark.grading
def test_cells_that_were_copied_stay_and_each_task_is_graded_once(released: Path) -> None:
    notebook = exercise(solved=True)
    for name in ("shard", "shard-check", "third-worker", "title"):
        copy_cell(notebook, name)
    assert graded_cells(notebook, released) == ALL
    assert sum("def shard" in cell.source for cell in notebook.cells) == 2


def test_a_cell_that_was_split_keeps_both_halves(released: Path) -> None:
    notebook = exercise(solved=True)
    second = copy_cell(notebook, "shard")
    _place, first = cell_of(notebook, "shard")
    first["source"], second["source"] = "half = 1", "def shard(numbers, input_context): pass"
    assert graded_cells(notebook, released) == ALL
    sources = [cell.source for cell in notebook.cells]
    assert sources.index("half = 1") == sources.index(second["source"]) - 1


@pytest.mark.parametrize(
    "deleted",
    [
        ["mended", "mended-check"],
        ["shard", "shard-check", "scaled-loss", "scaled-loss-check"],
        ["third-worker", "third-worker-check"],
        [name.replace("_", "-") for name in ALL],
    ],
)
def test_a_task_that_was_deleted_comes_back_in_its_place(
    released: Path, deleted: list[str]
) -> None:
    notebook = exercise()
    notebook.cells = [cell for cell in notebook.cells if cell["id"] not in deleted]
    names = graded_cells(notebook, released)
    assert sorted(names) == sorted(ALL)
    if "third-worker" not in deleted:
        assert names == ALL


def test_a_cell_that_only_pretends_to_grade_does_not_stand_for_one_that_does(
    released: Path,
) -> None:
    notebook = exercise()
    _place, cell = cell_of(notebook, "shard-check")
    cell.metadata.nbgrader |= {"grade": False, "solution": True, "locked": False}
    copy = copy_cell(notebook, "mended")
    copy.metadata.nbgrader["grade_id"] = "of_another_course"
    assert sorted(graded_cells(notebook, released)) == sorted(ALL)


NAMES = ["Müller, Anna", "Ana [2]", "Ana ", "'q'", "*", "-x", "=1+1", "a\nb", "\udcff", "x" * 200]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_are_given_ones_that_nbgrader_can_store(name: str, tmp_path: Path) -> None:
    found = submissions.student_id(name)
    assert submissions.SAFE.fullmatch(found) and found != name
    assert found == submissions.student_id(name)
    assert submissions.student_id(found) != found  # a folder with this name is another student's
    (tmp_path / name).mkdir()
    (tmp_path / name / f"{NAME}.ipynb").write_text("{}")
    [[submission], _ignored] = submissions.find(tmp_path, [NAME])
    assert submission.student == found
    assert submission.name.isprintable()


@pytest.mark.parametrize("name", ["ana", "O.Brien", "007", "None", "Ана", "a+b", "a_b-c"])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert submissions.student_id(name) == name


def test_all_that_is_not_graded_is_named_with_what_to_do(tmp_path: Path) -> None:
    right = hand_in(tmp_path, "ana", exercise())
    for place in ("eve/eve", "bob/work/.ipynb_checkpoints"):
        hand_in(tmp_path, place, exercise())
    (tmp_path / "bob" / "notes.txt").write_text("")
    for name in (f"{NAME} (1).ipynb", f"{NAME}-Copy1.ipynb", f"{NAME}.ipynb.ipynb", "own.ipynb"):
        (tmp_path / "ana" / name).write_text("{}")
    (tmp_path / "zip.zip").write_text("")
    (tmp_path / "carl" / f"{NAME}.ipynb").mkdir(parents=True)
    (tmp_path / "dora").mkdir()
    os.mkfifo(tmp_path / "dora" / f"{NAME}.ipynb")
    (tmp_path / "link").symlink_to(tmp_path / "ana")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / f"{NAME}.ipynb").symlink_to(right)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / f"{NAME}.ipynb").symlink_to("nowhere")
    found, sentences = submissions.find(tmp_path, [NAME])
    assert [one.path for one in found] == [right]
    expected = {
        f"ana: {NAME} (1).ipynb is ignored: only the notebook {NAME}.ipynb is read.",
        f"ana: {NAME}-Copy1.ipynb is ignored: only the notebook {NAME}.ipynb is read.",
        f"ana: {NAME}.ipynb.ipynb is ignored: only the notebook {NAME}.ipynb is read.",
        "ana: own.ipynb is ignored: no notebook to submit has that name.",
        "bob: ignored: there is no notebook in the folder.",
        f"broken: {NAME}.ipynb is ignored: it is a link. Put a copy in its place.",
        f"carl: {NAME}.ipynb is ignored: it is not a file.",
        f"dora: {NAME}.ipynb is ignored: it is not a file.",
        f"eve: eve/{NAME}.ipynb is ignored: move it into the folder eve itself.",
        "link: ignored: it is a link. Put a folder in its place.",
        f"linked: {NAME}.ipynb is ignored: it is a link. Put a copy in its place.",
        "zip.zip: ignored: it is not in a student's folder.",
    }
    missing = {one for one in expected if not any(text.startswith(one) for text in sentences)}
    assert not missing and len(sentences) == len(expected), sentences


def test_the_table_of_grades_survives_every_name_and_has_no_formulas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = str(Path(sys.executable).parent)  # a new gradebook calls alembic
    monkeypatch.setenv("PATH", programs, prepend=os.pathsep)
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        book.add_assignment(NAME)
        for name in NAMES:
            book.add_student(submissions.student_id(name), last_name=submissions.printable(name))
        book.add_student("ana", first_name='quo"te\n,', email="@home")
        grades_table.write(book, tmp_path / "marks.csv")
    with (tmp_path / "marks.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["last_name"]: row for row in csv.DictReader(file)}
    assert len(rows) == len(NAMES) + 1
    assert {row["assignment"] for row in rows.values()} == {NAME}
    assert {row["score"] for row in rows.values()} == {"0.0"}
    assert {"Müller, Anna", "'=1+1", "'-x", "Ana [2]"} <= set(rows)
    assert rows[""]["first_name"] == 'quo"te\n,' and rows[""]["email"] == "'@home"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("timeout", "-5"),
        ("timeout", "nan"),
        ("memory-gb", "nan"),
        ("memory-gb", "inf"),
        ("memory-gb", "0"),
        ("cell-timeout", "0"),
        ("cell-timeout", "-1"),
    ],
)
def test_limits_that_are_none_are_refused(
    option: str, value: str, course: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    config = (course.folder / "nbgrader_config.py").read_text()
    with pytest.raises(SystemExit) as stopped:
        courses.main(["grade", ".", f"--{option}={value}", "--course", str(course.folder)])
    assert stopped.value.code == 2
    assert f"{value} is not a" in capsys.readouterr().err
    assert (course.folder / "nbgrader_config.py").read_text() == config


def test_a_second_program_in_the_same_course_is_refused(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in(tmp_path / "in", "ana", exercise())
    with course.locked():
        assert courses.main(["grade", str(tmp_path / "in"), "--course", str(course.folder)]) == 1
    assert "Another process is grading" in capsys.readouterr().err


def test_nothing_is_graded_where_an_empty_notebook_cannot_be(
    course: Course,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand_in(tmp_path / "in", "ana", exercise())
    folders = [str(tmp_path / "in"), "--course", str(course.folder)]
    monkeypatch.setattr(courses, "why_no_kernel", lambda **_options: "OSError: too many files")
    assert courses.main(["grade", *folders]) == 1
    assert "Nothing was graded" in (told := capsys.readouterr().err) and "too many files" in told
    monkeypatch.setattr(courses, "sandbox_is_permitted", lambda: False)
    assert courses.main(["grade", *folders]) == 1
    assert (
        "does not permit namespaces" in (told := capsys.readouterr().err) and "--no-sandbox" in told
    )
    with course.gradebook() as book:
        assert not book.students


@pytest.mark.parametrize("broken", ["tools.teaching.restore_cells", "get_config()"])
def test_nothing_is_executed_if_the_configuration_cannot_be_read(
    broken: str, course: Course, tmp_path: Path
) -> None:
    """nbgrader would continue without it, and without a sandbox."""
    config = course.folder / "nbgrader_config.py"
    config.write_text(config.read_text().replace(broken, f"not_{broken}"))
    code = f"open({str(tmp_path / 'executed')!r}, 'w')"
    hand_in(tmp_path / "in", "ana", exercise({"third-worker": code}))
    [submission], _ignored = submissions.find(tmp_path / "in", [NAME])
    mark = course.grade_submission(submission)
    assert not mark.graded and f"not_{broken}".partition("(")[0].split(".")[0] in mark.notes[0]
    assert not (tmp_path / "executed").exists()


def test_a_long_tmpdir_is_not_used_for_sockets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("x" * 90)))
    Path(str(tmp_path / ("x" * 90))).mkdir()
    manager = SandboxedKernelManager()
    assert len(manager.connection_file) < 60
    folder = Path(manager.connection_file).parents[1]
    assert folder.stat().st_mode & 0o077 == 0  # so no other user can read the remaining files
    manager.cleanup_connection_file()
    del manager
    assert not folder.exists()


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder in /tmp that an unprivileged user may access."""
    folder = Path(f"/tmp/grading-of-a-test-{os.getpid()}")
    folder.mkdir(mode=0o755)
    yield folder
    remove_folder(str(folder))


SPY = """
import os, shutil, subprocess
found = [os.environ.get("JUPYTERHUB_API_TOKEN", "no") + " token"]
for path in PATHS:
    try:
        found.append(os.listdir(path) and "read")
    except OSError:
        found.append("none")
print("spied:", found)
shutil.copy("/usr/bin/id", "id")
os.chmod("id", 0o4755)
os.chmod(".", 0o777)
top = os.getcwd()
for level in range(1500):
    os.mkdir("deep")
    os.chdir("deep")
os.chdir(top)
"""
FLOOD = """
from IPython.display import display
part = bytes(90_000_000)
get_ipython().kernel.iopub_thread.flush()
for place in range(3):
    get_ipython().kernel.session.send(
        get_ipython().kernel.iopub_socket, "display_data",
        {"data": {"text/plain": "x"}, "metadata": {}, "transient": {}},
        parent=get_ipython().kernel.get_parent(), buffers=[part] * 20,
    )
"""
WORDS = "from IPython.display import display\ndisplay({'text/plain': 'x' * 2_900_000}, raw=True)"


def class_of(folder: Path, course: Path) -> None:
    """Submissions of a whole class, each with at least one right answer."""
    honest = exercise({"third-worker": THIRD})
    for name in ("Müller, Anna [2]", " Ana ", b"\xffold", "=HYPERLINK(1)"):
        hand_in(folder, name, honest)
    paths = [course, ROOT / ".git", ROOT / "notebooks", folder, ROOT / "course", "/srv/exchange"]
    spy = f"PATHS = {[str(path) for path in paths]}\n{SPY}"
    hand_in(folder, "spy", exercise({"third-worker": THIRD, "shard": spy}))
    old = exercise({"third-worker": THIRD, "shard": "import os\nos.kill(os.getpid(), 9)"})
    for cell in old.cells:
        del cell["id"]
    old.nbformat_minor = 4
    hand_in(folder, "kernel-dies-4.4", old)
    hand_in(folder, "flood", exercise({"third-worker": THIRD, "shard": FLOOD}))
    words = exercise({"third-worker": THIRD})
    words.cells += [nbformat.v4.new_code_cell(WORDS) for _time in range(8)]
    hand_in(folder, "words", words)
    hand_in(folder, "nested/nested", honest)
    (folder / "folder" / f"{NAME}.ipynb").mkdir(parents=True)
    hand_in(folder, "not-json", honest).write_text("{")
    hand_in(folder, "other-json", honest).write_text('{"cells": [3]}')


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for the temporary files of one program, with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="test-", dir="/tmp") as folder:
        yield Path(folder)


@needs_sandbox
@pytest.mark.grading
@pytest.mark.parametrize("who", ["root", "user"])
def test_a_class_with_many_hostile_submissions_is_graded_to_the_end(
    who: str, released: Path, place: Path, temporary: Path
) -> None:
    if who == "root" and os.getuid() != 0:
        pytest.skip("only root can grade as root")
    place = place / who
    subprocess.run(["cp", "-r", released, place], check=True)
    class_of(place / "in", place)
    program = [sys.executable, "-m", "tools.teaching.course", "grade", str(place / "in")]
    program += ["--course", str(place), "--timeout=120"]
    env = os.environ | {"JUPYTERHUB_API_TOKEN": "secret", "PYTHONPATH": str(ROOT)}
    env |= {"PYTHONWARNINGS": "error", "TMPDIR": str(temporary)}
    if who == "user":
        unprivileged.give(temporary)
        done = unprivileged.run(program, unprivileged.give(place), env=env)
    else:
        done = subprocess.run(
            program, cwd=place, env=env, capture_output=True, text=True, check=False
        )
    print(done.stdout, done.stderr)
    assert done.returncode == NOT_ALL_GRADED
    for name in ("Müller, Anna [2]", " Ana ", "\\udcffold", "=HYPERLINK(1)", "spy", "words"):
        assert f"{name}: {NAME}: 2 of 10 points\n" in done.stdout
    assert f"kernel-dies-4.4: {NAME}: 2 of 10 points, the kernel ended in cell" in done.stdout
    assert f"flood: {NAME}: " in done.stdout
    for name in ("not-json", "other-json"):
        assert (
            f"{name}: {NAME}: 0 of 10 points, {place}/in/{name}/{NAME}.ipynb: not graded"
            in done.stdout
        )
    assert "nested: nested/" in done.stdout and "folder: " in done.stdout
    with (place / "marks.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["last_name"] or row["student_id"]: row for row in csv.DictReader(file)}
    assert rows["Müller, Anna [2]"]["score"] == rows["'=HYPERLINK(1)"]["score"] == "2.0"
    seen = (place / "autograded" / "spy" / NAME / f"{NAME}.ipynb").read_text("utf-8")
    assert "spied: ['no token', 'none', 'none', 'none', 'none', 'none', 'none']" in seen
    words = place / "autograded" / "words" / NAME / f"{NAME}.ipynb"
    assert words.stat().st_size < 2 * MAX_NOTEBOOK_CHARACTERS
    assert list(temporary.glob("grade-*")) == []


BUFFERS = """
part, session = bytes(40_000_000), get_ipython().kernel.session
session.send(
    get_ipython().kernel.iopub_socket, "display_data", {"data": {}, "metadata": {}},
    parent=get_ipython().kernel.get_parent(), buffers=[part] * 100,
)
"""


@needs_sandbox
@pytest.mark.grading
def test_a_message_without_end_ends_the_kernel_and_not_the_process_that_judges() -> None:
    """4 GB in one message, of which a part is received before the kernel is killed."""
    code = [BUFFERS, "import time; time.sleep(60)", "1 + 1"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in code])
    most: list[int] = [0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            most[0] = max(most[0], psutil.Process().memory_info().rss)

    before = psutil.Process().memory_info().rss
    threading.Thread(target=watch, daemon=True).start()
    result, _resources = SandboxedExecute(timeout=50).preprocess(notebook, {})
    done.set()
    assert most[0] - before < 2 * MAX_GROWTH_BYTES
    assert result.cells[-1].outputs[0]["ename"] == NOT_RUN_ERROR


@needs_sandbox
@pytest.mark.grading
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_submission_ends_with_the_program_that_grades_it(
    number: signal.Signals, course: Course, tmp_path: Path, temporary: Path
) -> None:
    seconds = str(4000 + number)
    code = f"import subprocess\nsubprocess.Popen(['setsid', 'sleep', '{seconds}']).wait()"
    hand_in(tmp_path / "in", "ana", exercise({"third-worker": code}))
    default = ["env", "--default-signal=INT,HUP"]  # the tests may run in the background
    program = [sys.executable, "-m", "tools.teaching.course", "grade", str(tmp_path / "in")]
    program = [*default, *program, "--course", str(course.folder)]
    process = subprocess.Popen(program, cwd=ROOT, env=os.environ | {"TMPDIR": str(temporary)})

    def sleepers() -> list[int]:
        found = psutil.process_iter()
        return [one.pid for one in found if command_of(one) == ["sleep", seconds]]

    try:
        assert wait_until(lambda: bool(sleepers()), 180)
        process.send_signal(number)
        process.wait(60)
    finally:
        process.kill()
    assert wait_until(lambda: not sleepers(), 20)
    assert wait_until(lambda: not list(temporary.glob("grade-*")), 20)


@needs_sandbox
@pytest.mark.grading
def test_a_page_to_give_back_has_nothing_of_a_submission_that_executes(
    course: Course, tmp_path: Path
) -> None:
    script = "__import__('IPython').display.HTML('<b>seen</b><script>alert(1)</script>')"
    notebook = exercise({"third-worker": script})
    _place, cell = cell_of(notebook, "title")
    cell["source"] += "\n<script>alert(2)</script>"
    hand_in(tmp_path / "in", "ana", notebook)
    [submission], _ignored = submissions.find(tmp_path / "in", [NAME])
    course.grade_submission(submission)
    course.nbgrader("generate_feedback", NAME)
    [page] = (course.folder / "feedback").glob("ana/*/*.html")
    text = page.read_text("utf-8")
    assert "<b>seen</b>" in text
    assert "<script>alert(" not in text
