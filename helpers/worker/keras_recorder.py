"""Records the computation of a Keras 3 program in a worker, for `helpers.compare`.

`fit`, `evaluate` and `train_on_batch` of Keras are wrapped, so the program needs no change. The
record contains each batch's logs, its examples, the weights after it, and the gradients of the
first batch.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from helpers.worker.context import WorkerContext
from helpers.worker.keras_snapshots import (
    MAX_NUMBERS,
    Record,
    first_tensor,
    hash_of,
    norms,
    numbers,
    own_layers,
    replicas,
    row_hashes,
    size,
    snapshot,
    split,
)
from helpers.worker.run_job import call

SEED = 1
MAX_STEPS = 500  # of all calls of fit that are recorded
MAX_ROWS = 50_000  # examples whose hashes are recorded


@dataclass(frozen=True)
class Recorded:
    """A function that returns a record of the Keras program it calls.

    Python's and NumPy's random numbers are seeded first, so that weights start with the same values
    for each group size. TensorFlow's are not, because a seed would hide an order of examples that
    differs by worker.
    """

    function: Callable[..., Any]

    def __call__(self, context: WorkerContext) -> Record:
        """Calls the function and returns the record, which consists of plain values."""
        import numpy as np

        random.seed(SEED)
        np.random.seed(SEED)
        recorder = _Recorder()
        with recorder:
            returned = call(self.function, context)
        return recorder.record() | {"returned": numbers(returned)}


class _Recorder:
    """Wraps the methods of Keras's trainer while its context is active."""

    def __init__(self) -> None:
        self._fits: list[Record] = []
        self._results: list[Record] = []
        self._models: list[Any] = []
        self._inside = False
        self._rows = MAX_ROWS
        self._original: dict[str, Any] = {}

    def __enter__(self) -> None:
        trainer = _trainer()
        for name in ("fit", "evaluate", "train_on_batch", "test_on_batch"):
            self._original[name] = method = getattr(trainer, name)
            wrap = self._fit if name == "fit" else self._call
            setattr(trainer, name, _as_method(method, wrap))

    def __exit__(self, *_error: object) -> None:
        for name, method in self._original.items():
            setattr(_trainer(), name, method)

    def record(self) -> Record:
        """The whole record, with the current weights."""
        models = [snapshot(model) for model in self._models]
        return {"fits": self._fits, "results": self._results, "models": models}

    def _call(self, method: Callable[..., Any], model: Any, *args: Any, **options: Any) -> Any:
        """Replaces `evaluate`, `train_on_batch` and `test_on_batch`."""
        if self._inside:
            return method(model, *args, **options)
        self._note(model)
        self._inside = True
        try:
            result = method(model, *args, **options)
        finally:
            self._inside = False
        self._results.append({"call": method.__name__, "result": numbers(result)})
        return result

    def _fit(self, method: Callable[..., Any], model: Any, *args: Any, **options: Any) -> Any:
        """Replaces `fit`."""
        if self._inside:
            return method(model, *args, **options)
        self._note(model)
        bound = inspect.signature(method).bind(model, *args, **options)
        callbacks = bound.arguments.get("callbacks")
        watch = _Watch(model, self._rows, sum(len(fit["steps"]) for fit in self._fits))
        if callbacks is not None and type(callbacks).__name__ == "CallbackList":
            callbacks.append(watch.callback)
        else:
            several = isinstance(callbacks, (list, tuple))
            others = list(callbacks or ()) if several or not callbacks else [callbacks]
            bound.arguments["callbacks"] = [*others, watch.callback]
        self._fits.append(watch.record)
        self._inside = True
        try:
            with watch:
                history = method(*bound.args, **bound.kwargs)
        finally:
            self._inside = False
            self._rows = watch.rows_left
        watch.record["history"] = numbers(history.history)
        return history

    def _note(self, model: Any) -> None:
        if not any(model is other for other in self._models):
            self._models.append(model)


class _Watch:
    """Records one call of `fit`."""

    def __init__(self, model: Any, rows: int, steps: int) -> None:
        self._model = model
        self._steps_left = MAX_STEPS - steps
        self.rows_left = rows
        self._x: list[int] = []
        self._y: list[int] = []
        self._parts: list[int] = []
        self._weights = 0.0  # of the samples
        self._tracing = False
        self._numbers_left = MAX_NUMBERS
        self._gradients: Record = {}
        self.record: Record = {
            "steps": [],
            "epochs": [],
            "history": {},
            "steps_per_execution": int(model.steps_per_execution),
            "layers": own_layers(model),
            "scope": replicas(model),
        }
        self.callback = _callback(self)

    def __enter__(self) -> None:
        """Makes the model's next train function record the data of each step, and gradients."""
        from helpers.estimator import tf

        model = self._model
        self._gradient = tf.GradientTape.gradient
        tf.GradientTape.gradient = self._noting_gradient(self._gradient)
        object.__setattr__(model, "train_step", self._noting_data(model.train_step))
        self._optimizer = model.optimizer
        if self._optimizer is not None:
            apply = self._noting_apply(self._optimizer.apply)
            object.__setattr__(self._optimizer, "apply", apply)
        object.__setattr__(model, "train_function", None)  # it was built without them

    def __exit__(self, *_error: object) -> None:
        from helpers.estimator import tf

        tf.GradientTape.gradient = self._gradient
        self._model.__dict__.pop("train_step", None)
        if self._optimizer is not None:
            self._optimizer.__dict__.pop("apply", None)
        object.__setattr__(self._model, "train_function", None)

    def begin(self) -> None:
        """Called when `fit` has built the model."""
        self.record |= {"initial": snapshot(self._model)}

    def end_epoch(self) -> None:
        """Called at the end of an epoch."""
        self.record["epochs"].append(len(self.record["steps"]))

    def end_step(self, logs: Mapping[str, Any]) -> None:
        """Called at the end of an execution of one or more steps."""
        if self._steps_left <= 0:
            return
        self._steps_left -= 1
        trained, state = split(self._model)
        self.record["steps"].append(
            {
                "logs": numbers(logs or {}),
                "parts": self._parts,
                "x": self._x,
                "y": self._y,
                "sample_weight": self._weights,
                "trained": norms(trained),
                "state": norms(state),
                "hashes": [hash_of(trained), hash_of(state)],
                "gradients": self._gradients,
            }
        )
        self._x, self._y, self._parts, self._weights = [], [], [], 0.0
        self._gradients = {}

    def _noting_data(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        import keras

        from helpers.estimator import tf

        def train_step(data: Any) -> Any:
            x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
            first = [first_tensor(part) for part in (x, y, weights)]
            present = [tensor is not None for tensor in first]
            tensors = [tensor for tensor in first if tensor is not None]
            if tensors:
                tf.numpy_function(functools.partial(self._note_rows, present), tensors, [])
            self._tracing = True
            try:
                return step(data)
            finally:
                self._tracing = False

        return train_step

    def _noting_gradient(self, gradient: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(gradient)
        def noting(tape: Any, target: Any, sources: Any, *args: Any, **options: Any) -> Any:
            found = gradient(tape, target, sources, *args, **options)
            trained = self._model.trainable_weights
            if self._tracing and isinstance(found, list) and len(found) == len(trained):
                self._note_gradients("tape", found)
            return found

        return noting

    def _noting_apply(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        def noting(grads: Any, trainable_variables: Any = None) -> Any:
            grads = list(grads)
            if self._tracing:
                self._note_gradients("apply", grads)
            return apply(grads, trainable_variables)

        return noting

    def _note_gradients(self, where: str, gradients: list[Any]) -> None:
        from helpers.estimator import tf

        dense = [tf.convert_to_tensor(one) for one in gradients if one is not None]
        tf.numpy_function(functools.partial(self._keep_gradients, where), dense, [])

    def _keep_gradients(self, where: str, *gradients: Any) -> None:
        self._numbers_left -= size(gradients)
        if self._numbers_left >= 0:
            import numpy as np

            flat = [np.asarray(one, "float64").ravel() for one in gradients]
            self._gradients[where] = np.concatenate(flat).tolist() if flat else []

    def _note_rows(self, present: list[bool], *tensors: Any) -> None:
        given = iter(tensors)
        x, y, weights = (next(given) if one else None for one in present)
        count = len(x) if x is not None and x.ndim else 0
        self._parts.append(count)
        if weights is not None:
            self._weights += float(weights.sum())
        if self.rows_left >= count:
            self.rows_left -= count
            self._x += row_hashes(x)
            self._y += row_hashes(y)


def _trainer() -> Any:
    import importlib

    return importlib.import_module("keras.src.backend.tensorflow.trainer").TensorFlowTrainer


def _as_method(method: Callable[..., Any], wrap: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapped(self: Any, *args: Any, **options: Any) -> Any:
        return wrap(method, self, *args, **options)

    return wrapped


def _callback(watch: _Watch) -> Any:
    import keras

    class Recording(keras.callbacks.Callback):
        """Reports the progress of `fit` to the watch."""

        def on_train_begin(self, logs: Any = None) -> None:
            watch.begin()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            watch.end_step(logs)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            watch.end_epoch()

    return Recording()
