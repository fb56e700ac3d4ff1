"""Does what a job asks for, in one task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from helpers.protocol.events import EventType
from helpers.protocol.job import EstimatorJob, FunctionJob
from helpers.protocol.serialization import to_json
from helpers.tf_config import EVALUATOR
from helpers.worker.context import WorkerContext


def run_job(job: EstimatorJob | FunctionJob, context: WorkerContext) -> Any:
    """Does the part of the task that `context` names; returns what goes to the notebook.

    Raises:
      ConfigError: what the reader's function returned cannot go there.
    """
    if isinstance(job, EstimatorJob):
        from helpers.worker.training import train

        return train(job, context)
    if job.is_server(context.config):
        from helpers.worker.server import serve

        serve(context)
    return to_json(_call(job, context))


def _call(job: FunctionJob, context: WorkerContext) -> Any:
    context.report(EventType.READY, step=0)
    evaluates = context.config.task.type == EVALUATOR
    function = job.evaluator_fn if evaluates and job.evaluator_fn else job.function
    context = replace(context, collective=job.collective)
    return call(function, context)


def call(function: Callable[..., Any], context: WorkerContext) -> Any:
    """Calls a function of the reader's, with the context if it requires an argument."""
    return function(context) if _takes_argument(function) else function()


def _takes_argument(function: Callable[..., Any]) -> bool:
    """Whether it has a parameter that must be given, in its place."""
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(function).parameters.values()
    )
