"""The folder of a student's notebook, in which nothing keeps running."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from helpers.course.projects.group import WORKER
from tests.support.processes import children_of, command_of


@pytest.fixture
def project_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty current folder, also for temporary files. All processes of projects must end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert not [child for child in children_of(psutil.Process()) if WORKER in command_of(child)]
    commands = [command_of(process) for process in psutil.process_iter()]
    assert not [one for one in commands if any(str(tmp_path) in word for word in one)]
