"""What the notebooks import: real TensorFlow clusters, started from a cell.

`FACE` is all that lessons and exercises may take from this package, and from where. What is in
another module may change from one release to the next.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":  # before a module that only Unix has is imported
    from helpers.system.windows import refuse

    refuse()

if TYPE_CHECKING:
    from helpers.cluster.local import LocalCluster as LocalCluster
    from helpers.cluster.readiness import begin as begin
    from helpers.deferred import input_fn as input_fn
    from helpers.deferred import model_fn as model_fn
    from helpers.engines.kubernetes.tfjob import TFJob as TFJob
    from helpers.engines.kubernetes.tfjob import tfjob as tfjob
    from helpers.engines.ray.cluster import RayCluster as RayCluster
    from helpers.messages.job import estimator_job as estimator_job
    from helpers.outputs import phrase as phrase
    from helpers.outputs import say as say
    from helpers.system.machine import share_cores as share_cores
    from helpers.system.ports import free_ports as free_ports
    from helpers.tf_config import TFConfig as TFConfig
    from helpers.tf_config.slurm import config_from_slurm as config_from_slurm
    from helpers.worker.devices import use_cores as use_cores

_HOME = {  # where each name of this module itself is defined
    "LocalCluster": "helpers.cluster.local",
    "RayCluster": "helpers.engines.ray.cluster",
    "TFConfig": "helpers.tf_config",
    "TFJob": "helpers.engines.kubernetes.tfjob",
    "begin": "helpers.cluster.readiness",
    "config_from_slurm": "helpers.tf_config.slurm",
    "estimator_job": "helpers.messages.job",
    "free_ports": "helpers.system.ports",
    "input_fn": "helpers.deferred",
    "model_fn": "helpers.deferred",
    "phrase": "helpers.outputs",
    "say": "helpers.outputs",
    "share_cores": "helpers.system.machine",
    "tfjob": "helpers.engines.kubernetes.tfjob",
    "use_cores": "helpers.worker.devices",
}
__all__ = list(_HOME)

FACE: Mapping[str, tuple[str, ...]] = {
    "helpers": tuple(_HOME),
    "helpers.charts": ("Picture", "placement_chart", "roles_chart", "shards_chart"),
    "helpers.check": ("check",),
    "helpers.cost_model": ("Measurement", "efficiency_chart", "fit"),
    "helpers.data": ("BUNDLED", "load", "scale"),
    "helpers.errors": ("ClusterError", "ConfigError", "PackageError", "UserCodeError"),
    "helpers.experiments": (
        "checkpoint_interval",
        "learning_rate_and_batch",
        "ring_rounds",
        "sharding_policies",
        "staleness",
        "step_cost",
    ),
    "helpers.figures": (
        "batch_paths",
        "parameter_servers",
        "restart",
        "sharding",
        "step_timeline",
        "synchronous_step",
        "tf_config",
    ),
    "helpers.in_process": ("in_process_cluster",),
    "helpers.keras": ("BackupAndRestore", "ReportSteps"),
    "helpers.migrate": ("weights_from_checkpoint",),
    "helpers.model": ("learning_rate", "make_network"),
    "helpers.panel": ("Panel",),
    "helpers.questions": ("ask",),
    "helpers.tf_config": ("TFConfig", "build"),
    "helpers.timeline": ("exclusive_times", "timeline_chart", "trace_step"),
}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use: a process that only watches needs no TensorFlow."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
