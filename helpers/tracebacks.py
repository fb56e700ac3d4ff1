"""The reader's part of a worker's traceback."""

from __future__ import annotations

import traceback
from pathlib import Path

from helpers.events import Event

_OURS = str(Path(__file__).parent)


def readers_traceback(error: Event) -> str:
    """Formats an "error" event from the first frame that is neither TensorFlow's nor ours.

    Without such a frame, the whole traceback.
    """
    frames = [tuple(frame) for frame in error["frames"]]
    first = next((i for i, frame in enumerate(frames) if _is_readers(frame[0])), 0)
    lines = ["Traceback (in the worker, most recent call last):\n"]
    lines += traceback.StackSummary.from_list(frames[first:]).format()
    return "".join(lines) + f"{error['type']}: {error['message']}"


def _is_readers(filename: str) -> bool:
    installed = "site-packages" in filename or "dist-packages" in filename
    return not (installed or filename.startswith((_OURS, "<frozen")))
