"""The elastic benchmark: every example is counted once while workers leave and return."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faults import needs_keras_3


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        pytest.param(["--quick"], 1, id="4 changes", marks=pytest.mark.faults),
        pytest.param([], 6, id="60 changes", marks=[needs_keras_3, pytest.mark.slow]),
    ],
)
def test_random_changes_of_the_group_change_no_step(
    options: list[str], seeds: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "benchmarks.elastic", *options, f"--output={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = json.loads((tmp_path / "elastic.json").read_text("utf-8"))["outcomes"]
    assert len(outcomes) == seeds
    for outcome in outcomes:
        assert outcome["same_steps"] and outcome["each_once"]
        assert outcome["disturbed"]["changes_done"] == len(outcome["changes"])
