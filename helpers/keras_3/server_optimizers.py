"""Optimizers of Keras 3 that update variables on parameter servers.

An optimizer updates a sharded variable shard by shard, each on the server that stores it. An
optimizer that requires synchronized workers raises ConfigError when it is built.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _, join_items
from helpers.keras_3.server_variables import (
    is_parameter_server,
    is_sharded,
    on_shard,
    server_variable,
    servers_of,
)

NOT_SHARDED = ("Adafactor", "Lamb", "Muon")  # optimizers whose update needs the whole variable


def install() -> None:
    """Replaces functions of Keras's optimizers that handle variables on parameter servers."""
    base: Any = importlib.import_module("keras.src.optimizers.base_optimizer").BaseOptimizer
    optimizer: Any = importlib.import_module("keras.src.backend.tensorflow.optimizer").TFOptimizer
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


def _checked_build(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `build` of optimizers: options that parameter servers do not support are errors."""

    @functools.wraps(build)
    def checked_build(self: Any, variables: Any) -> None:
        if is_parameter_server(self._distribution_strategy):
            _check_place(self)
            check_optimizer(self, variables)
            with self._distribution_strategy.scope():
                build(self, variables)
        elif any(isinstance(variable, server_variable()) for variable in variables):
            raise elsewhere([variable.path for variable in self.variables])
        else:
            build(self, variables)

    return checked_build


def _check_place(optimizer: Any) -> None:
    """Raises ConfigError in a step, which cannot create variables on parameter servers."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is not None and context.strategy is optimizer._distribution_strategy:
        message = _(
            "The optimizer has no variables before the first step, and a step cannot create them "
            "on parameter servers. Call {code} inside strategy.scope(), before you schedule steps."
        )
        raise ConfigError(message.format(code="optimizer.build(model.trainable_variables)"))


def elsewhere(variables: Sequence[str]) -> ConfigError:
    """The error for variables that were created outside of the strategy's scope."""
    message = _(
        "These variables are not on a parameter server: {variables}. Create the model, the "
        "optimizer and the metrics, and call compile, inside strategy.scope()."
    )
    return ConfigError(message.format(variables=join_items(variables[:5])))


def check_optimizer(optimizer: Any, variables: Sequence[Any]) -> None:
    """Raises ConfigError if parameter servers do not support this optimizer or its options."""
    name = type(optimizer).__name__
    if optimizer.gradient_accumulation_steps:
        message = _(
            "gradient_accumulation_steps={steps} does not work under ParameterServerStrategy: "
            "workers run their steps at different times and would use each other's gradients. Use "
            "a larger batch instead."
        )
        raise ConfigError(message.format(steps=optimizer.gradient_accumulation_steps))
    if optimizer.use_ema and optimizer.ema_overwrite_frequency:
        message = _(
            "ema_overwrite_frequency={steps} does not work under ParameterServerStrategy: one "
            "worker would overwrite weights while another one updates them. Omit it, and Keras "
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
    """Wraps `add_variable_from_reference`: shards of a slot are stored with the variable's shards.

    TensorFlow does not colocate sharded variables. But it places shards on its servers in turn, so
    this function only sets the next server.
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


def _update_shards(step: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `_backend_update_step`: the optimizer updates each shard separately."""

    @functools.wraps(step)
    def backend_update_step(
        self: Any, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        if not is_parameter_server(self._distribution_strategy):
            step(self, grads, trainable_variables, learning_rate)
            return
        update_step = self.update_step
        self.update_step = _one_at_a_time(update_step)
        try:
            _update_each(self, step, grads, trainable_variables, learning_rate)
        finally:
            self.update_step = update_step

    return backend_update_step


def _update_each(
    optimizer: Any,
    step: Callable[..., Any],
    grads: Any,
    trainable_variables: Any,
    learning_rate: Any,
) -> None:
    """Updates each variable, and each shard of a sharded variable."""
    import tensorflow as tf

    pairs = list(zip(grads, trainable_variables, strict=True))
    whole = [(grad, variable) for grad, variable in pairs if not is_sharded(variable)]
    sharded = [(grad, variable) for grad, variable in pairs if is_sharded(variable)]
    if whole or not sharded:
        step(optimizer, *map(list, zip(*whole, strict=True)), learning_rate)

    def update(strategy: Any, grad: Any, shards: Any, learning_rate: Any) -> None:
        for index, (part, shard) in enumerate(
            zip(_split(grad, shards), shards.variables, strict=True)
        ):

            def one(variable: Any, gradient: Any, rate: Any, index: int = index) -> None:
                with on_shard(index):
                    optimizer.update_step(gradient, variable, rate)

            strategy.extended.update(shard, one, args=(part, learning_rate), group=False)

    merge_call = tf.__internal__.distribute.interim.maybe_merge_call
    for grad, variable in sharded:
        if grad is not None:
            call = functools.partial(update, shards=variable._value)
            merge_call(
                lambda strategy, grad, rate, call=call: call(strategy, grad, learning_rate=rate),
                optimizer._distribution_strategy,
                grad,
                learning_rate,
            )


def _one_at_a_time(update_step: Callable[..., None]) -> Callable[..., None]:
    """Wraps an optimizer's update of one variable: other workers cannot interrupt it.

    Adam, for example, divides a mean of gradients by the root of a mean of their squares. If
    another worker has updated the first but not yet the second, which is 0 in the first steps, the
    quotient is a million times too large.
    """

    def step(gradient: Any, variable: Any, learning_rate: Any) -> None:
        import tensorflow as tf

        with tf.init_scope(), tf.device(variable.device):
            alone = tf.CriticalSection(shared_name=f"update of {variable.name}")

        def update() -> Any:
            graph = tf.compat.v1.get_default_graph()
            before = len(graph.get_operations())
            update_step(gradient, variable, learning_rate)
            with tf.control_dependencies(graph.get_operations()[before:]):
                return tf.constant(True)

        with tf.device(variable.device):
            alone.execute(update, exclusive_resource_access=False)

    return step


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


def _split(gradient: Any, whole: Any) -> list[Any]:
    """The gradients with respect to the shards, from the gradient with respect to the variable."""
    import tensorflow as tf

    if isinstance(gradient, tf.IndexedSlices):
        parts = whole._decompose_indexed_slices(gradient)
        return [
            tf.IndexedSlices(part.values, part.indices, dense_shape=tf.shape(shard, rows))
            for part, shard in zip(parts, whole.variables, strict=True)
            for rows in [part.indices.dtype]
        ]
    return list(tf.split(gradient, [shard.shape[0] for shard in whole.variables], axis=0))
