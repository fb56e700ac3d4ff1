"""The course as if it were published: at an address, in a git repository on a server.

Git's own setting redirects requests for the address to that server.
"""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.support import ROOT
from tests.support.l10n_project import move
from tools import checkout
from tools.l10n.__main__ import main
from tools.l10n.install import DISTRIBUTION
from tools.lessons.project import HOST, Project

NAME = "example-owner/example-course"
ADDRESS = HOST + NAME
FORGED = "99.0"  # newer than all our versions
FORGED_CODE = "raise RuntimeError('the package of somebody else')\n"


def copy_of_course(folder: Path) -> Path:
    """Copies the repository's files as git would include them, also uncommitted ones."""
    return checkout.copy_tracked_files(ROOT, folder)


def give_address(course: Path, address: str, *langs: str) -> None:
    """Changes the one setting, and builds the notebooks and pages of these languages."""
    move(course, address)
    assert main(["build", "--root", str(course), *(["--lang", *langs] if langs else [])]) == 0


def commit(course: Path) -> None:
    """Creates a repository in a folder, with one commit."""
    identity = ["-c", "user.name=Course", "-c", "user.email=course@example.org"]
    for command in (
        ["git", "init", "-q", "-b", "main"],
        ["git", "add", "--all"],
        ["git", *identity, "commit", "-q", "-m", "The course"],
    ):
        subprocess.run(command, cwd=course, check=True)


def publish(course: Path, folder: Path) -> None:
    """Creates a repository of the course in a folder for a server, with the tag of its release."""
    commit(course)
    bare = folder / f"{NAME}.git"
    for command in (
        ["git", "tag", Project.load(course).tag],
        ["git", "clone", "-q", "--bare", ".", str(bare)],
        ["git", "-C", str(bare), "update-server-info"],
    ):
        subprocess.run(command, cwd=course, check=True)
    # git requests the address exactly as written.
    bare.with_suffix("").symlink_to(bare, target_is_directory=True)


def offer_forgery(folder: Path) -> None:
    """Creates a package index in a server's folder, with a forged package that has our name."""
    stem = DISTRIBUTION.replace("-", "_")
    page = folder / "simple" / DISTRIBUTION
    page.mkdir(parents=True)
    wheel = page / f"{stem}-{FORGED}-py3-none-any.whl"
    record = f"{stem}-{FORGED}.dist-info"
    files = {
        "helpers/__init__.py": FORGED_CODE,
        f"{record}/METADATA": f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {FORGED}\n",
        f"{record}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{record}/RECORD", "".join(f"{name},,\n" for name in files))
    (page / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')


def environment(server: str) -> Mapping[str, str]:
    """The variables with which pip and git find the content of an address, and the forgery."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{server}/.insteadOf",
        "GIT_CONFIG_VALUE_0": HOST,
        "PIP_EXTRA_INDEX_URL": f"{server}/simple/",
        "PIP_CONSTRAINT": "",
        "PIP_FIND_LINKS": "",
    }
