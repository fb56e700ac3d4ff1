"""Detects workers that have diverged in their programs, weights or strategies.

`fit`, `evaluate` and `predict` synchronize with the other workers when they begin. `fit` also does
so at the end of each epoch and every CHECK_STEPS steps. Each time, the workers compare their
positions in the program, their weights and their state, and agree on whether to stop.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from helpers.i18n import _, join_items, labeled
from helpers.keras_3 import scopes, state
from helpers.keras_3.agreement import (
    Call,
    DivergedError,
    Group,
    group_of,
)
from helpers.keras_3.fingerprint import compare
from helpers.keras_3.scopes import user_location
from helpers.keras_3.step import is_multi_worker

CHECK_STEPS = 500

ALIKE = ("epochs", "initial_epoch", "validation_freq", "validation_steps", "validation_split")
"""Options of `fit` that must be equal on all workers."""


def install() -> None:
    """Replaces `fit`, `evaluate` and `predict` of Keras's trainer."""
    trainers: Any = importlib.import_module("keras.src.backend.tensorflow.trainer")
    trainer = trainers.TensorFlowTrainer
    together = _callback()
    for name in ("fit", "evaluate", "predict"):
        setattr(trainer, name, _guarded(getattr(trainer, name), name, together))
    scopes.install()
    state.install()


def check_weights(group: Group) -> None:
    """Compares the workers' weights during `fit`."""
    call = group.calls[-1]
    text = _("step {step} of {call}").format(step=call.begun, call=call.text)
    compare(group, call.model, "check", text, steps=call.begun)


def _guarded(method: Callable[..., Any], name: str, together: Any) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        strategy = self.distribute_strategy
        if not is_multi_worker(strategy):
            scopes.check_alone(self, name)
            return method(self, *args, **options)
        scopes.check_strategies(self, strategy, name)
        group = group_of(strategy)
        given = signature.bind(self, *args, **options)
        text = _("{method} of {model!r} ({line})")
        text = text.format(method=name, model=self.name, line=user_location())
        given.apply_defaults()
        facts = {key: _plain(given.arguments.get(key)) for key in ALIKE if name == "fit"}
        facts["validates"] = given.arguments.get("validation_data") is not None
        call = Call(name, text, facts, self)
        if name == "fit":
            _add(given, together(group, call))
        with group.calling(call):
            return method(*given.args, **given.kwargs)

    return guarded


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else str(value)


def _add(given: inspect.BoundArguments, callback: Any) -> None:
    """Adds a callback after the user's callbacks."""
    tree: Any = importlib.import_module("keras.src.tree")
    callbacks: Any = given.arguments.get("callbacks")
    if hasattr(callbacks, "append") and hasattr(callbacks, "callbacks"):  # a CallbackList
        callbacks.callbacks[:] = [c for c in callbacks.callbacks if type(c) is not type(callback)]
        callback.set_model(given.arguments["self"])
        callbacks.append(callback)
    else:
        given.arguments["callbacks"] = [*tree.flatten(callbacks or []), callback]


def _callback() -> Any:
    import keras

    class Together(keras.callbacks.Callback):
        """Compares the workers at the start and after each epoch, and stops all if one stops."""

        def __init__(self, group: Group, call: Call) -> None:
            super().__init__()
            self._group, self._call = group, call

        def on_train_begin(self, logs: Any = None) -> None:
            """Compares weights, and the epoch at which training resumes from a backup."""
            first = self.model._initial_epoch or 0
            text = _("the start of {call}").format(call=self._call.text)
            positions = compare(self._group, self.model, "start", text, epoch=first)
            _same_first_epoch(self._group, positions, self._call.text)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            """Compares weights, and stops all workers if one of them is to stop."""
            text = _("the end of epoch {epoch} of {call}")
            text = text.format(epoch=epoch + 1, call=self._call.text)
            stop = bool(self.model.stop_training)
            positions = compare(self._group, self.model, "epoch", text, epoch=epoch, stop=stop)
            stopping = [
                name
                for name, position in zip(self._group.names, positions, strict=True)
                if position["stop"]
            ]
            if stopping and len(stopping) < self._group.size:
                message = _(
                    "stop_training was set on {workers} only, so all workers stop here, at the end "
                    "of epoch {epoch} of {call}."
                )
                values = {"epoch": epoch + 1, "call": self._call.text}
                message = message.format(workers=join_items(stopping), **values)
                warnings.warn(message, stacklevel=2)
            self.model.stop_training = bool(stopping)

    return Together


def _same_first_epoch(group: Group, positions: list[dict[str, Any]], call: str) -> None:
    """Raises DivergedError unless all workers begin with the same epoch."""
    epochs = [position["epoch"] for position in positions]
    if len(set(epochs)) > 1:
        message = _(
            "The workers start with different epochs, at the start of {call}: {values}. Pass the "
            "same value on all workers."
        )
        values = join_items(map(labeled, group.names, epochs))
        raise DivergedError(message.format(call=call, values=values))
