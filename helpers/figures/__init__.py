"""Figures of the ideas of distributed training, drawn by code."""

from __future__ import annotations

from helpers.figures.batch_paths import batch_paths
from helpers.figures.lesson_map import lesson_map
from helpers.figures.parameter_servers import parameter_servers
from helpers.figures.restart import restart
from helpers.figures.ring_all_reduce import ring_all_reduce
from helpers.figures.sharding import sharding
from helpers.figures.step_timeline import step_timeline
from helpers.figures.synchronous_step import synchronous_step
from helpers.figures.tf_config import tf_config

__all__ = [
    "batch_paths",
    "lesson_map",
    "parameter_servers",
    "restart",
    "ring_all_reduce",
    "sharding",
    "step_timeline",
    "synchronous_step",
    "tf_config",
]
