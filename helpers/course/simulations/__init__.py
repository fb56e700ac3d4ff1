"""Experiments: move a slider, and see the result immediately as a chart and a text.

A simulation is a plain function of its settings. Only the functions of this module need ipywidgets,
so a web page can run the same simulations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.course.simulations import (
    autoshard_widget,
    checkpoints,
    learning_rates,
    memory,
    ring,
    stale_gradients,
    step_costs,
)

if TYPE_CHECKING:
    from helpers.course.simulations.experiment import Experiment
    from helpers.course.simulations.simulation import Simulation

SIMULATIONS: dict[str, Callable[[], Simulation]] = {
    "checkpoint_interval": checkpoints.simulation,
    "learning_rate_and_batch": learning_rates.simulation,
    "memory_planner": memory.simulation,
    "ring_rounds": ring.simulation,
    "sharding_policies": autoshard_widget.simulation,
    "staleness": stale_gradients.simulation,
    "step_cost": step_costs.simulation,
}
__all__ = [
    "checkpoint_interval",
    "learning_rate_and_batch",
    "memory_planner",
    "ring_rounds",
    "sharding_policies",
    "staleness",
    "step_cost",
]


def checkpoint_interval() -> Experiment:
    """The lost time over the interval between checkpoints, and the best interval."""
    return _shown(checkpoints.simulation())


def learning_rate_and_batch() -> Experiment:
    """The accuracy over the learning rate for each global batch, and two rules' predictions."""
    return _shown(learning_rates.simulation())


def memory_planner() -> Experiment:
    """The memory of a worker in each ZeRO stage, and the memory of a device."""
    return _shown(memory.simulation())


def ring_rounds(workers: int = 4) -> Experiment:
    """The states of a ring from round to round, with a slider for the number of workers.

    Args:
      workers: the initial number of workers.

    Raises:
      ConfigError: `workers` is not a whole number from 2 to 6.
    """
    return _shown(ring.simulation(workers))


def sharding_policies() -> Experiment:
    """The data that each worker reads from files, by policy, files, workers and batch."""
    return _shown(autoshard_widget.simulation())


def staleness() -> Experiment:
    """Asynchronous training by number of workers, slowness of one worker, and learning rate."""
    return _shown(stale_gradients.simulation())


def step_cost() -> Experiment:
    """The time of a step by workers, size of the gradients, network and computation."""
    return _shown(step_costs.simulation())


def _shown(simulation: Simulation) -> Experiment:
    from helpers.course.simulations.experiment import Experiment

    return Experiment(simulation)
