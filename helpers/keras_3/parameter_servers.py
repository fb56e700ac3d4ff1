"""Keras 3 under ParameterServerStrategy: `fit`, `evaluate` and `predict` through the coordinator.

`fit` schedules each step on any free worker and waits for all steps at the end of each epoch, as in
Keras 2. `evaluate` and `predict` assign each worker its own share of the batches, so that each
example counts once. `helpers.keras_3` installs this module. The rules are in docs/KERAS_3.md,
section "Parameter servers".
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _, ngettext
from helpers.keras_3 import server_optimizers, server_variables
from helpers.keras_3.coordinator_checks import (
    build_model,
    callback_list,
    check_model,
    coordinator_of,
)
from helpers.keras_3.coordinator_data import WorkerData, worker_data
from helpers.keras_3.coordinator_evaluation import evaluate, predict, to_number
from helpers.keras_3.server_variables import is_parameter_server


def install() -> None:
    """Replaces `fit`, `evaluate`, `predict` and functions of variables for this strategy."""
    server_variables.install()
    server_optimizers.install()
    trainer: Any = importlib.import_module("keras.src.backend.tensorflow.trainer").TensorFlowTrainer
    trainer.fit = _under_servers(trainer.fit, _fit)
    trainer.evaluate = _under_servers(trainer.evaluate, evaluate)
    trainer.predict = _under_servers(trainer.predict, predict)
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
    *,
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
    """Replacement for `fit`: runs the requested number of steps on the free workers."""
    model._assert_compile_called("fit")
    if not steps_per_epoch or steps_per_epoch < 0:
        raise _no_steps(steps_per_epoch)
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = _split((x, y, sample_weight), validation_split)
    coordinator = coordinator_of(model)
    data = worker_data(
        x, y, sample_weight, batch_size=batch_size, class_weight=class_weight, training=True
    )
    build_model(model, data)
    check_model(model, training=True)
    called = callback_list(
        model, callbacks, verbose, epochs=epochs, steps=steps_per_epoch, add_history=True
    )
    options = {"batch_size": validation_batch_size or batch_size, "steps": validation_steps}
    validate = functools.partial(_validate, model, validation_data, validation_freq, options)
    span = range(initial_epoch, epochs)
    _train(model, coordinator, data, called, validate, epochs=span, steps_per_epoch=steps_per_epoch)
    return model.history


def _split(arrays: Any, validation_split: float) -> Any:
    """The training arrays and the validation arrays."""
    slicing: Any = importlib.import_module("keras.src.trainers.data_adapters.array_slicing")
    return slicing.train_validation_split(arrays, validation_split=validation_split)


def _train(
    model: Any,
    coordinator: Any,
    data: WorkerData,
    called: Any,
    validate: Callable[..., dict[str, Any]],
    *,
    epochs: range,
    steps_per_epoch: int,
) -> None:
    """Runs the epochs, from the initial epoch that a callback may have restored."""
    import tensorflow as tf

    if model.train_function is None:
        model.train_function = _make_train_function(model)
    per_worker = coordinator.create_per_worker_dataset(data.function)
    iterator = iter(per_worker)
    model.stop_training = False
    called.on_train_begin()
    logs: Any = {}
    for epoch in range(getattr(model, "_initial_epoch", None) or epochs.start, epochs.stop):
        model.reset_metrics()
        called.on_epoch_begin(epoch)
        last = _schedule_epoch(model, coordinator, iterator, called, steps_per_epoch)
        try:
            coordinator.join()
        except tf.errors.OutOfRangeError:
            warnings.warn(_out_of_data(steps_per_epoch), stacklevel=4)
            model.stop_training = True
        logs = _epoch_logs(model, last) | validate(epoch=epoch, called=called)
        called.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    if epochs.stop > 0:
        model.optimizer.finalize_variable_values(model.trainable_weights)
    called.on_train_end(logs)


def _validate(
    model: Any, data: Any, freq: Any, options: dict[str, Any], *, epoch: int, called: Any
) -> dict[str, Any]:
    """The logs that validation adds after an epoch."""
    if data is None or not model._should_eval(epoch, freq):
        return {}
    values = evaluate(model, **_unpack(data), **options, callbacks=called, return_dict=True)
    return {f"val_{name}": value for name, value in values.items()}


def _make_train_function(model: Any) -> Callable[..., Any]:
    """The function scheduled on a worker: it runs a number of steps on the worker's data."""
    import tensorflow as tf

    strategy = model.distribute_strategy

    def one_step(iterator: Any) -> Any:
        return strategy.run(model.train_step, args=(next(iterator),))

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

    return tf.function(execute, reduce_retracing=True, autograph=False)


def _schedule_epoch(
    model: Any, coordinator: Any, iterator: Any, callbacks: Any, steps_per_epoch: int
) -> Any:
    """Schedules the steps of an epoch, and returns the future of the last ones."""
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
    """The metrics of all workers, or the last outputs of a step with custom names."""
    import tensorflow as tf

    results = dict(model.get_metrics_result())
    try:
        returned = last.fetch()
    except (tf.errors.OpError, tf.errors.CancelledError):  # the worker was lost after the step
        returned = results
    logs: Any = results
    if isinstance(returned, Mapping) and set(returned) != set(results):
        logs = returned
    return {name: to_number(value) for name, value in logs.items()}


def _unpack(data: Any) -> dict[str, Any]:
    utils: Any = importlib.import_module("keras.src.trainers.data_adapters.data_adapter_utils")
    unpacked = utils.unpack_x_y_sample_weight(data)
    return dict(zip(("x", "y", "sample_weight"), unpacked, strict=True))


def _no_steps(value: Any) -> ConfigError:
    message = _(
        "steps_per_epoch={value!r}: under ParameterServerStrategy, fit needs the number of steps "
        "in an epoch, because each worker reads its own data and none of them sees where an "
        "epoch ends. Pass steps_per_epoch, and data that repeats (dataset.repeat())."
    )
    return ConfigError(message.format(value=value))


def _out_of_data(steps: int) -> str:
    message = ngettext(
        "A worker ran out of data before {steps} step of an epoch was done, so training "
        "ended. Each worker reads its own data, and how many batches it needs is not known "
        "in advance: repeat the dataset (dataset.repeat()).",
        "A worker ran out of data before {steps} steps of an epoch were done, so training "
        "ended. Each worker reads its own data, and how many batches it needs is not known "
        "in advance: repeat the dataset (dataset.repeat()).",
        steps,
    )
    return message.format(steps=steps)
