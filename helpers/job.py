"""What is to be trained, as it travels from the notebook to every worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
