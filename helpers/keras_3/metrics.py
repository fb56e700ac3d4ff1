"""Metrics of the global batch, in the logs of each batch and of the epoch.

Keras sums the state of a metric over the workers at the end of an epoch. The logs of a batch,
however, are means of each worker's own result, which differ from the result of the summed state.
And a custom metric may have a state that cannot be summed.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from helpers.keras_3.means import RankZeroError, gather
from helpers.keras_3.step import Step, current, is_multi_worker
from helpers.keras_3.tensors import as_tensor, is_number, read

_replicated: weakref.WeakSet[Any] = weakref.WeakSet()  # metrics whose state is equal on all workers


def install() -> None:
    """Replaces methods of Keras's metrics and trainers."""
    metrics: Any = importlib.import_module("keras.src.metrics")
    trainers: Any = importlib.import_module("keras.src.trainers.trainer")
    base = metrics.Metric
    base.add_variable = _equal_everywhere(base.add_variable)
    base.__init__ = _with_methods_wrapped(base.__init__)
    for kind in _subclasses(base):
        wrap_methods(kind)
    metrics.Mean.update_state = _of_scalars(metrics.Mean.update_state)
    metrics.Sum.update_state = _of_scalars(metrics.Sum.update_state)
    wrapper = metrics.MeanMetricWrapper
    wrapper.update_state = _of_functions(wrapper.update_state)
    trainer = trainers.Trainer
    trainer.get_metrics_result = _together(trainer.get_metrics_result)


def _of_scalars(update: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Mean.update_state` and `Sum.update_state`: one number is this part's mean.

    If its weight is the size of the part, as in Keras's `train_step`, that size is its weight in
    the global mean. Otherwise the weight is this part's share of the global batch, so the numbers
    of all workers together count as one.
    """

    @functools.wraps(update)
    def update_state(self: Any, values: Any, sample_weight: Any = None) -> Any:
        import tensorflow as tf

        step = current()
        if step is None:
            return update(self, values, sample_weight)
        if step.expects_rows and is_number(values):
            raise RankZeroError
        if sample_weight is not None and is_number(sample_weight):
            values = _mean(values)
        if not is_number(values) or not is_number(sample_weight):
            return update(self, values, sample_weight)
        values = step.unless_empty(tf.cast(tf.convert_to_tensor(values), self.dtype))
        if not _is_size(sample_weight, step):
            share = tf.cast(step.share(), self.dtype)
            factor = 1.0 if sample_weight is None else tf.cast(sample_weight, self.dtype)
            sample_weight = share * factor
        return update(self, values, sample_weight)

    return update_state


def _mean(values: Any) -> Any:
    """The mean of values, computed as in Keras with one weight for all, or 0 if there are none."""
    import tensorflow as tf

    values = as_tensor(values)
    if values.shape.rank == 0:
        return values
    return tf.math.divide_no_nan(tf.reduce_sum(values), tf.cast(tf.size(values), values.dtype))


def _is_size(sample_weight: Any, step: Step) -> bool:
    """Whether a weight is the size of the part, as a tensor or as its known number."""
    import tensorflow as tf

    if sample_weight is None:
        return False
    if not isinstance(sample_weight, int | float):
        return True
    known = tf.get_static_value(step.size)
    return known is not None and float(known) == float(sample_weight)


def _of_functions(update: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `MeanMetricWrapper.update_state`: scalar functions receive the global batch.

    If the function returns a single number, only the first worker counts its result.
    """

    @functools.wraps(update)
    def update_state(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        step = current()
        if step is None:
            return update(self, y_true, y_pred, sample_weight)
        outer, step.expects_rows = step.expects_rows, True
        try:
            return update(self, y_true, y_pred, sample_weight)
        except RankZeroError:
            pass
        finally:
            step.expects_rows = outer
        y_true, y_pred, sample_weight = gather(step, (y_true, y_pred, sample_weight))
        return step.globally(_count_once, step, update, self, y_true, y_pred, sample_weight)

    return update_state


def _count_once(step: Step, update: Callable[..., Any], metric: Any, *args: Any) -> None:
    """Updates a metric's state on the first worker only."""
    import tensorflow as tf

    scope: Any = importlib.import_module("keras.src.backend").StatelessScope
    variables = metric.variables
    with scope(state_mapping=[(v, tf.convert_to_tensor(v)) for v in variables]) as updated:
        update(metric, *args)
    for variable in variables:
        new, old = updated.get_current_value(variable), tf.convert_to_tensor(variable)
        variable.assign(tf.where(tf.equal(step.index, 0), new, old))


def _together(get: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Trainer.get_metrics_result`: computes results from the state of all workers.

    In a step, one collective sums the states of all metrics.
    """

    @functools.wraps(get)
    def get_metrics_result(self: Any) -> Any:
        step = current()
        if step is None:
            return _as_tensors(get(self))
        return _results(step, self.metrics, lambda: get(self))

    return get_metrics_result


def _results(step: Step, metrics: Sequence[Any], compute: Callable[[], Any]) -> Any:
    """The results of `compute` with the states of all workers."""
    scope: Any = importlib.import_module("keras.src.backend").StatelessScope
    variables, kept = _variables(metrics)
    values = step.sum([as_tensor(v) for v in variables]) if variables else []
    pairs = [*zip(variables, values, strict=True), *((v, as_tensor(v)) for v in kept)]
    with scope(state_mapping=pairs):
        found = _as_tensors(step.globally(compute))
    return step.note(found)


def _variables(metrics: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The variables of metrics to be summed, and the variables that are equal on all workers."""
    equal = [v for metric in _flat(metrics) if metric in _replicated for v in metric.variables]
    every = {id(v): v for metric in metrics for v in metric.variables}
    kept = {id(v): v for v in equal}
    return [v for name, v in every.items() if name not in kept], list(kept.values())


def _flat(metrics: Sequence[Any]) -> list[Any]:
    """Metrics, and the metrics that they contain."""
    flat = list(metrics)
    for metric in metrics:
        inner = [*getattr(metric, "metrics", ()), *metric._metrics]
        flat += _flat([one for one in inner if one is not metric])
    return flat


def _as_tensors(results: Any) -> Any:
    tree: Any = importlib.import_module("keras.src.tree")
    return tree.map_structure(read, results)


def _with_methods_wrapped(init: Callable[..., None]) -> Callable[..., None]:
    """Wraps `Metric.__init__`: wraps the methods that its class defines, once."""

    @functools.wraps(init)
    def initialize(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        wrap_methods(type(self))
        if _is_own(type(self)):
            _replicated.add(self)

    return initialize


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    """A class and its subclasses."""
    found = [kind]
    for derived in kind.__subclasses__():
        found += _subclasses(derived)
    return found


def wrap_methods(kind: type) -> None:
    """Wraps `result` of a metric's class, and `update_state` if it is not Keras's."""
    for owner in kind.__mro__:
        method = owner.__dict__.get("result")
        if method and not hasattr(method, "is_global"):
            owner.result = _of_summed_state(method)  # type: ignore[attr-defined]
        method = owner.__dict__.get("update_state")
        if method and _is_own(owner) and not hasattr(method, "is_global"):
            owner.update_state = _on_global_batch(method)  # type: ignore[attr-defined]


def _is_own(kind: type) -> bool:
    """Whether `update_state` of a metric's class is not Keras's."""
    method: Any = kind.update_state  # type: ignore[attr-defined]
    return not (method.__module__ or "").startswith("keras.")


def _of_summed_state(result: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a metric's `result`: in a step, computes the result from the state of all workers."""

    @functools.wraps(result)
    def global_result(self: Any) -> Any:
        step = current()
        if step is None:
            return result(self)
        return _results(step, [self], lambda: result(self))

    global_result.is_global = True  # type: ignore[attr-defined]
    return global_result


def _on_global_batch(update: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a custom `update_state`: each worker updates the state with the global batch.

    The state may be a maximum, a ratio or a list of values, so it may be impossible to sum. It is
    therefore kept equal on all workers. A number is assumed to be a mean of this part.
    """

    @functools.wraps(update)
    def update_state(self: Any, *args: Any, **options: Any) -> Any:
        step = current()
        if step is None:
            return update(self, *args, **options)
        args, options = gather(step, _of_all(step, (args, options)))
        return step.globally(update, self, *args, **options)

    update_state.is_global = True  # type: ignore[attr-defined]
    return update_state


def _of_all(step: Step, values: Any) -> Any:
    """Converts scalar tensors to means over the global batch."""
    import tensorflow as tf

    tree: Any = importlib.import_module("keras.src.tree")
    leaves = tree.flatten(values)
    places = [
        i for i, leaf in enumerate(leaves) if isinstance(leaf, tf.Tensor) and leaf.shape.rank == 0
    ]
    for place, mean in zip(places, step.mean([leaves[i] for i in places]), strict=True):
        leaves[place] = mean
    return tree.pack_sequence_as(values, leaves)


def _equal_everywhere(add: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `Metric.add_variable`: the state of a custom metric is not summed."""

    @functools.wraps(add)
    def add_variable(self: Any, *args: Any, **options: Any) -> Any:
        import tensorflow as tf

        if is_multi_worker(tf.distribute.get_strategy()) and _is_own(type(self)):
            options["aggregation"] = "only_first_replica"
        return add(self, *args, **options)

    return add_variable
