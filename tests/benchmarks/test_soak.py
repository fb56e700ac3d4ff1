"""The soak test: resources that a process still holds after starting clusters for a long time."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.soak import TOLERANCE, Sample, grown
from tests.support import ROOT

LONG, SOAK = pytest.mark.slow, pytest.mark.soak
HELD = dict.fromkeys(TOLERANCE, 7.0)


def test_what_grows_is_named_and_what_was_there_when_things_had_settled_is_not() -> None:
    warm = [{**HELD, "minute": minute, "memory": 50.0} for minute in range(10)]
    steady: list[Sample] = [{**HELD, "minute": minute, "memory": 90.0} for minute in range(10, 61)]
    assert grown([*warm, *steady]) == []
    leaking = [one | {"threads": 7 + one["minute"]} for one in steady]
    assert grown([*warm, *leaking]) == ["threads"]
    swelling = [one | {"memory": 60 + one["minute"]} for one in steady]
    assert grown([*warm, *swelling]) == ["memory"]


def test_what_a_deed_leaves_behind_is_counted() -> None:
    kept: list[object] = []
    ended = threading.Event()

    def leave() -> None:
        thread = threading.Thread(target=ended.wait)
        thread.start()
        folder = tempfile.mkdtemp()
        kept.extend([thread, folder, socket.socket()])

    try:
        first, *_others, last = soak.soak(0.05, {"leaves": leave})
        for name in ("threads", "folders", "descriptors"):
            assert last[name] > first[name]
        assert last["processes"] == first["processes"]
    finally:
        ended.set()
        for one in kept:
            if isinstance(one, socket.socket):
                one.close()


@pytest.mark.parametrize(
    "minutes",
    [pytest.param(5, id="5 minutes", marks=SOAK), pytest.param(60, id="an hour", marks=LONG)],
)
def test_nothing_stays(minutes: float, tmp_path: Path) -> None:
    """In a separate process, because the tests' process has imported TensorFlow and holds more."""
    command = [sys.executable, "-m", "benchmarks.soak", f"--minutes={minutes}"]
    done = subprocess.run(
        [*command, f"--output={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60 * minutes + 900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "| no growth |" in (tmp_path / "soak.md").read_text()
