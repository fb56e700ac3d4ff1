"""Checks with TensorFlow's own means whether the processes of the other workers still run."""

from __future__ import annotations

import importlib
from typing import Any

from helpers.i18n import _

PEER_CHECKS, PEER_CHECK_MILLISECONDS = 3, 10_000  # as in TensorFlow's own health check
LONG_HEARTBEAT_MILLISECONDS = 3_600_000  # only a supervisor sets one as long


def check_process(device: str, name: str) -> None:
    """Checks that the process of a worker runs.

    Args:
      device: such as "/job:worker/replica:0/task:1".
      name: the worker's name in messages.

    Raises:
      tf.errors.UnavailableError: the process ended, or it does not answer. Under a supervisor,
        only an end counts, because a machine may be asleep.
    """
    import tensorflow as tf

    for _attempt in range(PEER_CHECKS):
        try:
            tf_context().check_collective_ops_peer_health(device, PEER_CHECK_MILLISECONDS)
            return
        except tf.errors.DeadlineExceededError:
            if _has_supervisor():
                return
        except (tf.errors.UnavailableError, tf.errors.FailedPreconditionError):
            continue  # it ended, or another process has its address
    message = _("{task} was lost while the others waited for it. Restart all workers.")
    raise tf.errors.UnavailableError(None, None, message.format(task=name))


def is_of_the_network(error: Exception) -> bool:
    """Whether a lost worker may be the cause, in which case a supervisor restarts the group."""
    import tensorflow as tf

    errors = tf.errors
    return isinstance(
        error,
        errors.UnavailableError
        | errors.AbortedError
        | errors.CancelledError
        | errors.DeadlineExceededError
        | errors.FailedPreconditionError
        | errors.InternalError
        | errors.UnknownError,
    )


def tf_context() -> Any:
    """TensorFlow's eager context, with the key-value store that all workers share."""
    return importlib.import_module("tensorflow.python.eager.context").context()


def _has_supervisor() -> bool:
    config = tf_context().coordination_service
    return bool(config and config.heartbeat_timeout_in_ms > LONG_HEARTBEAT_MILLISECONDS)
