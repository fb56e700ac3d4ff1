"""Extensions of TensorFlow for gradients of an Estimator's graph on several workers."""

from __future__ import annotations

import importlib
import math
import traceback
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.protocol.failures import UNKNOWN_LINE, readers_line

MAX_DENSE_BYTES = 64 * 2**20


def sum_sparse_gradients_of_any_length() -> None:
    """Allows the number of ids of an embedding to vary from step to step.

    TensorFlow gathers the rows of all workers, and in graph mode (up to TensorFlow 2.21) a
    collective keeps the shape of its first step: "Shape mismatch in the collective instance". If
    the number is not fixed, whole tables are all-reduced, and the rows that any worker has used are
    selected from the sum. The result is the same gradient.

    Call it once in a process, before the graph is built.
    """
    utilities: Any = importlib.import_module("tensorflow.python.distribute.cross_device_utils")
    launcher = utilities.CollectiveReplicaLauncher
    gather = launcher.all_reduce_indexed_slices

    def reduce_slices(self: Any, slices: Any, options: Any = None) -> Any:
        if slices.indices.shape.is_fully_defined() or tf.executing_eagerly():
            return gather(self, slices, options)
        return _reduce_as_table(self, slices, options)

    launcher.all_reduce_indexed_slices = reduce_slices


def _reduce_as_table(launcher: Any, slices: Any, options: Any) -> Any:
    shape = tf.get_static_value(slices.dense_shape) if slices.dense_shape is not None else None
    values = slices.values
    size = math.inf if shape is None else math.prod(map(int, shape)) * values.dtype.size
    if size > MAX_DENSE_BYTES:
        raise ConfigError(_too_large(slices, size))
    assert shape is not None
    rows = int(shape[0])
    table = tf.math.unsorted_segment_sum(values, slices.indices, rows)
    ones = tf.ones_like(slices.indices, values.dtype)
    used = tf.math.unsorted_segment_max(ones, slices.indices, rows) > 0
    table = tf.ensure_shape(table, [int(length) for length in shape])
    total = launcher.all_reduce(table, None, options)
    users = launcher.all_reduce(tf.cast(used, values.dtype), None, options)
    indices = tf.cast(tf.where(users > 0)[:, 0], slices.indices.dtype)
    return tf.IndexedSlices(tf.gather(total, indices), indices, slices.dense_shape)


def _too_large(slices: Any, size: float) -> str:
    frames = [(f.filename, f.lineno, f.name) for f in slices.values.op.traceback]
    message = _(
        "The number of rows in the gradient of an embedding ({line}) varies from step to step. "
        "TensorFlow cannot sum such a gradient over workers in a graph, and its table of "
        "{size} is too large to all-reduce as a whole (at most {most}). Pad the ids of a batch "
        "to a fixed number, for instance with padded_batch(..., drop_remainder=True), or use "
        "parameter servers: LocalCluster(workers=2, ps=1)."
    )
    shown = labels.format_bytes(size) if math.isfinite(size) else _("unknown size")
    line = readers_line(frames) or UNKNOWN_LINE
    return message.format(line=line, size=shown, most=labels.format_bytes(MAX_DENSE_BYTES))


def refuse_sync_replicas_optimizer() -> None:
    """Makes SyncReplicasOptimizer raise an error that names its replacement.

    Under a strategy it cannot work.

    Call it once in a process, before the graph is built.
    """
    optimizer = tf.compat.v1.train.SyncReplicasOptimizer
    create = optimizer.__init__

    def refuse(self: Any, *args: Any, **options: Any) -> None:
        if not tf.distribute.has_strategy():
            create(self, *args, **options)
            return
        frames = [(f.filename, f.lineno or 0, f.name) for f in traceback.extract_stack()]
        message = _(
            "SyncReplicasOptimizer ({line}) works only without a tf.distribute strategy. "
            "Remove it and its hook: MultiWorkerMirroredStrategy, which "
            "LocalCluster(workers=N) uses without ps=, sums the gradients of all workers in "
            "every step. With parameter servers, steps are asynchronous."
        )
        raise ConfigError(message.format(line=readers_line(frames) or UNKNOWN_LINE))

    optimizer.__init__ = refuse
