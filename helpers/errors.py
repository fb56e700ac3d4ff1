"""What can go wrong, as a reader meets it.

    LessonError
    ├── ConfigError        a TF_CONFIG, a parameter or a choice that cannot work
    ├── DataError          a data set that is missing, damaged or of the wrong shape
    └── ClusterError       a group of processes that did not finish its work
        ├── UserCodeError      the reader's own function raised; nothing is restarted
        └── StoppedError       somebody called stop(), or interrupted the kernel

Every message says what happened, the value seen, and what to do.
"""

from __future__ import annotations


class LessonError(Exception):
    """Any error this package raises on purpose."""


class ConfigError(LessonError, ValueError):
    """A TF_CONFIG, a parameter or a choice that cannot work."""


class DataError(LessonError):
    """A data set that is missing, damaged or of the wrong shape."""


class ClusterError(LessonError, RuntimeError):
    """A group of processes that did not finish its work."""


class UserCodeError(ClusterError):
    """A function the reader wrote raised in a worker; a restart would not mend it.

    Attributes:
      task: the task it happened in, as ``"worker 1"``.
      traceback: the traceback as the worker printed it.
    """

    def __init__(self, message: str, *, task: str, traceback: str) -> None:
        super().__init__(message)
        self.task = task
        self.traceback = traceback


class StoppedError(ClusterError):
    """The run was stopped before it finished."""
