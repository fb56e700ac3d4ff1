"""The chaos run: the same weights, bit by bit, through faults at random."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "benchmarks.chaos"


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        pytest.param(["--short"], 1, id="3 faults"),
        pytest.param([], 3, id="30 faults", marks=pytest.mark.long),
    ],
)
def test_weights_after_faults_at_random_equal_those_of_an_undisturbed_run(
    options: list[str], seeds: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", PROGRAM, *options, f"--output={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = json.loads((tmp_path / "chaos.json").read_text())["outcomes"]
    assert len(outcomes) == seeds
    for outcome in outcomes:
        assert outcome["equal"]
        assert outcome["hangs"] == outcome["lost_checkpoints"] == 0
        assert all(fault["noticed"] is not None for fault in outcome["faults"])
    assert "| yes |" in (tmp_path / "chaos.md").read_text()
