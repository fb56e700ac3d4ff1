"""Keras 3 under ParameterServerStrategy: `fit`, `evaluate` and `predict` through the coordinator.

`fit` schedules its steps on whichever worker is free and waits for all of them at the end of each
epoch, as that of Keras 2 does. `evaluate` and `predict` give each worker its own share of the
batches, so that each example counts once. `helpers.keras_3` installs this; docs/KERAS_3.md,
section "Parameter servers", has the rules.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _, join_items
from helpers.keras_3 import server_variables
from helpers.keras_3.coordinator_data import WorkerData, worker_data
from helpers.keras_3.server_variables import is_parameter_server, servers_of

BATCH_HOOKS = ("on_batch_begin", "on_batch_end") + tuple(
    f"on_{mode}_batch_{edge}" for mode in ("train", "test", "predict") for edge in ("begin", "end")
)


def install() -> None:
    """Replaces `fit`, `evaluate`, `predict` and what variables need, under this strategy only."""
    server_variables.install()
    trainer: Any = importlib.import_module("keras.src.backend.tensorflow.trainer").TensorFlowTrainer
    trainer.fit = _under_servers(trainer.fit, _fit)
    trainer.evaluate = _under_servers(trainer.evaluate, _evaluate)
    trainer.predict = _under_servers(trainer.predict, _predict)
    trainer.train_on_batch = _under_servers(trainer.train_on_batch, _train_on_batch)


def _under_servers(method: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def replaced(self: Any, *args: Any, **options: Any) -> Any:
        if not is_parameter_server(self.distribute_strategy):
            return method(self, *args, **options)
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        return ours(self, **arguments)

    return replaced


def _train_on_batch(model: Any, **_arguments: Any) -> None:
    raise ConfigError(
        _(
            "train_on_batch would train in the coordinator, not on the workers. Under "
            "ParameterServerStrategy use fit, or ClusterCoordinator.schedule."
        )
    )


def _fit(
    model: Any,
    x: Any,
    y: Any,
    batch_size: int | None,
    epochs: int,
    verbose: Any,
    callbacks: Any,
    validation_split: float,
    validation_data: Any,
    shuffle: Any,
    class_weight: Any,
    sample_weight: Any,
    initial_epoch: int,
    steps_per_epoch: int | None,
    validation_steps: int | None,
    validation_batch_size: int | None,
    validation_freq: Any,
) -> Any:
    """In place of `fit`: as many steps as were asked for, on the workers that are free."""
    import tensorflow as tf

    model._assert_compile_called("fit")
    slicing: Any = importlib.import_module("keras.src.trainers.data_adapters.array_slicing")
    if not steps_per_epoch or steps_per_epoch < 0:
        raise _no_steps(steps_per_epoch)
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = slicing.train_validation_split(
            (x, y, sample_weight), validation_split=validation_split
        )
    coordinator = _coordinator(model)
    data = worker_data(
        x, y, sample_weight, batch_size=batch_size, class_weight=class_weight, training=True
    )
    _build(model, data)
    _check_model(model, training=True)
    called = _callback_list(
        model, callbacks, verbose, epochs=epochs, steps=steps_per_epoch, add_history=True
    )
    if model.train_function is None:
        model.train_function = _make_train_function(model)
    per_worker = coordinator.create_per_worker_dataset(data.function)
    iterator = iter(per_worker)
    model.stop_training = False
    called.on_train_begin()
    logs: Any = {}
    for epoch in range(model._initial_epoch or initial_epoch, epochs):
        model.reset_metrics()
        called.on_epoch_begin(epoch)
        last = _schedule_epoch(model, coordinator, iterator, called, steps_per_epoch)
        try:
            coordinator.join()
        except tf.errors.OutOfRangeError:
            warnings.warn(_out_of_data(steps_per_epoch), stacklevel=3)
            model.stop_training = True
        logs = _epoch_logs(model, last)
        if validation_data is not None and model._should_eval(epoch, validation_freq):
            values = _evaluate(
                model,
                *_unpack(validation_data),
                batch_size=validation_batch_size or batch_size,
                steps=validation_steps,
                callbacks=called,
                return_dict=True,
            )
            logs |= {f"val_{name}": value for name, value in values.items()}
        called.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    if epochs > 0:
        model.optimizer.finalize_variable_values(model.trainable_weights)
    called.on_train_end(logs)
    return model.history


def _make_train_function(model: Any) -> Callable[..., Any]:
    """What a worker does when it is scheduled: a number of steps, on its own data."""
    import tensorflow as tf

    strategy = model.distribute_strategy

    def one_step(iterator: Any) -> Any:
        return strategy.run(model.train_step, args=(next(iterator),))

    @tf.autograph.experimental.do_not_convert
    def execute(iterator: Any, steps: Any) -> Any:
        outputs = one_step(iterator)
        if model.steps_per_execution == 1:
            return outputs
        outputs = tf.nest.map_structure(tf.convert_to_tensor, outputs)
        _done, outputs = tf.while_loop(
            lambda done, _outputs: done < steps,
            lambda done, _outputs: (
                done + 1,
                tf.nest.map_structure(tf.convert_to_tensor, one_step(iterator)),
            ),
            [tf.constant(1), outputs],
        )
        return outputs

    return tf.function(execute, reduce_retracing=True)


def _schedule_epoch(
    model: Any, coordinator: Any, iterator: Any, callbacks: Any, steps_per_epoch: int
) -> Any:
    """Schedules the steps of an epoch; returns the result to come of the last ones."""
    import tensorflow as tf

    last = None
    for first in range(0, steps_per_epoch, model.steps_per_execution):
        steps = min(model.steps_per_execution, steps_per_epoch - first)
        callbacks.on_train_batch_begin(first)
        last = coordinator.schedule(model.train_function, args=(iterator, tf.constant(steps)))
        callbacks.on_train_batch_end(first + steps - 1, {})
        if model.stop_training:
            break
    return last


def _epoch_logs(model: Any, last: Any) -> dict[str, Any]:
    """The metrics of all workers; of a step with names of its own, what its last run returned."""
    import tensorflow as tf

    results = dict(model.get_metrics_result())
    try:
        returned = last.fetch()
    except (tf.errors.OpError, tf.errors.CancelledError):  # its worker is gone, its step is not
        returned = results
    logs: Any = results
    if isinstance(returned, Mapping) and set(returned) != set(results):
        logs = returned
    return {name: _number(value) for name, value in logs.items()}


def _number(value: Any) -> Any:
    value = value.numpy() if hasattr(value, "numpy") else value
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _evaluate(
    model: Any,
    x: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    verbose: Any = 0,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
    kwargs: Any = None,
) -> Any:
    """In place of `evaluate`: each batch is evaluated once, by one of the workers."""
    import tensorflow as tf

    model._assert_compile_called("evaluate")
    coordinator = _coordinator(model)
    data = worker_data(x, y, sample_weight, batch_size=batch_size)
    _build(model, data)
    _check_model(model, training=False)
    called = _callback_list(model, callbacks, verbose, epochs=1, steps=steps)
    shards = _shards(model, data) if _can_be_added(model) else 1
    called.on_test_begin()
    model.reset_metrics()
    variables = model.metrics_variables
    start = [variable.numpy() for variable in variables]
    keep: Any = importlib.import_module("keras.src.backend").StatelessScope

    @tf.function(autograph=False)
    def evaluate_shard(index: Any) -> Any:
        def step(batch: Any, state: Any) -> Any:
            with keep(state_mapping=list(zip(variables, state, strict=True))) as scope:
                model.test_step(batch)
            values = [scope.get_current_value(variable) for variable in variables]
            return [
                before if value is None else tf.cast(value, before.dtype)
                for before, value in zip(state, values, strict=True)
            ]

        def body(batch: Any, *state: Any) -> Any:
            state = model.distribute_strategy.run(step, args=(batch.get_value(), list(state)))
            return [iterator.get_next_as_optional(), *state]

        iterator = iter(_part(data, steps, shards, index))
        first = [iterator.get_next_as_optional(), *map(tf.constant, start)]
        _last, *state = tf.while_loop(lambda batch, *_state: batch.has_value(), body, first)
        return state

    found = _run_on_shards(coordinator, evaluate_shard, shards)
    for number, (variable, value) in enumerate(zip(variables, start, strict=True)):
        added = sum(state[number] - value for state in found)
        variable.assign(value + added)
    logs = {name: _number(value) for name, value in model.get_metrics_result().items()}
    called.on_test_end(logs)
    return logs if return_dict else model._flatten_metrics_in_order(logs)


def _predict(
    model: Any,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = 0,
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """In place of `predict`: each batch is predicted by one of the workers; their order is kept."""
    import numpy as np
    import tensorflow as tf

    coordinator = _coordinator(model)
    data = worker_data(x, batch_size=batch_size)
    _build(model, data)
    _check_model(model, training=False)
    called = _callback_list(model, callbacks, verbose, epochs=1, steps=steps)
    shards = _shards(model, data)
    called.on_predict_begin()
    structure: list[Any] = []

    @tf.function(autograph=False)
    def predict_shard(index: Any) -> Any:
        def step(batch: Any) -> Any:
            return model.distribute_strategy.run(model.predict_step, args=(batch,))

        output = tf.function(step).get_concrete_function(data.element_spec).structured_outputs
        structure[:] = [output]
        specs = tf.nest.flatten(output)
        arrays = [
            tf.TensorArray(spec.dtype, 0, dynamic_size=True, element_shape=[None, *spec.shape[1:]])
            if hasattr(spec, "dtype")
            else None
            for spec in specs
        ]
        sizes = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[])

        def body(batch: Any, number: Any, sizes: Any, *arrays: Any) -> Any:
            values = tf.nest.flatten(step(batch.get_value()))
            return [
                iterator.get_next_as_optional(),
                number + 1,
                sizes.write(number, tf.shape(values[0])[0]),
                *(array.write(number, value) for array, value in zip(arrays, values, strict=True)),
            ]

        iterator = iter(_part(data, steps, shards, index))
        first = [iterator.get_next_as_optional(), tf.constant(0), sizes, *arrays]
        _batch, _number, sizes, *arrays = tf.while_loop(
            lambda batch, *_rest: batch.has_value(), body, first
        )
        return [sizes.stack(), *(array.concat() for array in arrays)]

    found = _run_on_shards(coordinator, predict_shard, shards)
    split = [
        [np.split(values, np.cumsum(sizes)[:-1]) if len(sizes) else [] for values in outputs]
        for sizes, *outputs in found
    ]
    batches = sum(len(sizes) for sizes, *_outputs in found)
    outputs = [
        np.concatenate([split[k % shards][number][k // shards] for k in range(batches)])
        for number in range(len(found[0]) - 1)
    ]
    called.on_predict_end()
    return tf.nest.pack_sequence_as(structure[0], outputs)


def _part(data: WorkerData, steps: int | None, shards: int, index: Any) -> Any:
    """The batches that one of the workers evaluates."""
    dataset = data.function()
    if steps is not None:
        dataset = dataset.take(steps)
    return dataset.shard(shards, index) if shards > 1 else dataset


def _shards(model: Any, data: WorkerData) -> int:
    """Into how many parts the data is cut: one if no two workers need read it in one order."""
    return 1 if data.is_shuffled else model.distribute_strategy.extended._num_workers


def _can_be_added(model: Any) -> bool:
    """Whether all metrics add up what they saw, as those of Keras do."""
    return all(type(metric).__module__.startswith("keras.") for metric in _leaves(model.metrics))


def _leaves(metrics: Iterable[Any]) -> list[Any]:
    return [
        leaf
        for metric in metrics
        for leaf in (_leaves(metric.metrics) if getattr(metric, "metrics", None) else [metric])
    ]


def _run_on_shards(coordinator: Any, function: Any, shards: int) -> list[Any]:
    import tensorflow as tf

    results = [
        coordinator.schedule(function, args=(tf.constant(index, tf.int64),))
        for index in range(shards)
    ]
    coordinator.join()
    return [coordinator.fetch(result) for result in results]


def _coordinator(model: Any) -> Any:
    """The strategy's coordinator; there is one at most."""
    import tensorflow as tf

    return tf.distribute.coordinator.ClusterCoordinator(model.distribute_strategy)


def _build(model: Any, data: WorkerData) -> None:
    with model.distribute_strategy.scope():
        model._symbolic_build(data_batch=data.element_spec)


def _unpack(data: Any) -> tuple[Any, Any, Any]:
    utils: Any = importlib.import_module("keras.src.trainers.data_adapters.data_adapter_utils")
    unpacked: tuple[Any, Any, Any] = utils.unpack_x_y_sample_weight(data)
    return unpacked


def _callback_list(model: Any, callbacks: Any, verbose: Any, **options: Any) -> Any:
    """Keras's list of callbacks, without a progress bar: steps end elsewhere."""
    lists: Any = importlib.import_module("keras.src.callbacks").CallbackList
    if isinstance(callbacks, lists):
        return callbacks
    called = lists(callbacks, model=model, verbose=0 if verbose == "auto" else verbose, **options)
    _check_callbacks(called.callbacks)
    return called


def _check_callbacks(callbacks: Iterable[Any]) -> None:
    """Raises ConfigError if one of them must be called after each batch."""
    of_batches = [type(one).__name__ for one in callbacks if _needs_batches(one)]
    if of_batches:
        message = _(
            "These callbacks must be called after each batch, but under ParameterServerStrategy "
            "batches end on the workers: {names}. Use on_epoch_end, with fewer steps_per_epoch "
            "if it must be called more often; for ModelCheckpoint and BackupAndRestore, "
            'save_freq="epoch".'
        )
        raise ConfigError(message.format(names=join_items(of_batches)))


def _needs_batches(callback: Any) -> bool:
    callbacks: Any = importlib.import_module("keras.src.callbacks")
    if getattr(callback, "_supports_tf_logs", False):
        return False
    if isinstance(callback, (callbacks.ModelCheckpoint, callbacks.BackupAndRestore)):
        return bool(callback.save_freq != "epoch")
    if isinstance(callback, (callbacks.ProgbarLogger, callbacks.TensorBoard)):
        return getattr(callback, "update_freq", "epoch") not in ("epoch", 2**63)
    base = callbacks.Callback
    return any(
        getattr(getattr(callback, hook), "__func__", getattr(callback, hook))
        is not getattr(base, hook)
        for hook in BATCH_HOOKS
    )


def _check_model(model: Any, *, training: bool) -> None:
    """Raises ConfigError for what cannot be had."""
    if model.run_eagerly:
        raise ConfigError(
            _(
                "run_eagerly=True does not work under ParameterServerStrategy, because a worker "
                "runs TensorFlow functions only. Omit it."
            )
        )
    if model.jit_compile:
        raise ConfigError(
            _(
                "jit_compile=True does not work under ParameterServerStrategy, because XLA cannot "
                "update variables of another process. Omit it, or pass jit_compile=False."
            )
        )
    replicas = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1:
        message = _(
            "Each worker has {number} GPUs. fit, evaluate and predict of Keras 3 under "
            "ParameterServerStrategy use one device in each worker: start one worker for each "
            "GPU, and set CUDA_VISIBLE_DEVICES for it."
        )
        raise ConfigError(message.format(number=replicas))
    variables = [*model.variables, *model.metrics_variables]
    if training:
        variables += model.optimizer.variables
        server_variables.check_optimizer(model.optimizer, model.trainable_variables)
    paths = [
        variable.path
        for variable in variables
        if not all("/job:ps/" in device for device in servers_of(variable))
    ]
    if paths:
        raise server_variables.elsewhere(paths)


def _no_steps(value: Any) -> ConfigError:
    message = _(
        "steps_per_epoch={value!r}: under ParameterServerStrategy, fit needs the number of steps "
        "in an epoch, because each worker reads its own data and none of them sees where an "
        "epoch ends. Pass steps_per_epoch, and data that repeats (dataset.repeat())."
    )
    return ConfigError(message.format(value=value))


def _out_of_data(steps: int) -> str:
    message = _(
        "A worker ran out of data before {steps} steps of an epoch were done, so training ended. "
        "Each worker reads its own data, and how many batches it needs is not known before: "
        "repeat the dataset (dataset.repeat())."
    )
    return message.format(steps=steps)
