"""Settings for the import of TensorFlow: oneDNN, no garbage collection, no messages."""

from __future__ import annotations

import gc
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from helpers.system.import_hooks import import_within

ONE_DNN = "TF_ENABLE_ONEDNN_OPTS"
X86 = ("x86_64", "AMD64")
LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # 1 or more excludes INFO
STANDARD_ERROR = 2
_EARLY = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")


def enable_onednn(environ: MutableMapping[str, str]) -> None:
    """Enables oneDNN on every x86 processor for a TensorFlow imported with this environment.

    By default TensorFlow uses it only if the processor has AVX512_VNNI or newer. On other
    processors a training step of the lessons' network needs twice the time without it: 23 ms
    instead of 12 ms on an AMD EPYC with AVX2. A value that is already in the environment is kept.
    """
    if platform.machine() in X86:
        environ.setdefault(ONE_DNN, "1")


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disables garbage collection, which costs a sixth of TensorFlow's import and finds nothing.

    Garbage that is created meanwhile is collected afterwards.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def startup_logs_suppressed() -> Iterator[None]:
    """Drops the messages of TensorFlow's import if the log level excludes INFO.

    TensorFlow 2.21 reports at each import that it uses oneDNN and found no GPU, before it has read
    TF_CPP_MIN_LOG_LEVEL. It writes to the descriptor of standard error, past `sys.stderr`. All
    other lines are written when the block ends.
    """
    if os.environ.get(LOG_LEVEL, "0") in ("", "0"):
        yield
        return
    sys.stderr.flush()
    real = os.dup(STANDARD_ERROR)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), STANDARD_ERROR)
        try:
            yield
        finally:
            os.dup2(real, STANDARD_ERROR)
            file.seek(0)
            for line in file:
                if not _EARLY.match(line):
                    os.write(real, line)
            os.close(real)


def prepare_kernel() -> None:
    """Makes a notebook's kernel import TensorFlow with oneDNN, as workers do, and silently.

    A kernel shows the start-up messages below the cell. In any other program this does nothing.
    """
    if "ipykernel" in sys.modules:
        enable_onednn(os.environ)
        import_within("tensorflow", _quiet_import)


@contextmanager
def _quiet_import() -> Iterator[None]:
    with gc_disabled(), startup_logs_suppressed():
        yield
