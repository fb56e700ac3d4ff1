"""Keeps what TensorFlow says while it is imported out of a notebook that has asked for quiet.

TensorFlow 2.21 tells, at each import, that it uses oneDNN and found no GPU, before it has read how
much it may say (TF_CPP_MIN_LOG_LEVEL): below every lesson's first cell that would be four lines of
red. It writes to the descriptor of standard error, past `sys.stderr`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # from 1 on, no INFO
STANDARD_ERROR = 2
_EARLY = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")


@contextmanager
def suppressed() -> Iterator[None]:
    """Drops these lines; all others are written when the block ends."""
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
