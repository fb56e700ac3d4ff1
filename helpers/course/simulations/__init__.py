"""Experiments: move a slider, and see the result immediately as a chart and a text."""

from __future__ import annotations

from helpers.course.simulations.autoshard_widget import sharding_policies
from helpers.course.simulations.checkpoints import checkpoint_interval
from helpers.course.simulations.learning_rates import learning_rate_and_batch
from helpers.course.simulations.memory import memory_planner
from helpers.course.simulations.ring import ring_rounds
from helpers.course.simulations.stale_gradients import staleness
from helpers.course.simulations.step_costs import step_cost

__all__ = [
    "checkpoint_interval",
    "learning_rate_and_batch",
    "memory_planner",
    "ring_rounds",
    "sharding_policies",
    "staleness",
    "step_cost",
]
