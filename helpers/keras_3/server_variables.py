"""Keras 3 variables on parameter servers, which several workers read and write at their own pace.

Keras adds to a variable by reading it, adding and assigning, so that an addition by another worker
in between is lost. And Keras 3 cannot differentiate with respect to a `ShardedVariable`. Under
ParameterServerStrategy, the variables of Keras become instances of the classes below, and
`server_optimizers` updates them.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

_on_shard = threading.local()
_read_in: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()  # by the traced graph


def is_parameter_server(strategy: Any) -> bool:
    """Whether `strategy` is a ParameterServerStrategy."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def install() -> None:
    """Replaces functions of Keras that handle variables, under ParameterServerStrategy only."""
    import tensorflow as tf

    core: Any = importlib.import_module("keras.src.backend.tensorflow.core")
    metric: Any = importlib.import_module("keras.src.metrics.metric").Metric
    embedding: Any = importlib.import_module("keras.src.layers").Embedding
    core.Variable._initialize = _on_servers(core.Variable._initialize)
    metric.add_variable = _of_metric(metric.add_variable)
    tf.GradientTape.gradient = _of_shards(tf.GradientTape.gradient)
    embedding.call = _look_up(embedding.call)


@functools.cache
def server_variable() -> Any:
    """The class of variables that a server stores."""
    backend: Any = importlib.import_module("keras.src.backend")
    scopes: Any = importlib.import_module("keras.src.backend.common.stateless_scope")

    class ServerVariable(backend.Variable):
        """A variable to which all workers can add at the same time."""

        _is_stateless = staticmethod(scopes.in_stateless_scope)

        def assign_add(self, value: Any) -> Any:
            if self._is_stateless():
                return super().assign_add(value)
            return self._value.assign_add(self._convert_to_tensor(value, dtype=self._dtype))

        def assign_sub(self, value: Any) -> Any:
            if self._is_stateless():
                return super().assign_sub(value)
            return self._value.assign_sub(self._convert_to_tensor(value, dtype=self._dtype))

    return ServerVariable


@functools.cache
def _sharded_server_variable() -> Any:
    """The class of variables that several servers store."""

    class ShardedServerVariable(server_variable()):  # type: ignore[misc]
        """A variable in parts, which represents one part while an optimizer updates that part."""

        @property
        def value(self) -> Any:
            index = getattr(_on_shard, "index", None)
            if index is not None and not self._is_stateless():
                return self._value.variables[index]
            return super().value

        @property
        def shape(self) -> Any:
            index = getattr(_on_shard, "index", None)
            return super().shape if index is None else self._value.variables[index].shape

        def numpy(self) -> Any:
            return self._value.numpy()

        def __array__(self, dtype: Any = None) -> Any:
            return self.numpy().astype(dtype or self._value.dtype.as_numpy_dtype)

    return ShardedServerVariable


@functools.cache
def _metric_server_variable() -> Any:
    """The class of variables of a metric."""
    import tensorflow as tf

    class MetricServerVariable(server_variable()):  # type: ignore[misc]
        """A metric's variable: an assignment in a step adds the difference from the value read."""

        @property
        def handle(self) -> Any:
            return self._value.handle

        @property
        def value(self) -> Any:
            cache = _values_read(self)
            if cache is None:
                return super().value
            if id(self) not in cache:
                cache[id(self)] = tf.convert_to_tensor(self._value)
            return cache[id(self)]

        def _direct_assign(self, value: Any) -> None:
            _assign_difference(self, tf.cast(value, self._value.dtype))

        def assign_add(self, value: Any) -> Any:
            added = super().assign_add(value)
            cache = _values_read(self)
            if cache is not None and id(self) in cache:
                cache[id(self)] += tf.cast(value, self._value.dtype)
            return added

        def assign_sub(self, value: Any) -> Any:
            return self.assign_add(-self._convert_to_tensor(value, dtype=self._dtype))

    return MetricServerVariable


def _assign_difference(variable: Any, value: Any) -> None:
    """Assigns to a metric's variable, or adds the difference from the value read in a step."""
    import tensorflow as tf

    cache = _values_read(variable)
    if cache is None:
        variable._value.assign(value)
    elif value.dtype == tf.bool:
        variable._value.assign(value)
        cache[id(variable)] = value
    else:
        variable._value.assign_add(value - variable.value)
        cache[id(variable)] = value


def _values_read(variable: Any) -> dict[int, Any] | None:
    """The values of metrics' variables read in the function being traced, by variable id."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    if variable._is_stateless() or tf.executing_eagerly() or not graph.building_function:
        return None
    return _read_in.setdefault(graph, {})


@contextmanager
def on_shard(index: int) -> Iterator[None]:
    """Makes sharded variables represent their shard of this index inside the context."""
    _on_shard.index = index
    try:
        yield
    finally:
        del _on_shard.index


def is_sharded(variable: Any) -> bool:
    """Whether a Keras variable is stored in parts."""
    return hasattr(getattr(variable, "_value", None), "is_sharded_variable")


def servers_of(variable: Any) -> list[str]:
    """The devices that store a Keras variable."""
    value = variable._value
    return [part.device for part in (value.variables if is_sharded(variable) else [value])]


def _on_servers(initialize: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(initialize)
    def _initialize(self: Any, value: Any) -> None:
        import tensorflow as tf

        initialize(self, value)
        if not is_parameter_server(tf.distribute.get_strategy()):
            return
        server = server_variable()
        if is_sharded(self):
            self.__class__ = _sharded_server_variable()
            for shard in self._value.variables:
                shard._key_of_whole = self._value._unique_id
        elif type(self) is server.__base__:
            self.__class__ = server

    return _initialize


def _of_metric(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def add_variable(self: Any, *args: Any, **options: Any) -> Any:
        variable = add(self, *args, **options)
        if type(variable) is server_variable():
            variable.__class__ = _metric_server_variable()
        return variable

    return add_variable


def _of_shards(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `GradientTape.gradient`: accepts sharded Keras variables as sources."""

    @functools.wraps(gradient)
    def of_shards(self: Any, target: Any, sources: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        if not any(is_sharded(source) for source in tf.nest.flatten(sources)):
            return gradient(self, target, sources, *args, **options)
        flat = [
            list(source._value.variables) if is_sharded(source) else [source]
            for source in tf.nest.flatten(sources)
        ]
        parts = gradient(self, target, flat, *args, **options)
        whole = [
            _join(part, source) if is_sharded(source) else part[0]
            for part, source in zip(parts, tf.nest.flatten(sources), strict=True)
        ]
        return tf.nest.pack_sequence_as(sources, whole)

    return of_shards


def _join(parts: Sequence[Any], variable: Any) -> Any:
    """The gradient with respect to a variable, from the gradients with respect to its shards."""
    import tensorflow as tf

    shards = variable._value.variables
    if all(part is None for part in parts):
        return None
    if not all(isinstance(part, tf.IndexedSlices) for part in parts):
        dense = [
            tf.zeros_like(shard) if part is None else tf.convert_to_tensor(part)
            for part, shard in zip(parts, shards, strict=True)
        ]
        return tf.concat(dense, axis=0)
    rows, first = [], 0
    for part, shard in zip(parts, shards, strict=True):
        rows.append(part.indices + tf.cast(first, part.indices.dtype))
        first += shard.shape[0]
    return tf.IndexedSlices(
        tf.concat([part.values for part in parts], axis=0),
        tf.concat(rows, axis=0),
        dense_shape=tf.constant(variable._value.shape.as_list(), rows[0].dtype),
    )


def _look_up(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Embedding.call`: each server looks up its own rows, and no worker reads the table."""

    @functools.wraps(call)
    def embedding_call(self: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        table: Any = getattr(self, "_embeddings", None)
        stateless = importlib.import_module("keras.src.backend").in_stateless_scope()
        if stateless or not is_sharded(table) or getattr(self, "lora_enabled", False):
            return call(self, inputs, *args, **options)
        rows = tf.convert_to_tensor(inputs)
        if rows.dtype not in (tf.int32, tf.int64):
            rows = tf.cast(rows, tf.int32)
        return tf.cast(tf.nn.embedding_lookup(table._value, rows), self.compute_dtype)

    return embedding_call
