"""Starts workers as a user would: each is a process with its own `TF_CONFIG`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import ROOT
from helpers.system.ports import free_ports, without_proxies
from helpers.tf_config import build_tf_configs

TIMEOUT_SECONDS = 3600.0  # for all cases on a busy machine


def run(
    module: str,
    arguments: Sequence[Sequence[str]],
    folder: Path,
    python: str | Path = sys.executable,
) -> list[tuple[int, str]]:
    """Runs a module in one worker for each list of arguments, and ends all when one fails.

    Returns: the exit code and the output of each worker.
    """
    base = without_proxies(os.environ)
    for name in ("TF_USE_LEGACY_KERAS", "KERAS_BACKEND"):
        base.pop(name, None)
    configs = build_tf_configs([f"127.0.0.1:{port}" for port in free_ports(len(arguments))])
    logs = [folder / f"log-{index}" for index in range(len(arguments))]
    processes = []
    try:
        for config, log, own in zip(configs, logs, arguments, strict=True):
            environ = {**base, "TF_CONFIG": config.to_json(), "TF_CPP_MIN_LOG_LEVEL": "2"}
            command = [str(python), "-m", module, *own]
            with log.open("wb") as output:
                process = subprocess.Popen(
                    command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT
                )
            processes.append(process)
        for process in processes:
            if process.wait(TIMEOUT_SECONDS) != 0:
                break
    finally:
        for process in processes:
            process.kill()
            process.wait()
    printed = [log.read_text("utf-8", "replace") for log in logs]
    return [(process.returncode, text) for process, text in zip(processes, printed, strict=True)]
