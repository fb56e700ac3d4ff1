"""Keras 3 variables on parameter servers, which several workers read and write at their own pace.

Keras adds to a variable by reading it, adding and assigning, so that what another worker added in
between is lost. And Keras 3 cannot differentiate with respect to a `ShardedVariable`. Under
ParameterServerStrategy the variables of Keras become instances of the classes below; an optimizer
updates a sharded variable shard by shard, each on the server that stores it.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from helpers.errors import ConfigError
from helpers.i18n import _, join_items

NOT_SHARDED = ("Adafactor", "Lamb", "Muon")  # optimizers whose step needs the whole variable

_on_shard = threading.local()


def is_parameter_server(strategy: Any) -> bool:
    """Whether `strategy` is a ParameterServerStrategy."""
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def install() -> None:
    """Replaces what Keras does with variables, under ParameterServerStrategy only."""
    import tensorflow as tf

    core: Any = importlib.import_module("keras.src.backend.tensorflow.core")
    base: Any = importlib.import_module("keras.src.optimizers.base_optimizer").BaseOptimizer
    optimizer: Any = importlib.import_module("keras.src.backend.tensorflow.optimizer").TFOptimizer
    metric: Any = importlib.import_module("keras.src.metrics.metric").Metric
    embedding: Any = importlib.import_module("keras.src.layers").Embedding
    core.Variable._initialize = _on_servers(core.Variable._initialize)
    metric.add_variable = _of_metric(metric.add_variable)
    tf.GradientTape.gradient = _of_shards(tf.GradientTape.gradient)
    embedding.call = _look_up(embedding.call)
    optimizer.build = _checked_build(base.build)
    optimizer.add_variable_from_reference = _beside_shards(
        optimizer.add_variable_from_reference, base.add_variable_from_reference
    )
    optimizer._var_key = _key_of_whole(optimizer._var_key)
    optimizer._backend_update_step = _update_shards(optimizer._backend_update_step)
    optimizer._apply_weight_decay = _decay_shards(optimizer._apply_weight_decay)
    optimizer._overwrite_model_variables_with_average_value = _overwrite_with_average(
        optimizer._overwrite_model_variables_with_average_value
    )


@functools.cache
def _variable_classes() -> tuple[Any, Any, Any]:
    """The classes that variables of Keras become: on a server, sharded, of a metric."""
    import tensorflow as tf

    backend: Any = importlib.import_module("keras.src.backend")
    stateless: Callable[[], bool] = importlib.import_module(
        "keras.src.backend.common.stateless_scope"
    ).in_stateless_scope
    read: WeakKeyDictionary[Any, dict[int, Any]] = WeakKeyDictionary()

    class ServerVariable(backend.Variable):
        """A variable to which all workers can add at the same time."""

        def assign_add(self, value: Any) -> Any:
            if stateless():
                return super().assign_add(value)
            return self._value.assign_add(self._convert_to_tensor(value, dtype=self._dtype))

        def assign_sub(self, value: Any) -> Any:
            if stateless():
                return super().assign_sub(value)
            return self._value.assign_sub(self._convert_to_tensor(value, dtype=self._dtype))

    class ShardedServerVariable(ServerVariable):
        """A variable in parts; while an optimizer updates one part, that part."""

        @property
        def value(self) -> Any:
            index = getattr(_on_shard, "index", None)
            if index is not None and not stateless():
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

    class MetricServerVariable(ServerVariable):
        """A variable of a metric: a step that assigns to it adds the difference to what it read."""

        @property
        def handle(self) -> Any:
            return self._value.handle

        @property
        def value(self) -> Any:
            cache = self._cache()
            if cache is None:
                return super().value
            if id(self) not in cache:
                cache[id(self)] = tf.convert_to_tensor(self._value)
            return cache[id(self)]

        def _direct_assign(self, value: Any) -> None:
            cache = self._cache()
            value = tf.cast(value, self._value.dtype)
            if cache is None:
                self._value.assign(value)
            elif value.dtype == tf.bool:
                self._value.assign(value)
                cache[id(self)] = value
            else:
                self._value.assign_add(value - self.value)
                cache[id(self)] = value

        def assign_add(self, value: Any) -> Any:
            added = super().assign_add(value)
            cache = self._cache()
            if cache is not None and id(self) in cache:
                cache[id(self)] += tf.cast(value, self._value.dtype)
            return added

        def assign_sub(self, value: Any) -> Any:
            return self.assign_add(-self._convert_to_tensor(value, dtype=self._dtype))

        def _cache(self) -> dict[int, Any] | None:
            """What was read of variables in the function that is being traced."""
            graph = tf.compat.v1.get_default_graph()
            if stateless() or tf.executing_eagerly() or not graph.building_function:
                return None
            return read.setdefault(graph, {})

    return ServerVariable, ShardedServerVariable, MetricServerVariable


def is_sharded(variable: Any) -> bool:
    """Whether a variable of Keras is stored in parts."""
    return hasattr(getattr(variable, "_value", None), "is_sharded_variable")


def servers_of(variable: Any) -> list[str]:
    """The devices that store a variable of Keras."""
    value = variable._value
    return [part.device for part in (value.variables if is_sharded(variable) else [value])]


def _on_servers(initialize: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(initialize)
    def _initialize(self: Any, value: Any) -> None:
        import tensorflow as tf

        initialize(self, value)
        if not is_parameter_server(tf.distribute.get_strategy()):
            return
        server, sharded, _metric = _variable_classes()
        if is_sharded(self):
            self.__class__ = sharded
            for shard in self._value.variables:
                shard._key_of_whole = self._value._unique_id
        elif type(self) is server.__base__:
            self.__class__ = server

    return _initialize


def _of_metric(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def add_variable(self: Any, *args: Any, **options: Any) -> Any:
        variable = add(self, *args, **options)
        server, _sharded, metric = _variable_classes()
        if type(variable) is server:
            variable.__class__ = metric
        return variable

    return add_variable


def _of_shards(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `GradientTape.gradient`: sharded variables of Keras are sources too."""

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
    """The gradient with respect to a variable, from those with respect to its shards."""
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


def _split(gradient: Any, whole: Any) -> list[Any]:
    """The gradients with respect to the shards, from that with respect to the variable."""
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        parts = whole._decompose_indexed_slices(gradient)
        return [
            tf.IndexedSlices(part.values, part.indices, dense_shape=tf.shape(shard, rows))
            for part, shard in zip(parts, whole.variables, strict=True)
            for rows in [part.indices.dtype]
        ]
    return list(tf.split(gradient, [shard.shape[0] for shard in whole.variables], axis=0))


def _look_up(call: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `Embedding.call`: each server looks up its rows; no worker reads the table."""

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


def _checked_build(build: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `build` of optimizers: what parameter servers do not permit is an error."""

    @functools.wraps(build)
    def checked_build(self: Any, variables: Any) -> None:
        if is_parameter_server(self._distribution_strategy):
            check_optimizer(self, variables)
            with self._distribution_strategy.scope():
                build(self, variables)
        elif any(isinstance(variable, _variable_classes()[0]) for variable in variables):
            raise elsewhere([variable.path for variable in self.variables])
        else:
            build(self, variables)

    return checked_build


def elsewhere(variables: Sequence[str]) -> ConfigError:
    """The error for variables that were created outside of the strategy's scope."""
    message = _(
        "These variables are not on a parameter server: {variables}. Create the model, the "
        "optimizer and the metrics, and call compile, inside strategy.scope()."
    )
    return ConfigError(message.format(variables=join_items(variables[:5])))


def check_optimizer(optimizer: Any, variables: Sequence[Any]) -> None:
    """Raises ConfigError for what no optimizer, or not this one, can do on servers."""
    name = type(optimizer).__name__
    if optimizer.gradient_accumulation_steps:
        message = _(
            "gradient_accumulation_steps={steps} does not work under ParameterServerStrategy: "
            "workers take their steps at different times and would use each other's gradients. "
            "Use a larger batch instead."
        )
        raise ConfigError(message.format(steps=optimizer.gradient_accumulation_steps))
    if optimizer.use_ema and optimizer.ema_overwrite_frequency:
        message = _(
            "ema_overwrite_frequency={steps} does not work under ParameterServerStrategy: one "
            "worker would overwrite weights while another one updates them. Omit it; Keras then "
            "writes the averages when fit ends."
        )
        raise ConfigError(message.format(steps=optimizer.ema_overwrite_frequency))
    if name == "LossScaleOptimizer":
        message = _(
            "LossScaleOptimizer (mixed_float16) does not work under ParameterServerStrategy, "
            "because workers would change the loss scale during each other's steps. Use "
            'keras.mixed_precision.set_global_policy("mixed_bfloat16").'
        )
        raise ConfigError(message)
    sharded = [variable.path for variable in variables if is_sharded(variable)]
    if sharded and name in NOT_SHARDED:
        message = _(
            "{optimizer} needs each variable as a whole, but variable_partitioner split these: "
            "{variables}. Omit variable_partitioner, or use Adam or SGD."
        )
        raise ConfigError(message.format(optimizer=name, variables=join_items(sharded)))


def _beside_shards(add: Callable[..., Any], base: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `add_variable_from_reference`: shards of a slot are stored beside the variable's.

    TensorFlow colocates no sharded variable; but its servers take turns, so that it is enough to
    say whose turn it is.
    """

    @functools.wraps(add)
    def add_variable_from_reference(
        self: Any, reference_variable: Any, *args: Any, **options: Any
    ) -> Any:
        import tensorflow as tf

        if not is_sharded(reference_variable):
            return add(self, reference_variable, *args, **options)
        extended = self._distribution_strategy.extended
        turn = extended._variable_count
        extended._variable_count = tf.DeviceSpec.from_string(servers_of(reference_variable)[0]).task
        try:
            with self._distribution_strategy.scope():
                return base(self, reference_variable, *args, **options)
        finally:
            extended._variable_count = turn

    return add_variable_from_reference


def _key_of_whole(key: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(key)
    def var_key(self: Any, variable: Any) -> Any:
        value = getattr(variable, "_value", variable)
        whole = getattr(value, "_key_of_whole", None)
        if whole is None and hasattr(value, "is_sharded_variable"):
            whole = value._unique_id
        return key(self, variable) if whole is None else whole

    return var_key


@contextmanager
def _shard(index: int) -> Iterator[None]:
    """Sharded variables are, meanwhile, their shard of this index."""
    _on_shard.index = index
    try:
        yield
    finally:
        del _on_shard.index


def _update_shards(step: Callable[..., Any]) -> Callable[..., Any]:
    """In place of `_backend_update_step`: the optimizer's step for each shard by itself."""

    @functools.wraps(step)
    def backend_update_step(
        self: Any, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        import tensorflow as tf

        pairs = list(zip(grads, trainable_variables, strict=True))
        whole = [(grad, variable) for grad, variable in pairs if not is_sharded(variable)]
        sharded = [(grad, variable) for grad, variable in pairs if is_sharded(variable)]
        if whole or not sharded:
            step(self, *map(list, zip(*whole, strict=True)), learning_rate)

        def update(strategy: Any, grad: Any, shards: Any, learning_rate: Any) -> None:
            for index, (part, shard) in enumerate(
                zip(_split(grad, shards), shards.variables, strict=True)
            ):

                def one(variable: Any, gradient: Any, rate: Any, index: int = index) -> None:
                    with _shard(index):
                        self.update_step(gradient, variable, rate)

                strategy.extended.update(shard, one, args=(part, learning_rate), group=False)

        merge_call = tf.__internal__.distribute.interim.maybe_merge_call
        for grad, variable in sharded:
            if grad is not None:
                call = functools.partial(update, shards=variable._value)
                merge_call(
                    lambda strategy, grad, rate, call=call: call(
                        strategy, grad, learning_rate=rate
                    ),
                    self._distribution_strategy,
                    grad,
                    learning_rate,
                )

    return backend_update_step


def _decay_shards(decay: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decay)
    def apply_weight_decay(self: Any, variables: Any) -> None:
        shards = [
            part
            for variable in variables
            for part in (variable._value.variables if is_sharded(variable) else [variable])
        ]
        decay(self, shards)

    return apply_weight_decay


def _overwrite_with_average(overwrite: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(overwrite)
    def overwrite_with_average(self: Any, trainable_variables: Any) -> None:
        if not is_parameter_server(self._distribution_strategy):
            overwrite(self, trainable_variables)
            return
        averages = self._model_variables_moving_average
        for variable, average in zip(trainable_variables, averages, strict=True):
            variable.assign(average)

    return overwrite_with_average
