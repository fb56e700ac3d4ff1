"""What every task of a cluster is to do, as it travels from the notebook to the workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.tf_config import EVALUATOR

if TYPE_CHECKING:
    from helpers.worker import WorkerContext


@dataclass(frozen=True)
class EstimatorJob:
    """One Estimator training, the same in every task; the fields are those of
    `LocalCluster.train`. Calling it does the work: that imports TensorFlow, making it does not.
    """

    model_fn: Callable[..., Any]
    input_fn: Callable[..., Any]
    params: Mapping[str, Any]
    model_dir: str
    strategy: str
    collective: str
    steps: int | None
    epochs: int | None
    save_checkpoints_steps: int
    evaluate: str | None

    def __call__(self, context: WorkerContext) -> None:
        """Does the part of the task that `context` names."""
        from helpers.training import train

        train(self, context)


@dataclass(frozen=True)
class FunctionJob:
    """Any function of the reader's, called once in every task, with the task's context if it
    asks for an argument. Where there are parameter servers, only the chief calls it.

    Attributes:
      function: what workers, or the chief, call.
      beside: what an evaluator calls; None where there is none.
    """

    function: Callable[..., Any]
    beside: Callable[..., Any] | None = None

    def __call__(self, context: WorkerContext) -> Any:
        """Calls the function; what it returns goes to the notebook."""
        if context.config.is_server:
            from helpers.server import serve

            serve(context)
        context.report("ready", step=0)
        evaluates = context.config.task.type == EVALUATOR
        function = self.beside if evaluates and self.beside else self.function
        return function(context) if inspect.signature(function).parameters else function()
