"""The program that every process of a cluster runs, whatever its task.

    python -m helpers.worker PAYLOAD [--cores 0,1] [--step-timeout 120]

PAYLOAD is a file written by `helpers.messages.payload.save`: the work, a function of one
`WorkerContext`. Who this process is stands in `TF_CONFIG` or, without one, in the variables of
Slurm's `srun`. LESSON_LANGUAGE gives the language of its messages.

A supervisor that wants to hear from it passes a pipe in LESSON_EVENT_FD and holds the other
end of its standard input: when that end closes, however the supervisor died, the process is
killed. Without a supervisor it prints what happens, and ends itself when it stands still.

Exit codes: 0, the work is done; 1, it would fail again; 138, started again together with its
peers it may well go on (`helpers.worker.unsupervised.AGAIN` has the source of this number).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.worker.unsupervised import AGAIN, EventPrinter, StepWatch
from helpers.errors import ConfigError
from helpers.messages.events import EVENT_FD, EventWriter
from helpers.i18n import ENGLISH, LANGUAGE, _, set_language
from helpers.system.isolation import enter_from_env
from helpers.system.lifeline import die_with_parent
from helpers.messages.payload import load
from helpers.tf_config.slurm import config_from_slurm
from helpers.strategies import (
    drop_iterators_at_once,
    keep_all_frames,
    leave_watching_to_us,
    tell_of_waiting,
)
from helpers.tf_config import TFConfig
from helpers.messages.failures import checkpoint_in, split_graph_error

HEARTBEAT_SECONDS = 1.0
PATIENCE_SECONDS = 10.0  # for the peers, when the own work is done

# Errors of TensorFlow that come from the other processes or from the network: the same work,
# begun again, may well succeed. Everything else would only fail again.
RESTARTABLE = (
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "InternalError",
    "PeerLost",
    "UnavailableError",
    "UnknownError",
)


class PeerLost(Exception):
    """A session of TensorFlow can do no step any more, as a peer has gone."""


@dataclass(frozen=True)
class WorkerContext:
    """What the work is given: its place in the cluster and a way to report.

    Attributes:
      config: this process's checked `TF_CONFIG`.
      report: sends an event; the kinds are listed in `helpers.messages.events`.
    """

    config: TFConfig
    report: Callable[..., None]


def main(argv: list[str] | None = None) -> int:
    """Runs the work of a payload; returns the exit code of the process."""
    args = _parse(argv)
    isolated = enter_from_env()
    set_language(os.environ.get(LANGUAGE, ENGLISH))
    supervised = EVENT_FD in os.environ
    report = _supervised() if supervised else _by_hand(args.step_timeout)
    report("started", pid=os.getpid(), cores=args.cores, isolated=isolated)
    logging.getLogger("tensorflow").addFilter(quiet_deprecations)
    threading.Thread(target=_beat, args=(report,), daemon=True).start()
    try:
        context = WorkerContext(_config(), report)
        print(context.config.explain(), flush=True)
        work = load(args.payload, args.cores)
        tell_of_waiting(report)
        if supervised:
            leave_watching_to_us()
            keep_all_frames()
            drop_iterators_at_once()
        value = _plain(work(context))
    except ConfigError as error:
        report("error", **describe(error))
        print(f"{error}", file=sys.stderr)
        return 1
    except Exception as error:
        described = describe(error)
        report("error", **described)
        traceback.print_exc()
        return AGAIN if described["restartable"] else 1
    report("result", value=value)
    if supervised:
        _wait_for_peers(context.config)
    return 0


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m helpers.worker")
    parser.add_argument("payload", type=Path, help="a file written by helpers.messages.payload.save")
    parser.add_argument(
        "--cores",
        type=lambda text: [int(core) for core in text.split(",") if core],
        default=[],
        help="CPU cores to pin this process to, as 0,1; all by default",
    )
    parser.add_argument(
        "--step-timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="without a supervisor: end with 138 when no step comes for so long (120)",
    )
    return parser.parse_args(argv)


def _supervised() -> Callable[..., None]:
    report = EventWriter.from_env()
    die_with_parent()
    return report


def _by_hand(step_timeout: float) -> Callable[..., None]:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C ends it even inside a collective that waits for ever; a KeyboardInterrupt would
        # wait for the collective, and may be lost in a callback of TensorFlow.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    watch = StepWatch(EventPrinter(), step_timeout)
    threading.Thread(target=watch.watch, daemon=True).start()
    return watch


def _config() -> TFConfig:
    """Who this process is. TensorFlow looks into `TF_CONFIG` too, so Slurm's answer goes there."""
    if "TF_CONFIG" not in os.environ and (config := config_from_slurm(os.environ)):
        os.environ["TF_CONFIG"] = config.to_json()
    return TFConfig.from_env()


def _wait_for_peers(config: TFConfig) -> None:
    """Stays until all are done: one may still be fetching the last all-reduce's sum from here."""
    if config.is_asynchronous or config.task not in config.tasks:
        return  # nobody waits for a step of this task
    folder = Path(tempfile.gettempdir())  # that of the attempt, the same in all its tasks
    deadline = time.monotonic() + PATIENCE_SECONDS
    with suppress(OSError):  # a full disk must not undo a result
        (folder / f"done-{config.task}").touch()
        while len(list(folder.glob("done-*"))) < len(config.tasks):
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)


def _plain(value: Any) -> Any:
    """The value as JSON can carry it to the notebook: NumPy's and TensorFlow's as Python's."""
    try:
        return json.loads(json.dumps(value, default=lambda array: array.tolist()))
    except (TypeError, ValueError, AttributeError):
        message = _(
            "The function returned {value:.80}, which cannot travel to the notebook. Return "
            "numbers, strings, None, or lists and dicts of them; save larger things to a file."
        )
        raise ConfigError(message.format(value=repr(value))) from None


def quiet_deprecations(record: logging.LogRecord) -> bool:
    """Estimator's own calls of deprecated functions would fill the log; nobody can act on them."""
    return "is deprecated and will be removed" not in record.getMessage()


def _beat(report: Callable[..., None]) -> None:
    while True:
        time.sleep(HEARTBEAT_SECONDS)
        report("alive")


def describe(error: BaseException) -> dict[str, Any]:
    """The fields of an "error" event."""
    name = type(error).__name__
    frames = [(f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__)]
    message, made = split_graph_error(str(getattr(error, "message", None) or error))
    frames += made
    if rewritten := getattr(error, "ag_error_metadata", None):
        # AutoGraph ran a rewritten copy of the function and put a whole traceback into the
        # message; what it keeps beside is where in the original the error was.
        message = rewritten.cause_message
        frames += [
            (f.filename, f.lineno, f.function_name) for f in reversed(rewritten.translated_stack)
        ]
    checkpoint = checkpoint_in(error.__traceback__)
    if checkpoint and checkpoint not in message:
        read = _("{reason} (in the checkpoint {path})")
        message = read.format(reason=message, path=checkpoint)
    return {
        "type": name,
        "message": message,
        "restartable": name in RESTARTABLE,
        "frames": frames,
    }


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # TensorFlow's threads may wait for peers that have already gone
