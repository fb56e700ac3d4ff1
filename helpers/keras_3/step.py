"""One training or test step of one worker, and the values it needs from the other workers.

Inside a step, every scalar is a mean over this worker's part of the global batch. Workers are
weighted by the sizes of their parts:

   global mean = sum(size * mean) / sum(size)

So a mean needs a collective only when it is used, and not when it is computed: the size of the part
is summed together with the gradients.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from helpers.keras_3.tensors import as_tensor, is_variable, padded, rows, unpacked, with_own


class _Running:
    """The step that runs in this process.

    A worker has one replica, so one instance serves all threads, which optimizers also start.

    Attributes:
      step: the current step.
      outputs: the outputs of the latest step, by id, which are equal on all workers.
    """

    step: Step | None = None
    outputs: dict[int, Any] = {}  # noqa: RUF012  # replaced by each step


def is_collective(strategy: Any) -> bool:
    """Whether `strategy` is a MultiWorkerMirroredStrategy, even with one worker."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_multi_worker(strategy: Any) -> bool:
    """Whether several workers train under `strategy`."""
    return is_collective(strategy) and strategy.extended._in_multi_worker_mode()


def has_one_device(strategy: Any) -> bool:
    """Whether each worker has one device."""
    return len(strategy.extended.worker_devices) == 1


def current() -> Step | None:
    """The current step, or None outside of steps and during computations on the global batch."""
    step = _Running.step
    return None if step is None or step.is_global else step


def running() -> Step | None:
    """The current step, or None outside of steps."""
    return _Running.step


def is_finished(value: Any) -> bool:
    """Whether `value` is an output of a finished step, and so is equal on all workers."""
    return _Running.outputs.get(id(value)) is value


def exactly(model: Any, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wraps `function`, a train or test step, to return the outputs of the global batch."""

    @functools.wraps(function)
    def step(data: Any) -> Any:
        outer, _Running.step = _Running.step, Step(model, data)
        try:
            outputs = _Running.step.finish(function(data))
            _Running.outputs = {id(leaf): leaf for leaf in _tree().flatten(outputs)}
        finally:
            _Running.step = outer
        return outputs

    return step


class Step:
    """A step on this worker's part of the global batch.

    Attributes:
      model: the model that is trained or tested.
      size: the number of examples in the part, a float32 scalar, which may be 0.
      is_global: whether the code now computes on the global batch.
      keeps_rows: whether the current loss has an entry for each example.
      expects_rows: whether a metric receives a function's result, which may be a single number.
      summed: the variables whose gradients have been summed over the workers, by `key`.
    """

    def __init__(self, model: Any, data: Any) -> None:
        import tensorflow as tf

        self.model = model
        self._data = [leaf for leaf in _tree().flatten(data) if leaf is not None]
        self._ids = {id(leaf) for leaf in self._data}
        self._context = tf.distribute.get_replica_context()
        self._graph = tf.compat.v1.get_default_graph()
        self.size = tf.cast(rows(self._data[0]) if self._data else 1, tf.float32)
        self.is_global = False
        self.keeps_rows = self.expects_rows = False
        self.summed: set[int] = set()
        self._total: Any = None
        self._exact: dict[int, Any] = {}
        self._gathered: list[tuple[list[Any], list[Any]]] = []

    @property
    def workers(self) -> int:
        """The number of workers that train together."""
        return int(self._context.num_replicas_in_sync)

    @property
    def index(self) -> Any:
        """The number of this worker, from 0."""
        return self._context.replica_id_in_sync_group

    def has(self, value: Any) -> bool:
        """Whether `value` is part of the data, and so has an entry for each example."""
        return id(value) in self._ids

    def sum(self, values: Sequence[Any]) -> list[Any]:
        """Sums each of `values` over the workers, with one collective per type."""
        import tensorflow as tf

        values = [tf.convert_to_tensor(value) for value in values]
        sums: dict[int, Any] = {}
        for kind in dict.fromkeys(value.dtype for value in values):
            places = [place for place, value in enumerate(values) if value.dtype == kind]
            flat = tf.concat([tf.reshape(values[place], [-1]) for place in places], 0)
            flat = self._context.all_reduce(tf.distribute.ReduceOp.SUM, tf.stop_gradient(flat))
            pieces = unpacked(flat, [values[place] for place in places])
            sums |= dict(zip(places, pieces, strict=True))
        return [sums[place] for place in range(len(values))]

    def total(self) -> Any:
        """The number of examples in the global batch, a float32 scalar."""
        if self._total is None:
            [total] = self.sum([self.size])
            self.remember(total)
            return total
        return self._total

    def remember(self, total: Any) -> None:
        """Stores the result of `total`, unless it belongs to a branch or a loop of the graph."""
        import tensorflow as tf

        if tf.compat.v1.get_default_graph() is self._graph:
            self._total = total

    def share(self) -> Any:
        """The ratio of the size of this part to the size of the global batch."""
        import tensorflow as tf

        return tf.math.divide_no_nan(self.size, self.total())

    def unless_empty(self, value: Any) -> Any:
        """`value`, or 0 if this part is empty, because a mean over nothing is NaN."""
        import tensorflow as tf

        return tf.where(self.size > 0, value, tf.zeros_like(value))

    def gather(self, values: Sequence[Any]) -> list[Any]:
        """The rows of all workers, in the order of the workers.

        Gradients flow to this worker's rows. They are scaled so that they are right after the
        workers have been weighted.
        """
        import tensorflow as tf

        for given, found in self._gathered:
            if len(given) == len(values) and all(map(_is, given, values)):
                return found
        tensors = [tf.convert_to_tensor(value) for value in values]
        found = self._gather(tensors)
        if tf.compat.v1.get_default_graph() is self._graph:
            self._gathered.append((list(values), found))
        return found

    def _gather(self, tensors: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        own = tf.stack([tf.shape(tensor)[0] for tensor in tensors])
        counts = tf.one_hot(self.index, self.workers, dtype=tf.float32)
        counts, total = self.sum([counts[:, tf.newaxis] * tf.cast(own, tf.float32), self.size])
        self.remember(total)
        counts = tf.cast(counts, tf.int32)
        before = tf.reduce_sum(counts[: self.index], axis=0)
        after = tf.reduce_sum(counts, axis=0) - before - own
        wholes = self.sum([padded(t, before[i], after[i]) for i, t in enumerate(tensors)])
        scale = tf.math.divide_no_nan(total, self.size)
        return [
            with_own(whole, tensor, before[i], scale)
            for i, (whole, tensor) in enumerate(zip(wholes, tensors, strict=True))
        ]

    def globally(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls `function` as on one worker: on the global batch, without summing anything."""
        self.is_global = True
        try:
            return function(*args, **options)
        finally:
            self.is_global = False

    def note(self, values: Any) -> Any:
        """Marks outputs as equal on all workers, and returns them."""
        self._exact |= {id(leaf): leaf for leaf in _tree().flatten(values)}
        return values

    def finish(self, outputs: Any) -> Any:
        """The outputs of the step for the global batch: means, weighted by the parts' sizes."""
        leaves = [
            self._value(leaf) if is_variable(leaf) else leaf for leaf in _tree().flatten(outputs)
        ]
        means = []
        for place, leaf in enumerate(leaves):
            if not _is_open(leaf) or self._exact.get(id(leaf)) is leaf:
                continue
            if _has_rows(leaf):
                [leaves[place]] = self.gather([leaf])
            else:
                means.append(place)
        for place, mean in zip(means, self.mean([leaves[p] for p in means]), strict=True):
            leaves[place] = mean
        return _tree().pack_sequence_as(outputs, leaves)

    def _value(self, variable: Any) -> Any:
        """The value of a variable that a step returns. A metric's value is summed."""
        is_part = getattr(variable, "synchronization", None) == "on_read"
        value = as_tensor(variable)
        if is_part and variable.aggregation == "sum":
            [value] = self.sum([value])
        return self.note(value)

    def mean(self, values: Sequence[Any]) -> list[Any]:
        """Means over the global batch, computed from means over the parts."""
        import tensorflow as tf

        if not values:
            return []
        floats = [tf.cast(value, _wide(value.dtype)) for value in values]
        weighted = [self.unless_empty(v) * tf.cast(self.size, v.dtype) for v in floats]
        *sums, total = self.sum([*weighted, self.size])
        self.remember(total)
        means = [tf.math.divide_no_nan(s, tf.cast(total, s.dtype)) for s in sums]
        return [
            tf.cast(tf.round(mean) if value.dtype.is_integer else mean, value.dtype)
            for value, mean in zip(values, means, strict=True)
        ]


def _tree() -> Any:
    return importlib.import_module("keras.src.tree")


def _is(one: Any, other: Any) -> bool:
    return one is other


def _is_open(leaf: Any) -> bool:
    """Whether an output may differ between workers."""
    import tensorflow as tf

    return bool(tf.is_tensor(leaf) and (leaf.dtype.is_floating or leaf.dtype.is_integer))


def _has_rows(tensor: Any) -> bool:
    """Whether a tensor may have an entry for each example, because its shape is not fixed."""
    return bool(tensor.shape.rank) and not tensor.shape.is_fully_defined()


def _wide(kind: Any) -> Any:
    import tensorflow as tf

    return tf.float64 if kind in (tf.float64, tf.int64) else tf.float32
