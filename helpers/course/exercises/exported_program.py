"""The task of exercise 7 on exports: a program without the course's package."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from helpers.cluster.local import LocalCluster
from helpers.course.criteria import (
    Criterion,
    Exercise,
    describe_examples,
    expect,
    expect_each_once,
)
from helpers.errors import ConfigError
from helpers.i18n import _, gettext_noop, join_items

Case = Mapping[str, Any]

WORKERS = 2
JOB_SCRIPT = "job.sbatch"
SECONDS = 30  # for the program, which computes almost nothing


def _export(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The exported files and the results of the program, or why nothing was exported."""
    with tempfile.TemporaryDirectory() as parent, LocalCluster(WORKERS) as cluster:
        folder = Path(parent) / "program"
        try:
            answer(cluster, str(folder), case["count"])
        except ConfigError as error:
            return {"rejected": str(error)}
        files = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return {"files": files, "results": _launch(folder) if JOB_SCRIPT in files else []}


def _launch(folder: Path) -> list[Any]:
    """The result of each local process. If it has none, the last line of its log, or a timeout."""
    environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
    with subprocess.Popen(
        ["bash", "launch.sh"],
        cwd=folder,
        env=environ | {"PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as program:
        try:
            program.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return [_("no result after {seconds} s").format(seconds=SECONDS)] * WORKERS
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
    return [_result(folder / f"task-{number}.log") for number in range(WORKERS)]


def _result(log: Path) -> Any:
    line = log.read_text("utf-8").strip().rpartition("\n")[2].removeprefix("result: ")
    try:
        return json.loads(line)
    except ValueError:
        return line


def _is_for_slurm(seen: Mapping[str, Any], case: Case) -> None:
    rejected = seen.get("rejected")
    expect(
        rejected is None,
        expected=_("a function that can be exported"),
        found=rejected,
        hint=_("Where can each worker create this value itself?"),
    )
    expect(
        JOB_SCRIPT in seen["files"],
        expected=_("a folder that contains {file}").format(file=JOB_SCRIPT),
        found=join_items(seen["files"]) or _("no files"),
        hint=_("Which arguments of `export` choose the folder and the cluster manager?"),
    )


def _reads_once(seen: Mapping[str, Any], case: Case) -> None:
    parts, count = seen["results"], case["count"]
    are_lists = len(parts) == WORKERS and all(isinstance(part, list) for part in parts)
    hint = _("Which values must be equal in all processes, and which must differ?")
    expect_each_once(itertools.chain(*parts) if are_lists else (), count, parts, hint)
    expect(
        any(part != sorted(part) for part in parts),
        expected=_("numbers in a random order"),
        found=describe_examples(parts),
        hint=_("Shuffle the numbers, as the original function does."),
    )


EXPORT_PART = Exercise(
    _export,
    (
        Criterion(1, gettext_noop("The function is exported for Slurm."), _is_for_slurm),
        Criterion(
            1,
            gettext_noop("Together, the two processes of the program read each example once."),
            _reads_once,
        ),
    ),
    {"count": 12},
)
