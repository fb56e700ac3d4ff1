"""The reader's part of a worker's traceback."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from helpers.messages.events import Event
from helpers.i18n import _

_OURS = str(Path(__file__).parent)
_STANDARD = sysconfig.get_path("stdlib")

Frame = tuple[str, int, str]
"""File, line, function."""


def split_graph_error(message: str) -> tuple[str, list[Frame]]:
    """The reason in TensorFlow's page on an operation that failed while a graph ran, and the
    frames in which that operation was made; any other message stays as it is.
    """
    if not message.startswith("Graph execution error:"):
        return message, []
    frames = list(re.finditer(r'^ *File "(.+)", line (\d+), in (.+)$', message, re.MULTILINE))
    rest = message[frames[-1].end() :] if frames else message.rpartition("unavailable>")[2]
    rest = rest.removeprefix("Graph execution error:")
    rest = re.sub(r"^(Node: '.*'|From /job:.*:|\s*)\n", "", rest, flags=re.MULTILINE)
    reason = rest.partition("\n\t [[")[0].strip()
    return reason or message, [(found[1], int(found[2]), found[3]) for found in frames]


def checkpoint_in(trace: TracebackType | None) -> str | None:
    """The checkpoint that TensorFlow was reading when an error passed through it, or None.

    Its message on a file that is too short names none ("Read less bytes than requested").
    """
    for frame, _line in traceback.walk_tb(trace):
        if frame.f_globals.get("__name__", "").startswith("tensorflow.python.checkpoint"):
            path = frame.f_locals.get("save_path")  # so in Checkpoint.restore and .read, to 2.21
            if isinstance(path, str):
                return path
    return None


def readers_traceback(error: Event) -> str:
    """Formats an "error" event with the frames that are neither TensorFlow's, Python's nor ours.

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
    return not (installed or generated or filename.startswith((_OURS, _STANDARD)))
