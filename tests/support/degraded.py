"""Systems without some features of Linux, which are disabled for the processes of a test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

FOLDER = Path(__file__).with_name("missing_features")
SIX = ("pidfd", "eventfd", "namespaces", "affinity", "setsig", "proc")
ALL = (*SIX, "limits")
EACH = [pytest.param((name,), id=name) for name in SIX]
TOGETHER = pytest.param(ALL, id="everything", marks=pytest.mark.smoke)


def switch_off(monkeypatch: pytest.MonkeyPatch, *abilities: str) -> None:
    """Disables some features in all processes that this one starts, and in their descendants."""
    monkeypatch.setenv("WITHOUT", ",".join(abilities))
    for folder in (ROOT, FOLDER):
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def missing() -> list[str]:
    """The features that the calling process lacks."""
    import fcntl
    import resource
    import subprocess
    import sys

    has: dict[str, Any] = {
        "pidfd": hasattr(os, "pidfd_open"),
        "eventfd": hasattr(os, "eventfd"),
        "namespaces": subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                "import ctypes; print(ctypes.CDLL(None).unshare(0))",
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.strip()
        == "0",
        "affinity": hasattr(os, "sched_getaffinity"),
        "setsig": hasattr(fcntl, "F_SETSIG"),
        "proc": Path("/proc/self/task").exists(),
        "limits": hasattr(resource, "prlimit"),
    }
    return [name for name, there in has.items() if not there]
