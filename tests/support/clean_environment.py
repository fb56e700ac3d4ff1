"""An environment with the packages of an exported program, and without this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from helpers.system.ports import without_proxies

UV = Path(sys.executable).with_name("uv")
LEFT_OUT = ("PYTHONPATH", "TF_CONFIG", "TF_USE_LEGACY_KERAS")


def create(folder: Path, requirements: Path) -> Path:
    """Installs the requirements into a new environment, and returns its Python.

    Raises:
      AssertionError: this package can be imported in it.
    """
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    install = [str(UV), "pip", "install", "--quiet", "--python", str(python), "-r"]
    subprocess.run([*install, str(requirements)], check=True)
    command = [str(python), "-c", "import helpers"]
    found = subprocess.run(
        command, cwd=folder, env=environ(), capture_output=True, text=True, check=False
    )
    assert "No module named 'helpers'" in found.stderr
    return python


def environ() -> dict[str, str]:
    """The environment variables for a program of a clean environment."""
    return {k: v for k, v in without_proxies(os.environ).items() if k not in LEFT_OUT}
