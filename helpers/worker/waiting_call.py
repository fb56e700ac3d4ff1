"""Reports a TensorFlow call in which a reader's function waits without computing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from helpers.protocol.events import EventType
from helpers.worker.context import Report

LOOK_SECONDS = 1.0
LOOKS = 5  # successive observations of the same call
BUSY_SHARE = 0.05
CALLS = ("tensorflow/python/eager/execute.py", "tensorflow/python/client/session.py")


@contextmanager
def watched(report: Report) -> Iterator[None]:
    """Monitors the current thread from another one.

    A collective may wait silently for a peer that has returned.
    """
    done = threading.Event()
    thread = threading.get_ident()
    threading.Thread(target=_watch, args=(report, thread, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(report: Report, thread: int, done: threading.Event) -> None:
    last, looks, used = None, 0, time.process_time()
    while not done.wait(LOOK_SECONDS):
        frame, before, used = sys._current_frames().get(thread), used, time.process_time()
        waits = frame is not None and frame.f_code.co_filename.endswith(CALLS)
        if not waits or frame is not last or used - before > BUSY_SHARE * LOOK_SECONDS:
            last, looks = frame if waits else None, 0
            continue
        looks += 1
        if looks >= LOOKS:
            report(EventType.WAITING, batches=0)
            looks = 0
