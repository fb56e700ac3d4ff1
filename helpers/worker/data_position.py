"""The number of batches that a task had read at each checkpoint, for an exact restart.

The global step does not contain this number, because two optimizers increment it twice for a batch,
and gradient accumulation once for several batches.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from helpers.tf_config import TFConfig

FILE = "batches-{task.type}-{task.index}.json"
UPDATES = "updates per batch"
KEPT = 20  # checkpoints, newest last (Estimator keeps five)


class DataPosition:
    """The positions of one task, in a file of `model_dir`.

    Under a synchronous strategy all tasks read the same number of batches, and the chief writes
    it. With parameter servers, each task writes its own.

    Args:
      tasks: the number of tasks that increment the global step, each with its own batches.
    """

    def __init__(self, model_dir: str, config: TFConfig, tasks: int) -> None:
        asynchronous = config.is_asynchronous
        task = config.task if asynchronous else config.chief
        self._path = Path(model_dir) / FILE.format(task=task)
        self._of_chief = Path(model_dir) / FILE.format(task=config.chief)
        self._writes = task == config.task
        self._tasks = tasks

    def batches_at(self, step: int) -> int:
        """The number of batches that this task had read when it saved the checkpoint of `step`."""
        return int(self._read().get(str(step), step // (self._tasks * (self.updates or 1))))

    @property
    def updates(self) -> int | None:
        """The increment of the global step for a batch, if it is known not to be 1."""
        return _read(self._of_chief).get(UPDATES)

    def record(self, step: int, batches: int, updates: int | None = None) -> None:
        """Records the batches at a checkpoint, if the global step does not determine them."""
        if not self._writes:
            return
        known = self._read()
        if updates not in (None, 1):
            known[UPDATES] = updates
        elif self.batches_at(step) == batches:
            return
        known[str(step)] = batches
        newest = sorted((name for name in known if name != UPDATES), key=int)[-KEPT:]
        _write(self._path, {name: known[name] for name in known if name in (UPDATES, *newest)})

    def _read(self) -> dict[str, Any]:
        return _read(self._path)


class EndOfTraining:
    """The chief's note to the evaluator, with the global step at which training ended.

    Args:
      plan: the epochs and steps of the job. A note from another plan is outdated.
    """

    def __init__(self, model_dir: str, plan: object) -> None:
        self._path = Path(model_dir) / "end-of-training.json"
        self._plan = repr(plan)

    def write(self, step: int) -> None:
        """Writes the last step."""
        _write(self._path, {"plan": self._plan, "step": step})

    def clear(self) -> None:
        """Removes the note of an earlier run."""
        self._path.unlink(missing_ok=True)

    def is_at(self, step: int) -> bool:
        """Whether training has ended, and the checkpoint of `step` is its last one."""
        note = _read(self._path)
        return note.get("plan") == self._plan and step >= note["step"]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    """Replaces the file atomically, so a reader or a restart finds the old or the new content."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content))
    os.replace(new, path)
