"""Experiments: move a slider, and see and read at once what follows."""

from __future__ import annotations

from helpers.experiments.checkpoints import checkpoint_interval
from helpers.experiments.learning_rates import learning_rate_and_batch
from helpers.experiments.ring import ring_rounds
from helpers.experiments.shard_policies import sharding_policies
from helpers.experiments.stale_gradients import staleness
from helpers.experiments.step_costs import step_cost

__all__ = [
    "checkpoint_interval",
    "learning_rate_and_batch",
    "ring_rounds",
    "sharding_policies",
    "staleness",
    "step_cost",
]
