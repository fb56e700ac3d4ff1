"""A process that trains like a notebook, for tests that act on it.

python -m tests.support.notebook_process ENGINE WORKERS FOLDER [--at STEP --do COMMAND]

ENGINE is the name of one of `tests.support.faults`. Prints each event as a line of JSON, and at the
end {"event": "end"} with `restarts` and `notices`, or {"event": "raised"} with `type` and
`message`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from helpers import LocalCluster
from helpers.errors import HelpersError
from helpers.protocol.events import Event
from tests.support.faults import ESTIMATOR, KERAS, KERAS_3

ENGINES = {engine.name: engine for engine in (ESTIMATOR, KERAS, KERAS_3)}


def main() -> None:
    """Trains according to the arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("workers", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--step-timeout", type=float, default=30)
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--do", default="", help="a shell command to run at that step")
    args = parser.parse_args()

    # A shell's background jobs inherit an ignored SIGINT, but a notebook never does.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = ENGINES[args.engine]
    engine = dataclasses.replace(engine, steps=args.steps or engine.steps)
    done = False

    def on_event(event: Event) -> None:
        nonlocal done
        say(**event)
        if args.do and not done and event["event"] == "step" and event["step"] >= args.at:
            done = True
            subprocess.run(args.do, shell=True, check=False, stderr=subprocess.DEVNULL)

    try:
        with LocalCluster(args.workers, step_timeout=args.step_timeout) as cluster:
            result = engine.train(cluster, args.folder, on_event)
        say(event="end", restarts=result.restarts, notices=result.warnings)
    except (HelpersError, KeyboardInterrupt) as error:
        say(event="raised", type=type(error).__name__, message=str(error))


def say(**event: Any) -> None:
    """Prints one event."""
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main()
