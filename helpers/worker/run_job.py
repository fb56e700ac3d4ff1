"""Runs a job in one task."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.protocol.events import EventType
from helpers.protocol.job import EstimatorJob, FunctionJob, takes_context
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
      ConfigError: that line creates something before the strategy.
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
        return _call(job, context)
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
    context = replace(context, collective=job.collective, shards=job.shards)
    with waiting_call.watched(context.report):
        if evaluates and job.evaluator_fn:
            result = call(job.evaluator_fn, context)
        else:
            result = call(job.function, context, *job.args, **job.kwargs)
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


def call(function: Callable[..., Any], context: WorkerContext, *args: Any, **kwargs: Any) -> Any:
    """Calls a function of the reader, with the context first if it requires one more argument."""
    before = (context,) if takes_context(function, *args, **kwargs) else ()
    return function(*before, *args, **kwargs)
