"""The temporary folders of this program, which are deleted even if it is killed.

Each request to the fork server names the folder of the new worker. If this program ends without
saying so (`fork_client.ForkServer`), the server deletes these folders after the last worker has
ended. If workers are not forked, the folders of a killed program remain.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_owners: dict[Path, int] = {}  # the process that has created each folder


def create(prefix: str, parent: str | None = None) -> Path:
    """Creates a folder that only this user can read.

    Args:
      parent: the folder for it, by default the system's folder for temporary files.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    _owners[folder] = os.getpid()
    return folder


def delete(folder: Path) -> None:
    """Deletes a folder of `create` and its contents. A fork of its process deletes nothing."""
    if _owners.pop(folder, None) == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def containing(path: Path) -> Path | None:
    """The folder of `create` that contains a path, or None."""
    return next((folder for folder in path.parents if folder in _owners), None)
