"""Checks whether the train_op of a model_fn changes the global step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.protocol.failures import readers_line

READS = ("ReadVariableOp", "Identity", "VarIsInitializedOp", "VariableShape", "NoOp")
MAX_BATCHES = 1000  # without a change, independent of the train_op


def check_moves(train_op: Any, global_step: Any, batches: int) -> None:
    """Raises ConfigError if no operation of `train_op` can change the global step.

    Called if a batch did not change the step. Gradient accumulation changes it later, and the
    operation that does so, in a branch for instance, is part of the train_op.

    Args:
      batches: the number of batches trained without a change.
    """
    if batches < MAX_BATCHES and any(_writers(train_op, global_step)):
        return
    message = _(
        "The global step did not increase in {batches} of training ({line}): its train_op does not "
        "count steps, so training would never end. Write "
        "optimizer.minimize(loss, global_step=tf.compat.v1.train.get_or_create_global_step()), or, "
        "for a Keras optimizer, optimizer.iterations = "
        "tf.compat.v1.train.get_or_create_global_step()."
    )
    line = _line_of(train_op) or "model_fn"
    raise ConfigError(message.format(batches=labels.batches(batches), line=line))


def _line_of(train_op: Any) -> str | None:
    """The reader's line that created the last operation of the train_op before Estimator's own."""
    needed = set(_ancestors(train_op))
    for operation in reversed(train_op.graph.get_operations()):
        if operation in needed:
            frames = [(f.filename, f.lineno, f.name) for f in operation.traceback]
            if line := readers_line(frames):
                return line
    return None


def count_updates(train_op: Any, global_step: Any) -> int:
    """The increment of the global step by `train_op`, for every batch.

    Raises:
      ConfigError: it depends on the batch.
    """
    writers = list(_writers(train_op, global_step))
    if all(operation.type.startswith("AssignAdd") for operation in writers):
        return max(1, len(writers))
    message = _(
        "epochs= needs the number of steps per batch, and with parameter servers no task can "
        "measure it: the global step is changed in a branch or a function ({line}). Pass "
        "steps= instead of epochs=."
    )
    raise ConfigError(message.format(line=_line_of(train_op) or "model_fn"))


def _writers(train_op: Any, global_step: Any) -> Iterator[Any]:
    """The operations that `train_op` depends on and that can change the step's variable."""
    variables = getattr(global_step, "values", None) or [global_step]
    handles = {getattr(getattr(one, "handle", one), "op", None) for one in variables}
    for operation in _ancestors(train_op):
        takes = any(tensor.op in handles for tensor in operation.inputs)
        if takes and operation.type not in READS:
            yield operation


def _ancestors(train_op: Any) -> Iterator[Any]:
    """The operation itself and all its dependencies."""
    seen, left = set(), [getattr(train_op, "op", train_op)]
    while left:
        operation = left.pop()
        if operation not in seen:
            seen.add(operation)
            yield operation
            left += [*operation.control_inputs, *(tensor.op for tensor in operation.inputs)]
