"""A release: its parts, its permissions, problems with the newest packages, and a trial run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from helpers.system.netns import netns_supported
from tests.support import ROOT, published
from tests.support.processes import is_running, wait_until
from tools import checkout, release, test_latest_deps
from tools.lessons.project import Project, ToolError
from tools.release import ReleaseError

PROJECT = Project.load(ROOT)
ALONE = [
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    'ip link set lo up; exec "$@"',
]


def test_the_changelog_begins_with_the_version() -> None:
    version, _date = release.newest_change(ROOT)
    assert version == PROJECT.version


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.2.0 (2026-12-01)\n\n- More.\n")
    return Project(tmp_path, repository="https://github.com/a/b", version="0.2.0")


def test_a_tag_that_agrees_with_all_becomes_a_release(project: Project) -> None:
    release.check(project, "v0.2.0", "a/b")
    release.check(project, "v0.2.0")


@pytest.mark.parametrize(
    ("tag", "repository", "head", "message"),
    [
        ("v0.2.1", "a/b", "0.2.0 (2026-12-01)", "The tag is 'v0.2.1'"),
        ("v0.2.0", "a/c", "0.2.0 (2026-12-01)", "the notebooks link to 'https://github.com/a/b'"),
        ("v0.2.0", "a/b", "0.2.0 (not yet released)", "YEAR-MONTH-DAY"),
        ("v0.2.0", "a/b", "0.1.0 (2026-11-01)", 'begins with "0.1.0'),
        ("v0.2.0", "a/b", "0.2.0", "has no line such as"),
    ],
)
def test_a_tag_that_does_not_agree_is_refused(
    tag: str, repository: str, head: str, message: str, project: Project
) -> None:
    (project.root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {head}\n")
    with pytest.raises(ReleaseError, match=message.replace("(", r"\(")):
        release.check(project, tag, repository)


PYTHON = ".".join(map(str, sys.version_info[:2]))
STEM = f"{release.DISTRIBUTION}-{PROJECT.version}"
SMALL = f"""
site:
	mkdir -p .artefacts/site && echo page > .artefacts/site/index.html
offline:
	mkdir -p $(or $(DEST),offline)/{PYTHON} && echo wheel > $(or $(DEST),offline)/{PYTHON}/a.whl
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A release of the current repository, except for a small site and few packages."""
    folder = published.copy_of_course(tmp_path_factory.mktemp("course"))
    published.commit(folder)
    (folder / "Makefile").write_text(SMALL)  # not committed, so the release does not have it
    files = release.build(folder)
    assert not (folder / "offline").exists(), "environment.sh would ask nothing else for packages"
    return {path.name: path for path in files}


@pytest.mark.release
def test_a_release_has_all_its_parts_and_their_checksums(built: dict[str, Path]) -> None:
    files = [path for name, path in built.items() if name != "SHA256SUMS"]
    assert [path.name.removeprefix(STEM) for path in files] == [
        f"multiworker_core-{PROJECT.version}-py3-none-any.whl",
        f"-offline-python{PYTHON}.tar",
        "-py3-none-any.whl",
        "-site.tar.gz",
        ".tar.gz",
    ]
    sums = built["SHA256SUMS"]
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    assert [line.split() for line in sums.read_text().splitlines()] == [
        [digest, path.name] for digest, path in zip(digests, files, strict=True)
    ]


def test_the_bundle_is_the_commit_with_the_packages_in_its_folder(built: dict[str, Path]) -> None:
    with tarfile.open(built[f"{STEM}-offline-python{PYTHON}.tar"]) as archive:
        names = set(archive.getnames())
        makefile = archive.extractfile(f"{STEM}/Makefile")
        assert makefile and makefile.read() == (ROOT / "Makefile").read_bytes()
    assert {f"{STEM}/environment.sh", f"{STEM}/offline/{PYTHON}/a.whl"} <= names
    with tarfile.open(built[f"{STEM}-site.tar.gz"]) as archive:
        assert archive.getnames() == ["site", "site/index.html"]


def test_the_folder_of_packages_is_where_it_is_asked_for() -> None:
    def commands(*settings: str) -> str:
        command = ["make", "-n", "offline", *settings]
        return subprocess.check_output(command, cwd=ROOT, text=True)

    assert '--dest "offline/$version"' in commands()
    assert '--dest "/some where/offline/$version"' in commands("DEST=/some where/offline")


def test_what_is_not_committed_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Makefile").write_text("site:\n")
    published.commit(tmp_path)
    release.must_be_committed(tmp_path)
    (tmp_path / "thesis.txt").touch()
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.main(["build"]) == 1
    assert "the last commit, but these files differ: thesis.txt" in capsys.readouterr().err


def test_a_program_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match="The program 'git' is not installed"):
        release.must_be_committed(tmp_path)
    with pytest.raises(ToolError, match="The program git is not installed"):
        checkout.copy_tracked_files(ROOT, tmp_path)


def test_a_folder_that_git_does_not_know_is_not_tried_with_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(test_latest_deps, "ROOT", tmp_path)
    monkeypatch.setattr(test_latest_deps, "FOLDER", tmp_path / "newest")
    assert test_latest_deps.main(["--lessons", "none", "--suites", "none"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"git cannot list the files of {tmp_path}: ")
    assert "cannot be installed together" not in told


def test_what_takes_too_long_ends_with_all_that_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_latest_deps, "SECONDS", 1.0)
    monkeypatch.setattr(test_latest_deps, "FOLDER", tmp_path)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 60 &\necho $! > started\nwait\n")
    python.chmod(0o755)
    [outcome] = test_latest_deps.try_lessons(python, ["01"])
    assert outcome.reason == "did not end within 1 s"
    assert wait_until(lambda: not is_running(int((tmp_path / "started").read_text())), 10)


TRAINING = """
import socket

import helpers
from helpers import LocalCluster, input_fn, model_fn

try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as error:
    print(type(error).__name__, error.errno)
with LocalCluster(workers=2, collective="RING") as cluster:
    result = cluster.train(model_fn, input_fn, steps=6, evaluate=None, progress=False)
print(helpers.__file__, result.workers, result.steps)
"""


@pytest.mark.release
@pytest.mark.skipif(not netns_supported(), reason="namespaces are forbidden here")
def test_the_wheel_trains_on_two_workers_without_a_network(
    built: dict[str, Path], tmp_path: Path
) -> None:
    """In a separate environment with access to our packages, but not to `helpers`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "new"], check=True)
    [packages] = (tmp_path / "new" / "lib").glob("python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib"))  # without its .pth files
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
    subprocess.run([*install, str(packages), str(built[f"{STEM}-py3-none-any.whl"])], check=True)
    python = str(tmp_path / "new" / "bin" / "python")
    done = subprocess.run(
        [*ALONE, "sh", python, "-c", TRAINING],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    refused, told = done.stdout.splitlines()
    assert refused.startswith("OSError 101")  # the network is unreachable
    assert told.split() == [str(packages / "helpers" / "__init__.py"), "2", "6"]


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("keras>=3,<4", "keras>=3"),
        ("tensorflow-metadata<1.18", "tensorflow-metadata"),
        ("ray[train]==2.60.0", "ray[train]>=2.60.0"),
        ("tomli~=2.1; python_version < '3.11'", 'tomli>=2.1; python_version < "3.11"'),
        ("tensorflow-estimator==2.15.0", "tensorflow-estimator==2.15.0"),
        ("psutil", "psutil"),
    ],
)
def test_what_keeps_newer_versions_out_is_lifted(line: str, without: str) -> None:
    assert test_latest_deps.without_upper_bound(line) == without


def test_no_requirement_of_ours_keeps_its_upper_bound() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '"tensorflow>=2.15.1"' in test_latest_deps.unpin(text)
    changed = [
        line for line in test_latest_deps.unpin(text).splitlines() if line not in text.splitlines()
    ]
    assert len(changed) >= 20
    kept = [
        str(requirement)
        for requirement in map(
            Requirement, test_latest_deps.requirements(test_latest_deps.unpin(text))
        )
        if any(part.operator in test_latest_deps.UPPER for part in requirement.specifier)
    ]
    assert kept == ["tensorflow-estimator==2.15.0"]


def test_the_table_of_versions_says_what_broke() -> None:
    outcomes = [
        test_latest_deps.TrialResult("lesson 01", ""),
        test_latest_deps.TrialResult("ray", "broke: a | b"),
    ]
    table = test_latest_deps.table({"tensorflow": "2.21.0"}, {"tensorflow": "2.22.0"}, outcomes)
    assert "| tensorflow | 2.21.0 | 2.22.0 |\n" in table
    assert "| lesson 01 | runs |\n| ray | broke: a / b |\n" in table
    assert {"tensorflow", "keras", "ray", "jupyterlab"} <= set(test_latest_deps.compile_lock())
