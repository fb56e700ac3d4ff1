"""The cell that finds the course's package: which packages it accepts, and its other effects."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support import ROOT, published
from tests.support.l10n_project import (
    LESSON,
    Cell,
    cell_of,
    code_cell,
    make_project,
    move,
    notebook_text,
    run,
    text_cell,
    translate,
)
from tools.l10n import install
from tools.lessons import notebook
from tools.lessons.project import Project

PROJECT = Project.load(ROOT)
ADDRESS = "https://github.com/a/b"
CODED = [
    PROJECT.notebook(domain, lang)
    for lang in ["en", *PROJECT.languages]
    for domain in PROJECT.notebooks
    if domain != "glossary"
]
IN_IPYTHON = """
import sys
from IPython.core.interactiveshell import InteractiveShell

sys.exit(not InteractiveShell.instance().run_cell(sys.stdin.read()).success)
"""
SOLUTIONS = [path for domain in PROJECT.assignments if (path := PROJECT.solution(domain))]


def lesson() -> list[Cell]:
    return [
        text_cell("title", "# A title\n"),
        code_cell("install", "", "install"),
        code_cell("code", "print(2)", output="2\n", count=2),
    ]


def execute(code: str, folder: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Runs a cell like a kernel: without our packages, with `paths` on the path."""
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )


def as_notebook(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a cell with its `%pip`. Only `folder` may have our package."""
    paths = [str(folder), sysconfig.get_path("purelib")]
    environ = {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder), "PIP_CONSTRAINT": ""}
    return subprocess.run(
        [sys.executable, "-S", "-c", IN_IPYTHON],
        cwd=folder,
        env={**os.environ, **published.environment(f"file://{folder}/none"), **environ},
        input=code,
        capture_output=True,
        text=True,
        check=False,
    )


def record(folder: Path, version: str) -> None:
    """Makes a version of our package appear installed in a folder."""
    path = folder / f"multiworker_lessons-{version}.dist-info" / "METADATA"
    path.parent.mkdir(parents=True)
    path.write_text(f"Name: {install.DISTRIBUTION}\nVersion: {version}\n")


def test_an_empty_kernel_is_told_what_to_do_in_a_sentence(tmp_path: Path) -> None:
    done = execute(install.cell(Project(ROOT), str), tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {install.MISSING}"


@pytest.mark.parametrize("name", ["helpers.py", "helpers/__init__.py", "helpers/notes.txt"])
def test_helpers_of_somebody_else_are_not_taken_for_ours(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("raise SystemExit('executed')" * name.endswith(".py"))
    done = execute(install.cell(Project(ROOT), str), tmp_path, tmp_path)
    assert "ModuleNotFoundError: " in done.stderr


def test_a_checkout_on_the_path_is_ours_and_so_is_an_installed_package(tmp_path: Path) -> None:
    code = install.cell(Project(ROOT), str)
    assert execute(code, tmp_path, ROOT).returncode == 0
    record(tmp_path / "packages", "0.1.0")
    assert execute(code, tmp_path, tmp_path / "packages").returncode == 0
    assert execute(code, tmp_path).returncode == 1


@pytest.mark.parametrize("name", ["helpers.py", "helpers/__init__.py"])
@pytest.mark.parametrize("address", ["", ADDRESS])
def test_what_hides_our_package_is_named_by_its_path(
    name: str, address: str, tmp_path: Path
) -> None:
    folder = tmp_path / "notebooks"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("raise SystemExit('executed')")
    project = Project(ROOT, repository=address, version="1.2")
    code = install.cell(project, str).replace("%pip", "#")
    hidden = execute(code, folder, ROOT)
    assert hidden.returncode == 1
    expected = install.HIDDEN.format(path=folder / name)
    assert hidden.stderr.splitlines()[-1] == f"ImportError: {expected}"
    assert execute(code, tmp_path, ROOT, folder).returncode == 0  # ours is found first


def test_a_folder_without_code_does_not_hide_our_package(tmp_path: Path) -> None:
    (tmp_path / "helpers").mkdir()
    code = install.cell(Project(ROOT), str)
    assert execute(code, tmp_path, ROOT).returncode == 0
    record(tmp_path, "0.1.0")  # a folder without our package, although it is listed as installed
    done = execute(code, tmp_path)
    assert f"ImportError: {install.HIDDEN.format(path=tmp_path / 'helpers')}" in done.stderr


def test_with_an_address_the_release_is_installed_from_there_and_never_by_its_name() -> None:
    code = install.cell(Project(ROOT, repository=ADDRESS, version="1.2"), str)
    assert f'"{install.DISTRIBUTION}[course] @ git+{ADDRESS}@v1.2"\n' in f"{code}\n"
    assert code.count("%pip install") == 1
    assert "/tmp" not in code, "anybody may write there"
    assert len(code.splitlines()) <= 30


def test_another_release_is_not_enough_and_a_failed_installation_is_told(tmp_path: Path) -> None:
    record(tmp_path, "1.1")
    project = Project(ROOT, repository=ADDRESS, version="1.2")
    done = as_notebook(install.cell(project, str), tmp_path)
    assert done.returncode == 1
    assert "ModuleNotFoundError" in done.stdout
    assert install.FAILED in done.stdout
    [kept] = tmp_path.glob("*/kept.txt")
    assert kept.parent.stat().st_mode & 0o077 == 0
    assert {"tensorflow", "numpy"} <= {line.split("==")[0] for line in kept.read_text().split()}


def test_the_release_of_the_notebook_is_not_installed_again(tmp_path: Path) -> None:
    record(tmp_path, "1.2rc1")
    project = Project(ROOT, repository=ADDRESS, version="1.2-rc1")
    assert as_notebook(install.cell(project, str), tmp_path).returncode == 0
    assert not list(tmp_path.glob("*/kept.txt"))


@pytest.mark.parametrize("path", [*CODED, *SOLUTIONS], ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_lesson_exercise_and_solution_has_the_cell(path: Path) -> None:
    [cell] = [
        cell
        for cell in notebook.cells(notebook.read(path), "code")
        if notebook.INSTALL_TAG in notebook.tags(cell)
    ]
    assert notebook.source(cell).startswith(install.FIND)
    first = next(notebook.cells(notebook.read(path), "code"))
    assert first["id"] == cell["id"] == "install"


def test_another_address_leaves_every_output(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson())
    run(project, "update", "--lang", "ru")
    run(project, "build")
    path = project.notebook(LESSON, "ru")
    stored = notebook.read(path)
    notebook.copy_outputs(notebook.read(project.notebook(LESSON)), stored)
    path.write_text(notebook.dumps(stored), "utf-8")
    move(tmp_path, ADDRESS)
    run(project, "build")
    for lang in ("en", "ru"):
        assert f"git+{ADDRESS}@v1.2" in notebook.source(cell_of(project, lang, "install"))
        assert cell_of(project, lang, "code")["outputs"][0]["text"] == ["2\n"]


def test_a_cell_that_becomes_the_builders_leaves_every_output(tmp_path: Path) -> None:
    cells = [*lesson()[:1], code_cell("install", "%pip install x"), *lesson()[2:]]
    project = make_project(tmp_path, *cells)
    run(project, "update", "--lang", "ru")
    run(project, "build")
    path = project.notebook(LESSON, "ru")
    stored = notebook.read(path)
    notebook.copy_outputs(notebook.read(project.notebook(LESSON)), stored)
    path.write_text(notebook.dumps(stored), "utf-8")
    run(make_project(tmp_path, *lesson()), "build")
    assert cell_of(project, "ru", "code")["outputs"][0]["text"] == ["2\n"]


def test_what_it_says_is_in_the_language_of_the_notebook(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson())
    (tmp_path / "tools" / "l10n").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "l10n" / "install.py", tmp_path / "tools" / "l10n")
    run(project, "update", "--lang", "ru")
    sentence = 'Нет пакета "курса": наберите make jupyterlab.'
    translate(project, "ru", {install.MISSING: sentence}, domain="helpers")
    run(project, "build")
    code = notebook.source(cell_of(project, "ru", "install"))
    assert sentence in execute(code, tmp_path).stderr


def test_an_address_that_goes_leaves_no_trace(tmp_path: Path) -> None:
    project = make_project(tmp_path, *lesson())
    solution = tmp_path / "notebooks" / "solutions" / f"{LESSON}.ipynb"
    solution.parent.mkdir()
    solution.write_text(notebook_text(*lesson()), "utf-8")
    (tmp_path / "README.md").write_text("# Title\n\nText.\n", "utf-8")
    run(project, "update", "--lang", "ru")
    run(project, "build")
    files = [*tmp_path.rglob("*.ipynb"), tmp_path / "README.md"]
    assert len(files) == 6
    before = {path: path.read_bytes() for path in files}
    move(tmp_path, ADDRESS)
    run(project, "build")
    changed = [path for path in files if ADDRESS.encode() in path.read_bytes()]
    assert changed == files
    move(tmp_path, "")
    run(project, "build")
    assert {path: path.read_bytes() for path in files} == before


def test_the_cell_is_folded_and_printed_versions_are_not_compared(tmp_path: Path) -> None:
    cells = [
        *lesson(),
        code_cell("language", 'import keras\ninit(lang="en")', "l10n-lang", output="Python 3\n"),
        {**code_cell("code-check", "assert 1"), "metadata": {"jupyter": {"source_hidden": True}}},
    ]
    project = make_project(tmp_path, *cells)
    run(project, "update", "--lang", "ru")
    for _again in range(2):
        run(project, "build")
    for lang in ("en", "ru"):
        folded = {"cellView": "form", "jupyter": {"source_hidden": True}}
        assert cell_of(project, lang, "install")["metadata"] == {**folded, "tags": ["install"]}
        assert cell_of(project, lang, "code-check")["metadata"] == folded
        assert cell_of(project, lang, "code")["metadata"] == {}
        language = cell_of(project, lang, "language")
        assert language["metadata"] == {"tags": ["l10n-lang", "nbval-ignore-output"]}
        assert language["source"][-1] == f'init(lang="{lang}")'
