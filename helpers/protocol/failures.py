"""Failures of a worker: converts its exception to a message or an error in the notebook."""

from __future__ import annotations

import linecache
import re
import signal
import sysconfig
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers import errors, labels
from helpers.errors import ConfigError, DataError, HelpersError, StoppedError, UserCodeError
from helpers.i18n import _, labeled, ngettext
from helpers.protocol.events import Event
from helpers.system import keras_version

PREEMPTED = "PreemptedError"  # of helpers.worker.context
EXIT_PREEMPTED = 128 + signal.SIGTERM
"""The exit code of a worker that was preempted, and has saved."""

# TensorFlow errors caused by other processes or by the network. The same work may succeed after a
# restart. All other errors would occur again.
RETRYABLE = (
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "InternalError",
    "PeerLostError",
    PREEMPTED,
    "UnavailableError",
    "UnknownError",
)
# Their message is a sentence for the reader, without a traceback.
USER_FACING_ERRORS = (ConfigError, DataError)

DEBUGGER_QUIT = "BdbQuit"
PREEMPTION = "tensorflow.python.distribute.failure_handling.failure_handling"

UNKNOWN_LINE = "model_fn"  # in a sentence, until AutoGraph knows the line
MESSAGE_CHARACTERS = 50_000
_PER_REPLICA = re.compile(r"\(PerReplica:\{.*?\n\}\)", re.DOTALL)
_PACKAGE_DIR = str(Path(errors.__file__).parent)
_STDLIB_DIR = sysconfig.get_path("stdlib")

Frame = tuple[str, int, str]
"""File, line, function."""


def error_fields(error: BaseException) -> dict[str, Any]:
    """The fields of an "error" event, even if the attributes of the exception raise exceptions."""
    try:
        return _fields(error)
    except BaseException as other:
        frames: list[Frame] = []
        with suppress(Exception):
            frames = _frames(error)
        return {
            "type": type(error).__name__,
            "message": _unavailable(other),
            "retryable": False,
            "frames": frames,
            "error_class": None,
        }


def _fields(error: BaseException) -> dict[str, Any]:
    name = type(error).__name__
    frames = _frames(error)
    message, made = split_graph_error(explain_per_replica(_text(error)))
    frames += made
    if rewritten := getattr(error, "ag_error_metadata", None):
        # AutoGraph ran a rewritten copy of the function and put a whole traceback into the message.
        # It also keeps the position of the error in the original.
        message = rewritten.cause_message
        readers = [
            (f.filename, f.lineno, f.function_name) for f in reversed(rewritten.translated_stack)
        ]
        frames += readers
        if sentence := _sentence_behind(error):
            error = sentence
            name, line = type(error).__name__, readers_line(readers)
            message = str(error).replace(f"({UNKNOWN_LINE})", f"({line})") if line else str(error)
    message = message.removeprefix(f"{name}: ")  # AutoGraph adds this prefix
    checkpoint = checkpoint_in(error.__traceback__)
    if checkpoint and checkpoint not in message:
        read = _("{reason} (in the checkpoint {path})")
        message = read.format(reason=message, path=checkpoint)
    if name == DEBUGGER_QUIT:
        message = _("the debugger was ended with q")
    if (preempted := is_preempted(error)) and name != PREEMPTED:
        message = _(
            "it received a request to stop, and every worker has saved and waits to be restarted"
        )
    return {
        "type": name,
        "message": message,
        "retryable": preempted or name in RETRYABLE,
        "frames": frames,
        "error_class": name if isinstance(error, USER_FACING_ERRORS) else None,
    }


def _sentence_behind(error: BaseException) -> BaseException | None:
    """The original error of this package that AutoGraph has converted to another class."""
    behind = error.__context__
    while behind is not None and not isinstance(behind, USER_FACING_ERRORS):
        behind = behind.__context__
    return behind


def is_preempted(error: BaseException) -> bool:
    """Whether a preemption ended the process, after all workers have saved.

    `tf.distribute.experimental.PreemptionCheckpointHandler` calls `sys.exit`.
    """
    if type(error).__name__ == PREEMPTED:
        return True
    modules = [
        frame.f_globals.get("__name__") for frame, _line in traceback.walk_tb(error.__traceback__)
    ]
    return isinstance(error, SystemExit) and modules[-1:] == [PREEMPTION]


def _text(error: BaseException) -> str:
    """The text of an exception of any class, at most `MESSAGE_CHARACTERS` long."""
    try:
        text = str(getattr(error, "message", None) or error)
    except BaseException as other:
        return _unavailable(other)
    if len(text) > MESSAGE_CHARACTERS:
        count = len(text) - MESSAGE_CHARACTERS
        cut = ngettext("(… {count} more character)", "(… {count} more characters)", count)
        return f"{text[:MESSAGE_CHARACTERS]} {cut.format(count=count)}"
    return text


def _unavailable(error: BaseException) -> str:
    """The text in place of a message that cannot be converted to text."""
    text = _("(its message is not available: converting it to text raised {error})")
    return text.format(error=type(error).__name__)


def _frames(error: BaseException) -> list[Frame]:
    trace = traceback.extract_tb(error.__traceback__)
    return [(frame.filename, frame.lineno or 0, frame.name) for frame in trace]


def explain_per_replica(message: str) -> str:
    """Removes the numbers, a row for each worker, from Keras's message on a PerReplica value.

    If the fix could not be applied, adds the reason.
    """
    shown = _PER_REPLICA.sub("(PerReplica)", message)
    reason = keras_version.why_unfixed()
    if shown == message or reason is None:
        return shown
    explained = _(
        "Keras 3 does not train on several workers without helpers.keras_3, which was not "
        "applied: {reason}"
    )
    return explained.format(reason=reason)


def error_summary(task: str, step: int, error: Event) -> str:
    """Describes an "error" event in a sentence without its full stop.

    Uses only the first line of its message, because gRPC adds pages, which are in the log.
    """
    message = _("{task} raised {error} at step {step}: {reason}")
    reason = error["message"].partition("\n")[0]
    return message.format(task=labels.task(task), error=error["type"], step=step, reason=reason)


def to_exception(task: str, error: Event) -> HelpersError:
    """The exception in the notebook for an "error" event that a restart would not fix."""
    known = getattr(errors, error["error_class"] or "", None)
    if isinstance(known, type) and issubclass(known, USER_FACING_ERRORS):
        return known(error["message"])
    text = user_traceback(error)
    if error["type"] == DEBUGGER_QUIT:
        message = _("The debugger of {task} was ended with q, so the run was stopped.")
        return StoppedError(f"{message.format(task=labels.task(task))}\n{text}")
    message = _("{task} raised {error}; a restart would not help, so the group was not restarted.")
    message = message.format(task=labels.task(task), error=error["type"])
    return UserCodeError(
        f"{message}\n{text}", task=task, traceback=text, exception_type=error["type"]
    )


def split_graph_error(message: str) -> tuple[str, list[Frame]]:
    """Splits TensorFlow's message on a failed operation of a graph into reason and frames.

    The frames are those in which the operation was created. Any other message is unchanged.
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

    Its message on a truncated file contains no name ("Read less bytes than requested").
    """
    for frame, _line in traceback.walk_tb(trace):
        if frame.f_globals.get("__name__", "").startswith("tensorflow.python.checkpoint"):
            path = frame.f_locals.get("save_path")  # in Checkpoint.restore and .read
            if isinstance(path, str):
                return path
    return None


def user_traceback(error: Event) -> str:
    """Formats an "error" event with the frames that are neither TensorFlow's, Python's nor ours.

    Without such a frame, uses all frames.
    """
    frames = list(dict.fromkeys(tuple(frame) for frame in error["frames"]))
    shown = [frame for frame in frames if is_user_frame(frame[0])] or frames
    summary = traceback.StackSummary.from_list([(*frame, None) for frame in shown])
    heading = _("Traceback in the worker (most recent call last):")
    exception = ": ".join(filter(None, [error["type"], error["message"]]))  # as Python shows it
    return f"{heading}\n{''.join(summary.format())}{exception}"


def readers_line(frames: Sequence[Frame]) -> str | None:
    """The innermost line of the reader's code among some frames, with its text if known."""
    for filename, number, _function in reversed(frames):
        if is_user_frame(filename):
            place = _("{file}, line {number}").format(file=filename, number=number)
            text = linecache.getline(filename, number).strip()
            return labeled(place, text) if text else place
    return None


def is_user_frame(filename: str) -> bool:
    """Whether a frame's file is neither TensorFlow's, Python's, ours nor of another package."""
    installed = "site-packages" in filename or "dist-packages" in filename
    generated = filename.startswith("<") or "__autograph_generated_file" in filename
    return not (installed or generated or filename.startswith((_PACKAGE_DIR, _STDLIB_DIR)))
