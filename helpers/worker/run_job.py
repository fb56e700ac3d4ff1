"""Runs a job in one task."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.protocol.events import EventType
from helpers.protocol.job import EstimatorJob, FunctionJob
from helpers.protocol.serialization import to_json
from helpers.strategies import MIRRORED, MULTI_WORKER
from helpers.tf_config import EVALUATOR
from helpers.worker import waiting_call
from helpers.worker.context import WorkerContext

TOO_LATE = "Collective ops must be configured at program startup"


def run_job(
    job: EstimatorJob | FunctionJob, context: WorkerContext, first_operation: str | None = None
) -> Any:
    """Runs the task of `context`, and returns the value for the notebook.

    Args:
      first_operation: the reader's line that started TensorFlow while its modules were imported.

    Raises:
      ConfigError: the result of the reader's function cannot be sent to the notebook.
    """
    if isinstance(job, EstimatorJob):
        if first_operation and job.strategy in (MULTI_WORKER, MIRRORED):
            raise _too_early(first_operation)
        from helpers.worker.training import train

        return train(job, context)
    if job.is_server(context.config):
        from helpers.worker.server import serve

        serve(context)
    try:
        return to_json(_call(job, context))
    except RuntimeError as error:
        if first_operation and str(error).startswith(TOO_LATE):
            raise _too_early(first_operation) from None
        raise


def _too_early(line: str) -> ConfigError:
    message = _(
        "TensorFlow was initialized before the strategy: {line} runs while the functions are "
        "imported. Move tensors, variables and datasets into the functions, or keep their "
        "values as NumPy arrays."
    )
    return ConfigError(message.format(line=line))


def _call(job: FunctionJob, context: WorkerContext) -> Any:
    context.report(EventType.READY, step=0)
    evaluates = context.config.task.type == EVALUATOR
    function = job.evaluator_fn if evaluates and job.evaluator_fn else job.function
    context = replace(context, collective=job.collective)
    with waiting_call.watched(context.report):
        result = call(function, context)
    _leave_keras_group()
    return result


def _leave_keras_group() -> None:
    """Informs the other workers that this one participates in no further Keras call.

    The process stays alive after its function has returned, so a peer that calls `evaluate` alone
    would otherwise wait for it.
    """
    agreement = sys.modules.get("helpers.keras_3.agreement")
    if agreement is not None:
        agreement.leave(_("its function has returned"))


def call(function: Callable[..., Any], context: WorkerContext) -> Any:
    """Calls a function of the reader, with the context if it requires an argument."""
    return function(context) if _takes_argument(function) else function()


def _takes_argument(function: Callable[..., Any]) -> bool:
    """Whether it has a required positional parameter."""
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(function).parameters.values()
    )
