"""A rehearsal of Colab: its Python and packages, and only a lesson in an empty folder.

`make test-colab` runs it. A local server replaces the course's address. It also has an index that
offers a package with our name by another author.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support import ROOT, published
from tools.lessons.project import Project
from tools.lessons.run import best_result
from tools.site.serve import serving

pytestmark = pytest.mark.colab

LESSONS = sorted(ROOT.glob("notebooks/en/[0-9][0-9]_*.ipynb"))
RUNTIME = {  # January 2026
    "tensorflow": "2.19.0",
    "numpy": "2.0.2",
    "ipywidgets": "7.7.1",
    "ipykernel": "6.17.1",
    # Colab has these too, here in versions that fit the ones above.
    "protobuf": "5.29.5",
    "tensorflow-datasets": "4.9.9",
    "tensorflow-metadata": "1.17.2",
    "matplotlib": "3.10.0",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment like Colab's, without our package."""
    if sys.version_info[:2] != (3, 12):
        pytest.skip("Colab has Python 3.12; run make test-colab")
    folder = tmp_path_factory.mktemp("colab")
    return make_environment(folder, *(f"{name}=={version}" for name, version in RUNTIME.items()))


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course with an address."""
    folder = published.copy_of_course(tmp_path_factory.mktemp("course"))
    published.give_address(folder, published.ADDRESS, "en")
    return folder


@pytest.fixture(scope="module")
def server(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server for that address, and for an index."""
    folder = tmp_path_factory.mktemp("server")
    published.publish(course, folder)
    published.offer_forgery(folder)
    with serving(folder) as address:
        yield address


@pytest.fixture(scope="module")
def kernel(python: Path, server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Jupyter folder with one kernel, "colab", whose pip and git use our server."""
    return make_kernel(tmp_path_factory.mktemp("share"), python, server)


def make_environment(folder: Path, *packages: str) -> Path:
    """Returns the interpreter of a new environment with these packages."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin/python"
    pip(python, "install", "--upgrade", "pip")
    pip(python, "install", *packages)
    return python


def make_kernel(share: Path, python: Path, server: str) -> Path:
    """Writes the kernel "colab" of an interpreter into a Jupyter folder."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    spec = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Colab",
        "language": "python",
        "env": {**published.environment(server), "PATH": path},
    }
    (share / "kernels/colab").mkdir(parents=True)
    (share / "kernels/colab/kernel.json").write_text(json.dumps(spec))
    return share


def pip(python: Path, *arguments: object, **environ: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    environ = {**os.environ, "PIP_CONSTRAINT": "", **environ}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def versions(python: Path) -> dict[str, str]:
    packages = json.loads(pip(python, "list", "--format=json"))
    return {package["name"].lower(): package["version"] for package in packages}


def execute(path: Path, folder: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the lesson as the only file of `folder`."""
    monkeypatch.setenv("JUPYTER_PATH", str(kernel))
    for name in ("TF_USE_LEGACY_KERAS", "PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    notebook = nbformat.read(shutil.copy(path, folder), as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="colab",
        timeout=600,
        record_timing=True,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def seconds(cell: Any) -> float:
    """The running time of a cell."""
    times = cell["metadata"]["execution"]
    start, end = (times[f"iopub.status.{state}"] for state in ("busy", "idle"))
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def assert_is_ours(python: Path, course: Path) -> None:
    """The package is from the address, at the tag of the release, and not the forgery."""
    code = (
        "from importlib.metadata import distribution as find; "
        "found = find('multiworker-lessons'); "
        "print(found.version, found.read_text('direct_url.json'))"
    )
    told = subprocess.check_output([python, "-I", "-c", code], text=True)
    version, _space, origin = told.partition(" ")
    project = Project.load(course)
    assert version == project.version
    assert json.loads(origin)["url"] == published.ADDRESS
    assert json.loads(origin)["vcs_info"]["requested_revision"] == project.tag


def test_the_forgery_is_what_the_name_alone_would_give(
    python: Path, server: str, tmp_path: Path
) -> None:
    command = ["download", "--no-deps", "--dest", tmp_path, "multiworker-lessons"]
    pip(python, *command, **published.environment(server))
    assert [path.name for path in tmp_path.iterdir()] == [
        f"multiworker_lessons-{published.FORGED}-py3-none-any.whl"
    ]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem[:2], marks=[pytest.mark.smoke] * (path == LESSONS[0]))
        for path in LESSONS
    ],
)
def test_a_lesson_alone_installs_what_it_needs_and_runs(
    path: Path,
    *,
    tmp_path: Path,
    python: Path,
    kernel: Path,
    course: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = versions(python)
    fresh = "multiworker-lessons" not in before
    assert {name: before[name] for name in RUNTIME} == RUNTIME

    own = course / path.relative_to(ROOT)
    notebook = execute(own, tmp_path, kernel, monkeypatch)  # a cell that fails raises

    after = versions(python)
    assert_is_ours(python, course)
    assert {name: after[name] for name in before} == before, "a package was replaced"
    install = next(cell for cell in notebook.cells if cell["id"] == "install")
    print(f"{path.name}: install cell {seconds(install):.1f} s, installed before: {not fresh}")
    if not fresh:
        assert not install["outputs"]


def test_a_kernel_with_nothing_at_all_gets_the_release_and_trains(
    tmp_path: Path, server: str, course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = make_environment(tmp_path / "clean", "ipykernel")
    kernel = make_kernel(tmp_path / "share", python, server)
    (tmp_path / "alone").mkdir()
    lesson = course / LESSONS[0].relative_to(ROOT)
    notebook = execute(lesson, tmp_path / "alone", kernel, monkeypatch)
    assert_is_ours(python, course)
    assert best_result(notebook)["accuracy"] >= 0.97


def test_where_widgets_do_not_appear_the_panel_leaves_a_picture(
    tmp_path: Path, python: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub, and a page without Colab's widget manager, show only the stored outputs."""
    cells = [
        "from helpers.course.panel import Panel",
        "Panel().run(workers=2, collective='RING', epochs=1, batch_size=256)",
    ]
    path = tmp_path / "panel.ipynb"
    nbformat.write(
        nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells))), path
    )
    (tmp_path / "empty").mkdir()
    notebook = execute(path, tmp_path / "empty", kernel, monkeypatch)
    shown = [o["data"] for o in notebook.cells[1]["outputs"] if o["output_type"] == "display_data"]
    pictures = [data["text/html"] for data in shown if "Panel(2 workers" in data["text/plain"]]
    assert ["<img" in picture and "117" in picture for picture in pictures] == [True]
