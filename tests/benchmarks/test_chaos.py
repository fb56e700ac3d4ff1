"""The chaos run: the same weights, bit for bit, after random faults."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faults import needs_keras_3

LONG, FAULTS = pytest.mark.slow, pytest.mark.faults
PROGRAM = "benchmarks.chaos"


@pytest.mark.parametrize(
    ("options", "seeds"),
    [
        pytest.param(["--quick"], 1, id="3 faults", marks=FAULTS),
        pytest.param(["--quick", "--keras", "3"], 1, id="Keras 3", marks=[needs_keras_3, FAULTS]),
        pytest.param([], 3, id="30 faults", marks=LONG),
        pytest.param(["--workers", "4"], 3, id="4 workers", marks=LONG),
        pytest.param(["--keras", "3"], 3, id="30 of Keras 3", marks=[needs_keras_3, LONG]),
    ],
)
def test_weights_after_faults_at_random_equal_those_of_an_undisturbed_run(
    options: list[str], seeds: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", PROGRAM, *options, f"--output={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [report] = tmp_path.glob("*.json")
    outcomes = json.loads(report.read_text())["outcomes"]
    assert len(outcomes) == seeds
    for outcome in outcomes:
        assert outcome["equal"]
        assert outcome["hangs"] == outcome["lost_checkpoints"] == 0
        assert all(fault["noticed"] is not None for fault in outcome["faults"])
    assert "| yes |" in report.with_suffix(".md").read_text()
