"""Programs as an unprivileged user, with access to Python and the repository granted by root."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import ROOT

USER = 54321
IS_ROOT = os.geteuid() == 0


def command(argv: Sequence[str], places: Path) -> list[str]:
    """A command that runs `argv` as that user, in a mount namespace with the required folders.

    Args:
      places: an empty folder.
    """
    needed = [str(ROOT), sys.base_prefix]
    closed = {folder for path in needed if (folder := _first_closed(Path(path)))}
    lines = ["set -e"]
    for number, path in enumerate(needed):
        lines += [
            f"mkdir {places}/{number}",
            f"mount --rbind {shlex.quote(path)} {places}/{number}",
        ]
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {folder}" for folder in closed]
    for number, path in enumerate(needed):
        if any(folder in Path(path).parents for folder in closed):
            lines += [f"mkdir -p {shlex.quote(path)}"]
            lines += [f"mount --rbind {places}/{number} {shlex.quote(path)}"]
    person = [f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    lines.append(shlex.join(["exec", "setpriv", *person, "--", *argv]))
    return ["unshare", "--mount", "sh", "-c", "\n".join(lines)]


def give(folder: Path) -> Path:
    """Transfers a folder and its content to the user, and makes it reachable."""
    if not IS_ROOT:
        return folder
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, USER, USER, follow_symlinks=False)
    for parent in folder.parents:
        if parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o001)
    return folder


def run(argv: Sequence[str], folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program in a folder of the user, as the current user if that one is unprivileged."""
    options = {"capture_output": True, "text": True, "timeout": 1800} | options
    if not IS_ROOT:
        return subprocess.run(argv, check=False, cwd=folder, **options)
    places = folder.parent / f"{folder.name}-places"
    places.mkdir()
    env = {**options.pop("env", os.environ), "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(command(argv, places), check=False, cwd=folder, env=env, **options)
    finally:
        shutil.rmtree(places)


def _first_closed(path: Path) -> Path | None:
    """The highest parent folder of a path that the user may not enter."""
    for folder in reversed(path.parents):
        if folder.stat().st_mode & 0o001 == 0:
            return folder
    return None
