"""What a reader is told of checkpoints and backups that are damaged."""

from __future__ import annotations

from helpers.errors import ConfigError
from helpers.i18n import _, join_clauses


def all_corrupt_error(folder: str, reasons: list[str]) -> ConfigError:
    """The error where every checkpoint is damaged."""
    message = _(
        "No checkpoint in {model_dir} can be read ({reasons}). Name another model_dir, or delete "
        "this one to begin at step 0."
    )
    return ConfigError(message.format(model_dir=folder, reasons=join_clauses(reasons)))


def skipped_message(reasons: list[str], step: int) -> str:
    """The sentence on damaged checkpoints, and where training goes on."""
    message = _("Damaged checkpoints were left out ({reasons}); training goes on from step {step}.")
    return message.format(reasons=join_clauses(reasons), step=step)
