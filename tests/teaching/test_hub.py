"""A class on a real JupyterHub: `make test-jupyterhub`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbgrader.utils import is_solution

from tests.support import ROOT
from tests.support import browser as b
from tests.support.hub import Hub, why_not
from tools.l10n import build
from tools.lessons.project import Project
from tools.teaching.course import Course

pytestmark = [
    pytest.mark.jupyterhub,
    pytest.mark.skipif(why_not() != "", reason=why_not() or "there is a hub"),
    *b.MARKS[1:],
]

NAME = "01_train_on_two_workers"
LESSON = f"{NAME}.ipynb"
COURSE = "ko"
STUDENTS = {"minji": "ko", "boris": "ru"}  # with the language of each
RUN = {"minji": "실행", "boris": "Запуск"}  # the label of the button in their panels
SET_SOURCE = """async ([id, source]) => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.context.ready;
    const cells = panel.content.widgets;
    cells.find(cell => cell.model.id === id).model.sharedModel.setSource(source);
}"""
OUTPUTS = """id => {
    const cells = window.jupyterapp.shell.currentWidget.content.widgets;
    const model = cells.find(cell => cell.model.id === id).model.sharedModel;
    return JSON.stringify(model.outputs);
}"""
SAVE = "window.jupyterapp.commands.execute('docmanager:save')"
SHOW_ASSIGNMENTS = "window.jupyterapp.commands.execute('nbgrader:open-assignment-list')"
# Tries every port on which a process listens on the loopback of this kernel.
REACH = """
import json, pathlib, socket

def reached(pid):
    tables = [pathlib.Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    sockets = [line.split() for table in tables for line in table.splitlines()[1:]]
    ports = {int(s[1].rpartition(":")[2], 16) for s in sockets if s[3] == "0A"}
    open_ports = []
    for port in ports:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            open_ports.append(port)
        except OSError:
            pass
    return len(ports), open_ports

print(json.dumps([reached(pid) for pid in PIDS]))
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub on which the teacher has released the first exercise in Korean."""
    with Hub(tmp_path_factory.mktemp("hub"), ["teacher", *STUDENTS], COURSE) as running:
        Course(course_folder(running)).release(Project.load(ROOT), COURSE)
        in_terminal(running, "release_assignment", NAME)
        for student, language in STUDENTS.items():
            b.shorten(ROOT / "notebooks" / language / LESSON, running.home(student) / LESSON)
        yield running


def course_folder(hub: Hub) -> Path:
    return hub.home("teacher") / "course" / COURSE


def in_terminal(hub: Hub, *command: str) -> str:
    """Returns the output of nbgrader when the teacher runs a command in the course folder."""
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *command],
        cwd=course_folder(hub),
        env=hub.environ("teacher"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def test_students_run_the_lesson_each_in_their_language(browser: Any, hub: Hub) -> None:
    for student in STUDENTS:
        with b.page(browser, []) as tab:
            hub.log_in(tab, student)
            b.open_and_run(tab, hub.lab(student), LESSON)
            run = tab.locator(".mwl-run")
            b.soon(run.is_enabled, "an enabled Run button", 120)
            run.click()
            tab.locator('.mwl-status [data-status="done"]').wait_for(timeout=180_000)
            assert run.inner_text().strip() == RUN[student]
            b.save_shot(tab, f"hub-{student}")


@pytest.mark.smoke
def test_a_student_cannot_reach_the_workers_of_another(browser: Any, hub: Hub) -> None:
    one, other = STUDENTS
    start = "from helpers.course.panel import Panel\npanel = Panel()\npanel.launch(epochs=1000)"
    b.write_notebook(hub.home(one) / "busy.ipynb", start)
    with b.page(browser, []) as tab, b.page(browser, []) as others_tab:
        hub.log_in(tab, one)
        b.open_and_run(tab, hub.lab(one), "busy.ipynb")
        b.soon(lambda: len(isolated_processes(one)) >= 2, "workers", 120)
        hub.log_in(others_tab, other)
        reach = f"PIDS = {isolated_processes(one)}\n{REACH}"
        b.write_notebook(hub.home(other) / "reach.ipynb", reach)
        b.open_and_run(others_tab, hub.lab(other), "reach.ipynb")
        printed = others_tab.locator(".jp-OutputArea-output")
        b.soon(lambda: "[[" in "".join(printed.all_inner_texts()), "an answer", 120)
        found = json.loads("".join(printed.all_inner_texts()))
        assert any(listening for listening, _reached in found)
        assert not any(reached for _listening, reached in found), found
        tab.locator(".mwl-stop").click()
        b.soon(lambda: not isolated_processes(one), "the end of the workers")


def isolated_processes(user: str) -> list[int]:
    """The processes of a user of the hub that are in a separate network."""
    own = os.readlink("/proc/self/ns/net")
    found = []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):  # a process that has ended
            isolated = os.readlink(f"/proc/{process.pid}/ns/net") != own
            if isolated and process.environ().get("JUPYTERHUB_USER") == user:
                found.append(process.pid)
    return found


def answers_of(language: str) -> dict[str, str]:
    """The solution's cells, by their ids."""
    text = build.solution(Project.load(ROOT), f"exercises/{NAME}", language)
    cells = nbformat.reads(text, as_version=4).cells
    return {cell["id"]: cell["source"] for cell in cells if is_solution(cell)}


@pytest.mark.smoke
@pytest.mark.parametrize("student", STUDENTS)
def test_a_student_fetches_does_and_submits_an_exercise(
    browser: Any, hub: Hub, student: str
) -> None:
    found = answers_of(COURSE)
    if student == "boris":
        found = {id: source for id, source in found.items() if id in ("shard", "mended")}
    with b.page(browser, []) as tab:
        hub.log_in(tab, student)
        b.open_notebook(tab, hub.lab(student), LESSON)
        tab.evaluate(SHOW_ASSIGNMENTS)
        tab.get_by_role("button", name="Fetch", exact=True).click()
        b.soon((hub.home(student) / NAME / LESSON).exists, "a fetched exercise")
        b.open_notebook(tab, hub.lab(student), f"{NAME}/{LESSON}")
        for id, source in found.items():
            tab.evaluate(SET_SOURCE, [id, source])
        b.run_all(tab)
        for id in found:

            def is_checked(cell: str = f"{id}-check") -> bool:
                return "execute_result" in tab.evaluate(OUTPUTS, cell)

            b.soon(is_checked, f"points for {id}", 180)
            assert "✗" not in tab.evaluate(OUTPUTS, f"{id}-check")
        tab.evaluate(SAVE)
        b.save_shot(tab, f"hub-exercise-{student}")
        tab.evaluate(SHOW_ASSIGNMENTS)
        tab.get_by_role("button", name="Submit", exact=True).click()
        inbound = hub.exchange / COURSE / "inbound"
        b.soon(lambda: any(inbound.glob(f"{student}+{NAME}+*")), "a submission")


@pytest.mark.smoke
def test_the_teacher_collects_and_marks(hub: Hub) -> None:
    in_terminal(hub, "collect", NAME)
    course = Course(course_folder(hub))
    course.configure()
    marks = {student: course.grade(student, NAME).score for student in STUDENTS}
    assert marks == {"minji": 10, "boris": 5}
    shutil.rmtree(course.folder / "submitted")
