"""Checks that the program creates models and optimizers in a strategy's scope."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _, join_sentences

OUTSIDE = ("keras", "tensorflow", "helpers", "contextlib", "functools", "threading")


def install() -> None:
    """Makes models record the lines at which they were created and compiled."""
    trainers: Any = importlib.import_module("keras.src.backend.tensorflow.trainer")
    base: Any = importlib.import_module("keras.src.trainers.trainer")
    trainer = trainers.TensorFlowTrainer
    trainer.__init__ = _remembering(trainer.__init__, "_created_at")
    base.Trainer.compile = _remembering(base.Trainer.compile, "_compiled_at")


def check_alone(model: Any, name: str) -> None:
    """Raises ConfigError if `fit` would train on this worker alone, by mistake.

    A model that each worker is to train separately is created in the scope of another strategy.
    """
    if name != "fit" or model._distribute_strategy is not None or not _has_peers():
        return
    message = _(
        "fit of {model!r} would train on each worker alone, on all of the data: the model was "
        "created at {line}, outside of strategy.scope(). Create and compile it inside, with the "
        "strategy that this process created. (If each worker is to train its own model, create it "
        'in the scope of tf.distribute.OneDeviceStrategy("/cpu:0").)'
    )
    raise ConfigError(message.format(model=model.name, line=_line(model, "_created_at")))


def check_strategies(model: Any, strategy: Any, name: str) -> None:
    """Raises ConfigError if variables of the model or its optimizer have another strategy."""
    for variable, part in _variables(model):
        owner = getattr(variable._value, "_distribute_strategy", None)
        if owner is strategy:
            continue
        message = _misplaced(part, outside=owner is None).format(
            method=name,
            model=model.name,
            line=_line(model, "_created_at"),
            compiled=_line(model, "_compiled_at"),
            variable=variable.path,
        )
        advice = _("Create one strategy, and create and compile the model inside its scope().")
        raise ConfigError(join_sentences([message, advice]))


def _misplaced(part: str, *, outside: bool) -> str:
    """The sentence about a variable of the model or optimizer that belongs elsewhere."""
    match part, outside:
        case "optimizer", True:
            return _(
                "{method} of {model!r}, created at {line}, cannot train on several workers: its "
                "optimizer, compiled at {compiled}, was created outside of strategy.scope()."
            )
        case "optimizer", False:
            return _(
                "{method} of {model!r}, created at {line}, cannot train on several workers: its "
                "optimizer, compiled at {compiled}, belongs to a different strategy "
                "than the model: the program has created two."
            )
        case _model, True:
            return _(
                "{method} of {model!r}, created at {line}, cannot train on several workers: its "
                "variable {variable} was created outside of strategy.scope()."
            )
        case _other:
            return _(
                "{method} of {model!r}, created at {line}, cannot train on several workers: its "
                "variable {variable} belongs to a different strategy than the model: "
                "the program has created two."
            )


def _variables(model: Any) -> Iterator[tuple[Any, str]]:
    for variable in model.trainable_weights:
        if getattr(variable, "_value", None) is not None:
            yield variable, "model"
    for variable in getattr(getattr(model, "optimizer", None), "variables", ()):
        if getattr(variable, "_value", None) is not None:
            yield variable, "optimizer"


def _has_peers() -> bool:
    """Whether this process has created a strategy of several workers."""
    context: Any = importlib.import_module("tensorflow.python.eager.context").context()
    server = getattr(context, "_collective_ops_server_def", None)
    if server is None:
        return False
    return sum(len(job.tasks) for job in server.cluster.job if job.name != "evaluator") > 1


def _remembering(method: Callable[..., Any], attribute: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def remembering(self: Any, *args: Any, **options: Any) -> Any:
        result = method(self, *args, **options)
        object.__setattr__(self, attribute, user_location())
        return result

    return remembering


def _line(model: Any, attribute: str) -> str:
    return str(getattr(model, attribute, "?"))


def user_frame() -> tuple[str, int]:
    """The file of the user's program, and its current line."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not any(name == package or name.startswith(f"{package}.") for package in OUTSIDE):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "?", 0


def user_location() -> str:
    """The current position in the user's program, as `file.py:12`."""
    file, line = user_frame()
    return f"{file.replace(os.sep, '/').rpartition('/')[2]}:{line}" if line else file
