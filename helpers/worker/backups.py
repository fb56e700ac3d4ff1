"""Backups of a Keras 3 model, the last two files, each with a digest of its content in its name.

The name also contains the epoch to resume from, the batches trained in it, and the step.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import ConfigError
from helpers.i18n import _, join_clauses, labeled
from helpers.protocol.events import EventType
from helpers.worker.context import WorkerContext
from helpers.worker.keras_position import Position

MAX_TO_KEEP = 2
SUFFIX = ".weights.h5"  # required by Keras
NAME = re.compile(r"epoch-(\d+)(?:-batch-(\d+))?-step-(\d+)-([0-9a-f]{16})" + re.escape(SUFFIX))


@dataclass(frozen=True)
class Backup:
    """A backup file.

    Attributes:
      epoch: the epoch to resume from, starting at 0.
      batch: the batches of that epoch that have been trained.
      step: the number of completed steps.
      digest: of its content when it was written.
    """

    path: Path
    epoch: int
    batch: int
    step: int
    digest: str

    @property
    def is_intact(self) -> bool:
        """Whether its content is unchanged."""
        return digest(self.path) == self.digest


def digest(path: Path) -> str:
    """Returns the digest of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def list_backups(folder: Path) -> list[Backup]:
    """Returns the backups in a folder, oldest first."""
    found = [
        Backup(path, int(match[1]), int(match[2] or 0), int(match[3]), match[4])
        for path in folder.glob(f"*{SUFFIX}")
        if (match := NAME.fullmatch(path.name))
    ]
    return sorted(found, key=lambda backup: backup.step)


def latest_valid(folder: Path, context: WorkerContext) -> Backup | None:
    """Returns the last intact backup, or None without backups, and warns about skipped ones.

    Raises:
      ConfigError: there are backups, and all are damaged.
    """
    reasons: list[str] = []
    for backup in reversed(list_backups(folder)):
        if backup.is_intact:
            if reasons:
                context.report(EventType.WARNING, message=skipped_message(reasons, backup.step))
            return backup
        reasons.append(labeled(backup.path.name, _("its content has changed since it was written")))
    if reasons:
        raise all_corrupt_error(str(folder), reasons)
    return None


def save_backup(folder: Path, position: Position, step: int, save: Callable[[Path], None]) -> None:
    """Calls `save` to write a backup atomically, and deletes all but the last two.

    Raises:
      OSError: the disk is full or not writable. The earlier backups are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"part{SUFFIX}"
    save(part)
    within = f"-batch-{position.batch}" if position.batch else ""
    name = f"epoch-{position.epoch}{within}-step-{step}-{digest(part)}{SUFFIX}"
    part.rename(folder / name)
    for backup in list_backups(folder)[:-MAX_TO_KEEP]:
        backup.path.unlink()


def all_corrupt_error(folder: str, reasons: list[str]) -> ConfigError:
    """Returns the error for the case that every checkpoint or backup is damaged."""
    message = _(
        "No checkpoint in {model_dir} can be read ({reasons}). Use another model_dir, or "
        "delete this one to start at step 0."
    )
    return ConfigError(message.format(model_dir=folder, reasons=join_clauses(reasons)))


def skipped_message(reasons: list[str], step: int) -> str:
    """Returns the warning about damaged checkpoints, and the step at which training resumes."""
    message = _("Damaged checkpoints were skipped ({reasons}); training resumes at step {step}.")
    return message.format(reasons=join_clauses(reasons), step=step)
