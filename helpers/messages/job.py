"""What every task of a cluster is to do, as it travels from the notebook to the workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.errors import ConfigError, check_count, unknown_choice
from helpers.i18n import _
from helpers.tf_config import EVALUATOR, PS, TFConfig

if TYPE_CHECKING:
    from helpers.worker.program import WorkerContext

DEFAULT_PARAMS: Mapping[str, Any] = {
    "batch_size": 64,
    "learning_rate": 0.025,
    "momentum": 0.9,
    "seed": 1,
}
EVALUATE = ("after", "beside", None)


@dataclass(frozen=True)
class EstimatorJob:
    """One Estimator training, the same in every task. Calling it does the work: that imports
    TensorFlow, making it does not. `estimator_job` makes one, and says what the fields are.
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
    replicas: int = 1

    def serves(self, config: TFConfig) -> bool:
        """Whether a task only serves: it never ends by itself. Parameter servers do."""
        return config.task.type == PS

    def __call__(self, context: WorkerContext) -> None:
        """Does the part of the task that `context` names."""
        from helpers.worker.training import train

        train(self, context)


def estimator_job(
    model_fn: Callable[..., Any],
    input_fn: Callable[..., Any],
    *,
    model_dir: str,
    strategy: str = "MultiWorkerMirroredStrategy",
    collective: str = "AUTO",
    epochs: int | None = None,
    steps: int | None = None,
    params: Mapping[str, Any] | None = None,
    save_checkpoints_steps: int = 200,
    evaluate: str | None = "after",
    replicas: int = 1,
) -> EstimatorJob:
    """Checks what is asked for, and makes the job of it.

    Args: as `LocalCluster` and `LocalCluster.train` take them; `replicas` is that of each
      process. Every task must reach `model_dir`.

    Raises:
      ConfigError: a value that cannot be, or two that exclude each other.
    """
    if evaluate not in EVALUATE:
        raise unknown_choice("evaluate", evaluate, EVALUATE)
    counts = {"epochs": epochs, "steps": steps, "save_checkpoints_steps": save_checkpoints_steps}
    for name, value in counts.items():
        if value is not None:
            check_count(name, value)
    if epochs is not None and steps is not None:
        message = _("epochs={epochs} and steps={steps} exclude each other: give one.")
        raise ConfigError(message.format(epochs=epochs, steps=steps))
    return EstimatorJob(
        model_fn=model_fn,
        input_fn=input_fn,
        params={**DEFAULT_PARAMS, **(params or {})},
        model_dir=model_dir,
        strategy=strategy,
        collective=collective,
        steps=steps,
        epochs=epochs,
        save_checkpoints_steps=save_checkpoints_steps,
        evaluate=evaluate,
        replicas=replicas,
    )


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

    def serves(self, config: TFConfig) -> bool:
        """Whether a task only serves: workers and parameter servers of a coordinator do."""
        return config.is_server

    def __call__(self, context: WorkerContext) -> Any:
        """Calls the function; what it returns goes to the notebook."""
        if self.serves(context.config):
            from helpers.worker.server import serve

            serve(context)
        context.report("ready", step=0)
        evaluates = context.config.task.type == EVALUATOR
        function = self.beside if evaluates and self.beside else self.function
        return function(context) if _asks_for_an_argument(function) else function()


def _asks_for_an_argument(function: Callable[..., Any]) -> bool:
    """Whether it has a parameter that must be given, in its place."""
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(function).parameters.values()
    )
