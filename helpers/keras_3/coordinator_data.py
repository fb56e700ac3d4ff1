"""The source of the data of `fit`, `evaluate` and `predict` under ParameterServerStrategy.

Each worker reads its own dataset, which is built on that worker.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _


@dataclass(frozen=True)
class WorkerData:
    """How to build a dataset on a worker.

    Attributes:
      function: returns a `tf.data.Dataset`, and is called while a function for a worker is traced.
      element_spec: the `element_spec` of the dataset.
      is_shuffled: whether the order may differ between iterations or workers.
    """

    function: Callable[[], Any]
    element_spec: Any
    is_shuffled: bool


def worker_data(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    class_weight: Any = None,
    training: bool = False,
) -> WorkerData:
    """Converts the data of `fit`, `evaluate` or `predict` to a dataset that a worker can build.

    Args:
      x: a function that returns a dataset and accepts a `tf.distribute.InputContext` or no
        argument, a `tf.data.Dataset`, or arrays.
      y, sample_weight: the targets and the weights of the arrays in `x`, or None.
      batch_size: examples per batch of arrays (default: 32).
      class_weight: the weight of each class in the loss, or None.
      training: whether arrays are shuffled and repeated endlessly, as `fit` needs them.

    Raises:
      ConfigError: the data cannot be built in another process.
    """
    import tensorflow as tf

    if isinstance(x, tf.distribute.DistributedDataset) or hasattr(x, "_coordinator"):
        message = _(
            "Under ParameterServerStrategy, pass the dataset itself or a function that builds it, "
            "not {type}: fit, evaluate and predict distribute it."
        )
        raise ConfigError(message.format(type=type(x).__name__))
    if callable(x) and not isinstance(x, tf.data.Dataset):
        if y is not None or sample_weight is not None:
            message = _(
                "x is a function that builds a dataset, so the dataset must also yield the "
                "targets and the sample weights. Omit y and sample_weight."
            )
            raise ConfigError(message)
        return _from_function(x, class_weight)
    adapters: Any = importlib.import_module("keras.src.trainers.data_adapters")
    arrays = not isinstance(x, tf.data.Dataset)
    adapter = adapters.get_data_adapter(
        x=x,
        y=y,
        sample_weight=sample_weight,
        batch_size=batch_size or 32,
        shuffle=arrays and training,
        class_weight=class_weight,
    )
    dataset = adapter.get_tf_dataset()
    if arrays and training:
        dataset = dataset.repeat()
    return _from_dataset(dataset)


def _from_function(function: Callable[..., Any], class_weight: Any) -> WorkerData:
    """The data of a user's function, which is traced once to check it."""
    import tensorflow as tf

    build = functools.partial(_build, function, class_weight)
    found: list[Any] = []

    def keep() -> Any:
        found.append(build())
        return found[-1]._variant_tensor

    traced = tf.function(keep, autograph=False).get_concrete_function()
    _check_portable(traced.graph.as_graph_def().SerializeToString())
    return WorkerData(build, found[-1].element_spec, _is_shuffled(found[-1]))


def _from_dataset(dataset: Any) -> WorkerData:
    """The data of a dataset of this process, which a worker rebuilds from its graph."""
    import tensorflow as tf

    policy = tf.data.experimental.ExternalStatePolicy.WARN
    graph = tf.raw_ops.DatasetToGraphV2(
        input_dataset=dataset._variant_tensor,
        external_state_policy=policy.value,
        strip_device_assignment=True,
    )
    _check_portable(graph.numpy())
    spec = dataset.element_spec

    def restore() -> Any:
        variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)  # a constant would be folded
        return tf.data.experimental.from_variant(variant, spec)

    return WorkerData(restore, spec, _is_shuffled(dataset))


def _build(function: Callable[..., Any], class_weight: Any) -> Any:
    """The dataset that the user's function returns."""
    import tensorflow as tf

    context = tf.distribute.InputContext()
    try:
        inspect.signature(function).bind(context)
    except TypeError:
        dataset = function()
    else:
        dataset = function(context)
    if not isinstance(dataset, tf.data.Dataset):
        message = _(
            "The function that builds the data of a worker returned {type}. It must return a "
            "tf.data.Dataset."
        )
        raise ConfigError(message.format(type=type(dataset).__name__))
    if class_weight is None:
        return dataset
    adapters: Any = importlib.import_module("keras.src.trainers.data_adapters")
    return adapters.get_data_adapter(x=dataset, class_weight=class_weight).get_tf_dataset()


def _check_portable(graph: bytes) -> None:
    if b"PyFunc" in graph:
        message = _(
            "The data comes from a Python generator, PyDataset or py_function, which exist in "
            "this process only and not on the workers. Pass arrays, or a dataset made of "
            "TensorFlow operations (tf.data.TFRecordDataset, from_tensor_slices, map)."
        )
        raise ConfigError(message)


def _is_shuffled(dataset: Any) -> bool:
    """Whether the order of a dataset, or of one of its inputs, is random."""
    kind = type(dataset).__name__
    return "Shuffle" in kind or any(map(_is_shuffled, dataset._inputs()))
