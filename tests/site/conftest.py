"""The built site, served below another path, and a browser to inspect it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tools.lessons.project import Project
from tools.site.__main__ import OUTPUT, build
from tools.site.serve import serving

SUB_PATH = "some/course"


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the site: built now, or set by the variable SITE."""
    if given := os.environ.get("SITE"):
        return Path(given).absolute()
    build(Project.load(ROOT), ROOT / OUTPUT)
    return ROOT / OUTPUT


@pytest.fixture(scope="session")
def address(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site."""
    folder = tmp_path_factory.mktemp("server")
    (folder / SUB_PATH).parent.mkdir()
    (folder / SUB_PATH).symlink_to(site, target_is_directory=True)
    with serving(folder) as root:
        yield f"{root}/{SUB_PATH}"
