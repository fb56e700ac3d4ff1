"""Project 3, in each process: the parameters, which belong to the caller, and the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.course.projects.collectives import Collectives


class Replica:
    """One copy of a model's parameters, and the student's optimizer for them.

    Args:
      create: the student's `create_optimizer`.
    """

    def __init__(self, create: Callable[..., Any], group: Collectives) -> None:
        self._create, self._group = create, group
        self._parameters: list[Any] = []
        self._optimizer: Any = None

    def create_optimizer(self, settings: Any, *parameters: Any) -> None:
        """Keeps the parameters, and creates the optimizer with these hyperparameters."""
        self._parameters = list(parameters)
        self._optimizer = self._create(self._parameters, self._group, *map(float, settings))

    def step(self, *gradients: Any) -> None:
        """Updates the parameters."""
        self._optimizer.step(list(gradients))

    def save(self, folder: Any) -> None:
        """Saves the optimizer's state. The name of the folder arrives as an array."""
        self._optimizer.save(str(folder))

    def load(self, folder: Any) -> None:
        """Restores the optimizer's state."""
        self._optimizer.load(str(folder))

    def read(self, *_arguments: Any) -> Any:
        """All parameters in one array."""
        return np.concatenate([parameter.reshape(-1) for parameter in self._parameters])
