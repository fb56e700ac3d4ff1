"""A copy of the repository as git would carry it, files that are not committed yet among them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def copy(root: Path, folder: Path) -> Path:
    """Copies what git knows of, or would add, from `root` to `folder`; returns the folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():  # one that was removed is still listed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    return folder
