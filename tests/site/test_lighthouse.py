"""Lighthouse's scores on a slow telephone: 1.6 Mbit/s, and a processor 4 times slower."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import browser as b
from tools.site import serve

PROGRAM = Path(sys.prefix) / "lighthouse" / "node_modules" / ".bin" / "lighthouse"
PAGES = ("index.html", "en/index.html", "en/01_train_on_two_workers.html")
CATEGORIES = ("performance", "accessibility")
LEAST = 95
ATTEMPTS = 3  # other programs on the machine lower the performance

pytestmark = [
    pytest.mark.site,
    pytest.mark.smoke,
    *b.MARKS[1:],
    pytest.mark.skipif(not PROGRAM.exists(), reason="make test-site installs Lighthouse"),
]


@pytest.fixture(scope="module")
def compressed(site: Path) -> Iterator[str]:
    """The address of the site on a server that compresses texts."""
    with serve.serving(site, serve.CompressingHandler) as address:
        yield address


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_fast_and_accessible(page: str, compressed: str, tmp_path: Path) -> None:
    best = dict.fromkeys(CATEGORIES, 0)
    for _attempt in range(ATTEMPTS):
        for category, score in scores(f"{compressed}/{page}", tmp_path / "report.json").items():
            best[category] = max(best[category], score)
        if min(best.values()) >= LEAST:
            break
    print(f"{page}: {best}")  # pytest -rP
    assert min(best.values()) >= LEAST, best


def scores(address: str, report: Path) -> dict[str, int]:
    """The score of each category, from 0 to 100."""
    command = [
        *(str(PROGRAM), address, "--quiet", "--output=json", f"--output-path={report}"),
        f"--only-categories={','.join(CATEGORIES)}",
        f"--chrome-flags=--headless=new {' '.join(b.FLAGS)}",
    ]
    environment = {**os.environ, "CHROME_PATH": str(b.chromium())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())["categories"]
    return {name: round(100 * (category["score"] or 0)) for name, category in found.items()}
