"""`evaluate` and `predict` of Keras 3 under ParameterServerStrategy.

Each worker evaluates its own share of the batches, so that each example counts once, as on one
worker. The function that evaluates a share returns the state of the metrics after it. If a worker
dies, another worker runs the function again, so nothing counts twice.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from helpers.keras_3.coordinator_checks import (
    build_model,
    callback_list,
    check_model,
    coordinator_of,
)
from helpers.keras_3.coordinator_data import WorkerData, worker_data


def evaluate(
    model: Any,
    *,
    x: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    verbose: Any = 0,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
    kwargs: Any = None,
) -> Any:
    """Replacement for `evaluate`: each batch is evaluated once, by one of the workers."""
    model._assert_compile_called("evaluate")
    coordinator = coordinator_of(model)
    data = worker_data(x, y, sample_weight, batch_size=batch_size)
    build_model(model, data)
    check_model(model, training=False)
    called = callback_list(model, callbacks, verbose, epochs=1, steps=steps)
    shards = _shards(model, data) if _can_be_added(model) else 1
    called.on_test_begin()
    model.reset_metrics()
    variables = model.metrics_variables
    start = [variable.numpy() for variable in variables]
    found = _run_on_shards(coordinator, _evaluate_shard(model, data, steps, shards, start), shards)
    for number, (variable, value) in enumerate(zip(variables, start, strict=True)):
        added = sum(state[number] - value for state in found)
        variable.assign(value + added)
    logs = {name: to_number(value) for name, value in model.get_metrics_result().items()}
    called.on_test_end(logs)
    return logs if return_dict else model._flatten_metrics_in_order(logs)


def _evaluate_shard(
    model: Any, data: WorkerData, steps: int | None, shards: int, start: Sequence[Any]
) -> Callable[[Any], Any]:
    """The function that a worker runs in `evaluate`: it returns the metrics' variables.

    Args:
      start: the values of the variables before the first batch.
    """
    import tensorflow as tf

    variables = model.metrics_variables
    keep: Any = importlib.import_module("keras.src.backend").StatelessScope

    def step(batch: Any, state: Any) -> Any:
        with keep(state_mapping=list(zip(variables, state, strict=True))) as scope:
            model.test_step(batch)
        values = [scope.get_current_value(variable) for variable in variables]
        return [
            before if value is None else tf.cast(value, before.dtype)
            for before, value in zip(state, values, strict=True)
        ]

    def evaluate_shard(index: Any) -> Any:
        def body(batch: Any, *state: Any) -> Any:
            state = model.distribute_strategy.run(step, args=(batch.get_value(), list(state)))
            return [iterator.get_next_as_optional(), *state]

        iterator = iter(_part(data, steps, shards, index))
        first = [iterator.get_next_as_optional(), *map(tf.constant, start)]
        _last, *state = tf.while_loop(lambda batch, *_state: batch.has_value(), body, first)
        return state

    return evaluate_shard


def predict(
    model: Any,
    *,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = 0,
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Replacement for `predict`: one worker predicts each batch, and their order is kept."""
    import tensorflow as tf

    coordinator = coordinator_of(model)
    data = worker_data(x, batch_size=batch_size)
    build_model(model, data)
    check_model(model, training=False)
    called = callback_list(model, callbacks, verbose, epochs=1, steps=steps)
    shards = _shards(model, data)
    called.on_predict_begin()
    structure: list[Any] = []
    function = _predict_shard(model, data, steps, shards, structure)
    found = _run_on_shards(coordinator, function, shards)
    outputs = _in_order(found, shards)
    called.on_predict_end()
    return tf.nest.pack_sequence_as(structure[0], outputs)


def _predict_shard(
    model: Any, data: WorkerData, steps: int | None, shards: int, structure: list[Any]
) -> Callable[[Any], Any]:
    """The function that a worker runs in `predict`: it returns the batches' sizes and outputs.

    Args:
      structure: filled with the structure of an output when the function is traced.
    """
    import tensorflow as tf

    def step(batch: Any) -> Any:
        return model.distribute_strategy.run(model.predict_step, args=(batch,))

    def predict_shard(index: Any) -> Any:
        output = tf.function(step).get_concrete_function(data.element_spec).structured_outputs
        structure[:] = [output]
        arrays = [_array_of(spec) for spec in tf.nest.flatten(output)]
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

    return predict_shard


def _array_of(spec: Any) -> Any:
    """An empty TensorArray for batches of this shape and type, or None for other values."""
    import tensorflow as tf

    if not hasattr(spec, "dtype"):
        return None
    return tf.TensorArray(spec.dtype, 0, dynamic_size=True, element_shape=[None, *spec.shape[1:]])


def _in_order(found: Sequence[Any], shards: int) -> list[Any]:
    """The outputs of all batches in order, where batch k is in shard k modulo `shards`."""
    import numpy as np

    split = [
        [np.split(values, np.cumsum(sizes)[:-1]) if len(sizes) else [] for values in outputs]
        for sizes, *outputs in found
    ]
    batches = sum(len(sizes) for sizes, *_outputs in found)
    return [
        np.concatenate([split[k % shards][number][k // shards] for k in range(batches)])
        for number in range(len(found[0]) - 1)
    ]


def _part(data: WorkerData, steps: int | None, shards: int, index: Any) -> Any:
    """The batches that one worker evaluates."""
    dataset = data.function()
    if steps is not None:
        dataset = dataset.take(steps)
    return dataset.shard(shards, index) if shards > 1 else dataset


def _shards(model: Any, data: WorkerData) -> int:
    """The number of parts of the data, which is one if workers may read it in different orders."""
    return 1 if data.is_shuffled else model.distribute_strategy.extended._num_workers


def _can_be_added(model: Any) -> bool:
    """Whether the states of all metrics are sums, like the states of Keras's metrics."""
    return all(type(metric).__module__.startswith("keras.") for metric in _leaves(model.metrics))


def _leaves(metrics: Iterable[Any]) -> list[Any]:
    return [
        leaf
        for metric in metrics
        for leaf in (_leaves(metric.metrics) if getattr(metric, "metrics", None) else [metric])
    ]


def _run_on_shards(coordinator: Any, function: Any, shards: int) -> list[Any]:
    import tensorflow as tf

    on_worker = tf.function(function, autograph=False)
    results = [
        coordinator.schedule(on_worker, args=(tf.constant(index, tf.int64),))
        for index in range(shards)
    ]
    coordinator.join()
    return [coordinator.fetch(result) for result in results]


def to_number(value: Any) -> Any:
    """A scalar as a Python number, or any other value as a NumPy array."""
    value = value.numpy() if hasattr(value, "numpy") else value
    return value.item() if getattr(value, "ndim", None) == 0 else value
