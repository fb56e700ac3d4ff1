"""Keeps large NumPy arrays out of an Estimator's graph, where TensorFlow copies them repeatedly.

A graph contains an array as a constant. Python, the session, the server and each rewriting step
copy it, and Estimator writes it into model_dir. With two workers, the first step took 51 s
with 188 MB, and more than 15 GB of memory with 614 MB. If a function returns the array, it takes 11
and 16 s.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from helpers import labels
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.i18n import _
from helpers.protocol.failures import readers_line
from helpers.protocol.portable import captured_arrays
from helpers.protocol.serialization import NUMPY_KINDS
from helpers.system.machine import free_memory
from helpers.tf_config import EVALUATOR, PS, TFConfig

MIN_BYTES = 4_000_000  # of an array that a function returns; a smaller constant costs 0.1 s at most
COPIES = 16  # of a constant in a worker; measured are 12 with 188 MB, and at least 14 with 614 MB
METHODS = ("from_tensors", "from_tensor_slices")


@contextmanager
def arrays_by_function() -> Iterator[None]:
    """Lets datasets of the current graph call a function for a large array.

    The call happens once, when a session initializes the dataset's iterator.
    """
    dataset: Any = tf.data.Dataset
    originals = {name: getattr(dataset, name) for name in METHODS}
    for name, original in originals.items():
        setattr(dataset, name, staticmethod(_with_functions(original)))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(dataset, name, staticmethod(original))


def _with_functions(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create(tensors: Any, *args: Any, **options: Any) -> Any:
        leaves = tf.nest.flatten(tensors)
        # A dataset that a function of another dataset creates would call it for each element.
        if any(map(_is_large, leaves)) and not tf.inside_function():
            tensors = tf.nest.pack_sequence_as(tensors, [_by_function(leaf) for leaf in leaves])
        return original(tensors, *args, **options)

    return create


def _is_large(value: Any) -> bool:
    if type(value) not in (np.ndarray, np.memmap):
        return False
    return value.nbytes >= MIN_BYTES and value.dtype.kind in NUMPY_KINDS


def _by_function(value: Any) -> Any:
    """A tensor with the numbers of a large array, or the value itself."""
    if not _is_large(value):
        return value
    # TensorFlow uses the result's memory, and may write into it.
    tensor = tf.numpy_function(value.copy, [], value.dtype)
    tensor.set_shape(value.shape)
    return tensor


class ConstantsCheck:
    """Checks whether the constants of a graph fit into the memory of this machine.

    The chief checks this for all workers of its machine. The free memory is measured once, before
    the first graph.

    Args:
      config: the place of this task.
      functions: the reader's functions, whose arrays a message names.
    """

    def __init__(self, config: TFConfig, functions: Iterable[Callable[..., Any]]) -> None:
        self._free = free_memory()
        self._workers = _workers_here(config)
        self._names = dict(captured_arrays(functions))

    def run(self) -> None:
        """Checks the current graph.

        Raises:
          ConfigError: its constants do not fit.
        """
        constants = sorted(_large_constants(), key=lambda one: one[0])
        needed = COPIES * sum(size for size, _operation in constants) * self._workers
        if self._free is None or needed <= self._free:
            return
        size, operation = constants[-1]
        frames = [(f.filename, f.lineno, f.name) for f in operation.traceback]
        name = self._names.get(size) or _("an array")
        message = _(
            "TensorFlow writes {name} into the graph as a constant of {size} ({line}). The workers "
            "of this machine would need about {needed} of memory for the copies of all such "
            "constants, and {free} are free. Pass the array to tf.data.Dataset.from_tensor_slices "
            "in input_fn, without tf.constant, or use fewer workers."
        )
        raise ConfigError(
            message.format(
                name=name,
                size=labels.format_bytes(size),
                line=readers_line(frames) or operation.name,
                needed=labels.format_bytes(needed),
                free=labels.format_bytes(self._free),
            )
        )


class ConstantsHook(tf.estimator.SessionRunHook):
    """Checks the whole graph of training, before a session receives it."""

    def __init__(self, constants: ConstantsCheck) -> None:
        self._constants = constants

    def begin(self) -> None:
        """Runs the check."""
        self._constants.run()


def _large_constants() -> Iterator[tuple[int, Any]]:
    """The bytes and the operations of the constants of the current graph, if they are large."""
    for operation in tf.compat.v1.get_default_graph().get_operations():
        if operation.type == "Const":
            [tensor] = operation.outputs
            size = (tensor.shape.num_elements() or 0) * tensor.dtype.size
            if size >= MIN_BYTES:
                yield size, operation


def _workers_here(config: TFConfig) -> int:
    """The number of workers whose memory this task checks."""
    if config.task != config.chief or config.task.type == EVALUATOR or not config.cluster:
        return 1
    host = str(config.address).rpartition(":")[0]
    hosts = [config.address_of(task).rpartition(":")[0] for task in config.tasks if task.type != PS]
    return max(1, hosts.count(host))
