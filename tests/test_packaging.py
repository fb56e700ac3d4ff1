"""The promises of the project's own files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements(lines: list[str]) -> set[str]:
    return {str(Requirement(line)) for line in lines}


def test_environment_yml_gives_the_pins_of_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    ours = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["notebooks"]
    assert requirements([line for line in pip if line != "-e ."]) == requirements(ours)
    assert environment["dependencies"][0] == "python=3.11"


def test_the_installed_packages_meet_every_range() -> None:
    for line in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["notebooks"]:
        requirement = Requirement(line)
        assert metadata.version(requirement.name) in requirement.specifier, line


def test_a_wheel_carries_the_data_set_and_nothing_of_the_tests(tmp_path: Path) -> None:
    copy = tmp_path / "source"
    ignored = shutil.ignore_patterns(".venv*", ".git", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "."],
        cwd=copy,
        check=True,
    )
    names = zipfile.ZipFile(next(copy.glob("*.whl"))).namelist()
    assert "helpers/datasets/mnist/3.0.1/mnist-train.tfrecord-00000-of-00001" in names
    assert "helpers/datasets/LICENSE.md" in names
    assert not [name for name in names if name.startswith(("tests/", "notebooks/"))]


def run_setup(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    for name in ("environment.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return subprocess.run(
        ["sh", "environment.sh"],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_set_up_without_a_suitable_python_says_so(tmp_path: Path) -> None:
    done = run_setup(tmp_path, PYTHON="/no/such/python")
    assert done.returncode == 1
    assert "TensorFlow 2.15.1 needs Python 3.10 or 3.11" in done.stderr


def test_set_up_without_room_says_so(tmp_path: Path) -> None:
    done = run_setup(tmp_path, PYTHON=sys.executable, NEEDED_MB="999999999")
    assert done.returncode == 1
    assert "Not enough room" in done.stderr


def test_set_up_without_a_network_says_so(tmp_path: Path) -> None:
    done = run_setup(
        tmp_path,
        PYTHON=sys.executable,
        PIP_INDEX_URL="http://127.0.0.1:9/simple",
        PIP_EXTRA_INDEX_URL="",
        PIP_RETRIES="0",
        PIP_CONFIG_FILE=os.devnull,
        PIP_FIND_LINKS="",
        PIP_NO_CACHE_DIR="1",
    )
    assert done.returncode == 1
    assert "no package index answers" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--language", "xx"], "no lessons in 'xx'. Choose IN="),
        (["--lesson", "99"], "no lesson '99'. Choose LESSON=01"),
    ],
)
def test_a_lesson_that_does_not_exist_is_named(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "notebooks.run", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
