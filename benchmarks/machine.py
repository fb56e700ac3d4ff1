"""Describes the machine and the software of the measurements."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from benchmarks.throughput.launch import run_helper
from helpers.system.machine import cores

Machine = dict[str, str | int | float | None]


def describe(torch_version: str | None) -> Machine:
    """Returns the information that readers need to compare the numbers with their own."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": _first_value("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "tensorflow": version("tensorflow"),
        "tensorflow_datasets": version("tensorflow-datasets"),
        "torch": torch_version,
        "load_before": round(os.getloadavg()[0], 2),
    }


def sentence(machine: Machine) -> str:
    """Formats the description in one line."""
    torch = f", PyTorch {machine['torch']}" if machine["torch"] else ""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
        f"Python {machine['python']}, TensorFlow {machine['tensorflow']}{torch}; "
        f"{machine['date']}, load before the start {machine['load_before']}"
    )


def find_torch(python: str) -> str | None:
    """Returns the version of PyTorch of the interpreter `python`, or None."""
    try:
        answer = run_helper([python, "-c", "import numpy, torch; print(torch.__version__)"])
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _memory_gib() -> float | None:
    kilobytes = _first_value("/proc/meminfo", "MemTotal")
    return round(int(kilobytes.split()[0]) / 1024**2, 1) if kilobytes else None


def _first_value(path: str, name: str) -> str | None:
    """Returns the value after the first `name:` in a file of /proc."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
