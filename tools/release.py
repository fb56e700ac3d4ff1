"""Builds the files of a release in .artefacts/release.

    python -m tools.release build                   wheels, sdist, site, offline bundle, checksums
    python -m tools.release build --only packages   some of these
    python -m tools.release check v0.1.0 --repository OWNER/NAME

`build` uses the last commit. The bundle has its files and every package, for use without internet.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.lessons.project import HOST, Project, ToolError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = Path(".artefacts") / "release"
SITE = Path(".artefacts") / "site"
DISTRIBUTION = "multiworker_lessons"
CORE = "multiworker-core"
CORE_DESCRIPTION = "Supervised TensorFlow workers: local clusters, Ray, Slurm, Kubernetes, Keras 3"
CORE_FIELDS = ("version", "license", "requires-python", "dependencies")
CORE_EXTRAS = ("tensorflow", "estimator", "keras3", "kubernetes", "ray")
CORE_DATA = ["py.typed", "locale/*/LC_MESSAGES/*.mo"]
PARTS = ("packages", "site", "offline")
HEAD = re.compile(r"^## (\S+) \((.+)\)$", re.MULTILINE)
HOOK = "import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])"


class ReleaseError(Exception):
    """A release that cannot be built. The message states the reason and the fix."""


def check(project: Project, tag: str, repository: str = "") -> None:
    """Checks that a tag may become a release.

    Args:
      repository: the repository of the release as "OWNER/NAME". If "", it is not checked.

    Raises:
      ReleaseError: the tag, the version, the changelog and the address do not agree.
    """
    if tag != project.tag:
        raise ReleaseError(
            f"The tag is {tag!r}, and the version in pyproject.toml is {project.version!r}. Tag "
            f"the commit {project.tag!r}, or change the version and run make update build."
        )
    version, date = newest_change(project.root)
    if version != project.version or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise ReleaseError(
            f'CHANGELOG.md begins with "{version} ({date})". Write "## {project.version} '
            '(YEAR-MONTH-DAY)" above the changes.'
        )
    if repository and project.repository != f"{HOST}{repository}":
        raise ReleaseError(
            f"This is released from {HOST}{repository}, and the notebooks link to "
            f'{project.repository or "no address"!r}. Write repository = "{HOST}{repository}" into '
            "[tool.lessons] of pyproject.toml, and run make build."
        )


def newest_change(root: Path) -> tuple[str, str]:
    """The version at the head of CHANGELOG.md, and the text in brackets after it.

    Raises:
      ReleaseError: CHANGELOG.md has no line with a version.
    """
    match = HEAD.search((root / "CHANGELOG.md").read_text("utf-8"))
    if match is None:
        raise ReleaseError('CHANGELOG.md has no line such as "## 0.1.0 (2026-01-31)". Add one.')
    return match[1], match[2]


def must_be_committed(root: Path) -> None:
    """Checks that the repository is equal to its last commit, from which a release is built.

    Raises:
      ReleaseError: there are untracked or changed files.
    """
    if changed := _run(root, "git", "status", "--porcelain").splitlines():
        names = ", ".join(line[3:] for line in changed[:3]) + ", ..." * (len(changed) > 3)
        raise ReleaseError(
            f"A release is built from the last commit, but these files differ: {names}. "
            "Commit them, or run: git stash -u"
        )


def build(root: Path, parts: Sequence[str] = PARTS) -> list[Path]:
    """Builds the files of a release, and returns their paths.

    Raises:
      ReleaseError: a step failed. The message contains its command.
    """
    folder = root / OUTPUT
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stem = f"{DISTRIBUTION}-{Project.load(root).version}"
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        source = Path(scratch) / stem
        _export(root, source)
        if "packages" in parts:
            _packages(root, source, folder)
            _core_wheel(root, source, folder)
        if "site" in parts:
            _site(root, folder / f"{stem}-site.tar.gz")
        if "offline" in parts:
            _bundle(root, source, folder, stem)
    files = sorted(folder.iterdir())
    sums = "".join(f"{_sha256(path)}  {path.name}\n" for path in files)
    (folder / "SHA256SUMS").write_text(sums, "utf-8")
    return [*files, folder / "SHA256SUMS"]


def _export(root: Path, source: Path) -> None:
    source.mkdir()
    archive = source.with_suffix(".tar")
    _run(root, "git", "archive", "--output", str(archive), "HEAD")
    _run(source, "tar", "--extract", "--file", str(archive))
    archive.unlink()


def _packages(root: Path, source: Path, folder: Path) -> None:
    """Builds wheel and sdist, each from a separate source. Equal commits yield equal wheels."""
    committed = _run(root, "git", "log", "-1", "--format=%ct").strip()
    for hook in ("build_sdist", "build_wheel"):
        clean = source.with_name(hook)
        shutil.copytree(source, clean)
        command = [sys.executable, "-c", HOOK.format(hook), str(folder)]
        _run(clean, *command, SOURCE_DATE_EPOCH=committed)


def _core_wheel(root: Path, source: Path, folder: Path) -> None:
    """Builds the wheel of the clusters without the course: no lessons, no datasets."""
    clean = source.with_name("core")
    left_out = shutil.ignore_patterns("course", "datasets")
    shutil.copytree(source / "helpers", clean / "helpers", ignore=left_out)
    for name in ("LICENSE", "pyproject.toml"):
        shutil.copy(source / name, clean)
    build_core_wheel(clean, folder, _run(root, "git", "log", "-1", "--format=%ct").strip())


def build_core_wheel(source: Path, folder: Path, epoch: str) -> None:
    """Builds the core's wheel into `folder`.

    Args:
      source: the folder with LICENSE, the course's pyproject.toml, which is rewritten, and the core
        of `helpers`.
      epoch: the time of the files in the wheel, in seconds since 1970.
    """
    path = source / "pyproject.toml"
    path.write_text(core_pyproject(tomllib.loads(path.read_text("utf-8"))), "utf-8")
    command = [sys.executable, "-c", HOOK.format("build_wheel"), str(folder)]
    _run(source, *command, SOURCE_DATE_EPOCH=epoch)


def core_pyproject(pyproject: Mapping[str, Any]) -> str:
    """The `pyproject.toml` of the core, derived from the file of the course.

    Both distributions contain a package `helpers`, so an environment can have only one of them.
    """
    project = pyproject["project"]
    name, extras = project["name"], project["optional-dependencies"]
    kept = {key: project[key] for key in CORE_FIELDS}
    kept |= {"name": CORE, "description": CORE_DESCRIPTION}
    lines = ["[build-system]", *_toml(pyproject["build-system"]), "", "[project]", *_toml(kept)]
    lines += ["", "[project.optional-dependencies]"]
    lines += _toml(
        {extra: [line.replace(name, CORE) for line in extras[extra]] for extra in CORE_EXTRAS}
    )
    lines += ["", "[tool.setuptools.packages.find]", 'include = ["helpers*"]']
    lines += ["", "[tool.setuptools.package-data]", f"helpers = {json.dumps(CORE_DATA)}", ""]
    return "\n".join(lines)


def _toml(table: Mapping[str, Any]) -> list[str]:
    """TOML lines for strings, lists and tables of strings, whose notation is the same in JSON."""
    return [
        f"{key} = {{ text = {json.dumps(value['text'])} }}"
        if isinstance(value, dict)
        else f"{key} = {json.dumps(value)}"
        for key, value in table.items()
    ]


def _site(root: Path, path: Path) -> None:
    _run(root, "make", "site")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(root / SITE, arcname="site")


def _bundle(root: Path, source: Path, folder: Path, stem: str) -> None:
    """Builds the course with the folder `offline`, with which `make run` needs no internet."""
    # Not into the checkout, because environment.sh would use such a folder exclusively.
    _run(root, "make", "offline", f"DEST={source / 'offline'}")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    with tarfile.open(folder / f"{stem}-offline-python{version}.tar", "w") as archive:
        archive.add(source, arcname=stem)


def _run(folder: Path, *command: str, **environ: str) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ReleaseError(
            f"The program {command[0]!r} is not installed. A release needs it: install it."
        ) from None
    if done.returncode:
        raise ReleaseError(f"This command failed (see above): {' '.join(command)}")
    return done.stdout


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build")
    building.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    checking = commands.add_parser("check")
    checking.add_argument("tag")
    checking.add_argument("--repository", default="", metavar="OWNER/NAME")
    args = parser.parse_args(argv)
    try:
        if args.command == "check":
            check(Project.load(ROOT), args.tag, args.repository)
        else:
            must_be_committed(ROOT)
            for path in build(ROOT, args.only):
                print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")
    except (ReleaseError, ToolError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
