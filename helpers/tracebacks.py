"""The reader's part of a worker's traceback."""

from __future__ import annotations

import traceback
from pathlib import Path

from helpers.events import Event
from helpers.i18n import _

_OURS = str(Path(__file__).parent)


def readers_traceback(error: Event) -> str:
    """Formats an "error" event with the frames that are neither TensorFlow's nor ours.

    Without such a frame, with all of them.
    """
    frames = list(dict.fromkeys(tuple(frame) for frame in error["frames"]))
    shown = [frame for frame in frames if _is_readers(frame[0])] or frames
    summary = traceback.StackSummary.from_list([(*frame, None) for frame in shown])
    heading = _("Traceback in the worker (most recent call last):")
    return f"{heading}\n{''.join(summary.format())}{error['type']}: {error['message']}"


def _is_readers(filename: str) -> bool:
    installed = "site-packages" in filename or "dist-packages" in filename
    generated = filename.startswith("<") or "__autograph_generated_file" in filename
    return not (installed or generated or filename.startswith(_OURS))
