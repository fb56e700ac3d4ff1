"""A copy of the repository's files in git, including files that are not committed yet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tools.lessons.project import ToolError


def copy_tracked_files(root: Path, folder: Path) -> Path:
    """Copies files that git tracks or would add from `root` to `folder`, and returns the folder.

    Raises:
      ToolError: git is not installed, or `root` is not a repository.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ToolError(
            "The program git is not installed. It lists the files of the course: install it."
        ) from None
    if done.returncode:
        raise ToolError(
            f"git cannot list the files of {root}: {done.stderr.strip()}. Clone the course with "
            "git, and run this command in the clone."
        )
    for name in filter(None, done.stdout.split("\0")):
        if (root / name).is_file():  # removed files are still listed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder
