"""Figures of the ideas of distributed training, drawn by code."""

from __future__ import annotations

from helpers.course.figures.batch_paths import batch_paths
from helpers.course.figures.lesson_map import lesson_map
from helpers.course.figures.parameter_servers import parameter_servers
from helpers.course.figures.restart import restart
from helpers.course.figures.ring_all_reduce import ring_all_reduce
from helpers.course.figures.sharding import sharding
from helpers.course.figures.step_timeline import step_timeline
from helpers.course.figures.synchronous_step import synchronous_step
from helpers.course.figures.tf_config import tf_config

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
