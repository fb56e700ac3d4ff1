"""Real TensorFlow clusters for notebooks, started from a cell.

`PUBLIC_API` lists all names that lessons and exercises may import from this package, by module.
Other names may change from one release to the next.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":  # before the import of a module that exists only on Unix
    from helpers.system.windows import raise_unsupported

    raise_unsupported()

importlib.import_module("helpers.system.tensorflow_import").prepare_kernel()
_logger = logging.getLogger(__name__)
if _logger.level == logging.NOTSET:
    # The log is off until a reader sets a level. A NullHandler is not enough: absl configures the
    # root logger as soon as any library logs through it, such as TensorFlow Datasets.
    _logger.setLevel(logging.CRITICAL + 1)

if TYPE_CHECKING:
    from helpers.backends.kubernetes.tfjob import TFJob as TFJob
    from helpers.backends.kubernetes.tfjob import tfjob as tfjob
    from helpers.backends.ray.cluster import RayCluster as RayCluster
    from helpers.cluster.local import LocalCluster as LocalCluster
    from helpers.cluster.prewarm import init as init
    from helpers.compare import compare as compare
    from helpers.course.lazy_defaults import input_fn as input_fn
    from helpers.course.lazy_defaults import model_fn as model_fn
    from helpers.course.messages import print_tr as print_tr
    from helpers.course.messages import tr as tr
    from helpers.course.predictions import compare_prediction as compare_prediction
    from helpers.course.predictions import record_prediction as record_prediction
    from helpers.protocol.job import estimator_job as estimator_job
    from helpers.system.machine import share_cores as share_cores
    from helpers.system.ports import free_ports as free_ports
    from helpers.tf_config import TFConfig as TFConfig
    from helpers.tf_config.slurm import config_from_slurm as config_from_slurm
    from helpers.worker.devices import use_cores as use_cores

_LAZY_IMPORTS = {  # the module that defines each name of this one
    "LocalCluster": "helpers.cluster.local",
    "RayCluster": "helpers.backends.ray.cluster",
    "TFConfig": "helpers.tf_config",
    "TFJob": "helpers.backends.kubernetes.tfjob",
    "compare": "helpers.compare",
    "compare_prediction": "helpers.course.predictions",
    "config_from_slurm": "helpers.tf_config.slurm",
    "estimator_job": "helpers.protocol.job",
    "free_ports": "helpers.system.ports",
    "init": "helpers.cluster.prewarm",
    "input_fn": "helpers.course.lazy_defaults",
    "model_fn": "helpers.course.lazy_defaults",
    "print_tr": "helpers.course.messages",
    "record_prediction": "helpers.course.predictions",
    "share_cores": "helpers.system.machine",
    "tfjob": "helpers.backends.kubernetes.tfjob",
    "tr": "helpers.course.messages",
    "use_cores": "helpers.worker.devices",
}
__all__ = list(_LAZY_IMPORTS)

PUBLIC_API: Mapping[str, tuple[str, ...]] = {
    "helpers": tuple(_LAZY_IMPORTS),
    "helpers.course.charts": ("SvgFigure", "placement_chart", "roles_chart", "shards_chart"),
    "helpers.course.check": ("check",),
    "helpers.course.cost_model": ("Measurement", "efficiency_chart", "fit"),
    "helpers.course.data": ("DATA_DIR", "load", "scale"),
    "helpers.course.figures": (
        "batch_paths",
        "parameter_servers",
        "restart",
        "sharding",
        "step_timeline",
        "synchronous_step",
        "tf_config",
    ),
    "helpers.course.memory_planner": ("dense", "layers_of", "plan"),
    "helpers.course.model": ("learning_rate", "make_network"),
    "helpers.course.panel": ("Panel",),
    "helpers.course.peak_memory": ("PeakMemory", "PeakTensorMemory"),
    "helpers.course.peers": ("Peers",),
    "helpers.course.projects.report": ("report",),
    "helpers.course.projects.supervisor_runs": ("worker_command",),
    "helpers.course.quiz": ("quiz",),
    "helpers.course.simulations": (
        "checkpoint_interval",
        "learning_rate_and_batch",
        "memory_planner",
        "ring_rounds",
        "sharding_policies",
        "staleness",
        "step_cost",
    ),
    "helpers.errors": ("ClusterError", "ConfigError", "PackageError", "UserCodeError"),
    "helpers.estimator_checkpoint": ("load_estimator_weights",),
    "helpers.i18n": ("set_language",),
    "helpers.in_process": ("in_process_cluster",),
    "helpers.keras_3.sidecar": ("SidecarEvaluator",),
    "helpers.keras_callbacks": ("BackupAndRestore", "StepReportCallback", "TraceStep"),
    "helpers.results.timeline": (
        "exclusive_times",
        "merge_traces",
        "timeline_chart",
        "write_chrome_trace",
    ),
    "helpers.tf_config": ("TFConfig", "build_tf_configs"),
    "helpers.worker.step_profiler": ("StepProfiler",),
}


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use, because a pure monitor needs no TensorFlow."""
    if name not in _LAZY_IMPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(_LAZY_IMPORTS[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "helpers.course":
            raise
        raise _no_course(name) from None
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Defines the magics that run cells in workers: `%load_ext helpers`."""
    importlib.import_module("helpers.worker_cells.magics").load(shell)


def _no_course(name: str) -> ImportError:
    from helpers.errors import PackageError
    from helpers.i18n import _

    message = _(
        "helpers.{name} is part of the course, and this installation has only the clusters. "
        "Install the package with the extra `course`, or use your own function."
    )
    return PackageError(message.format(name=name))
