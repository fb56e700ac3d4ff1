"""What the notebooks import: real TensorFlow clusters, started from a cell."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.cluster.local import LocalCluster as LocalCluster
    from helpers.data import input_fn as input_fn
    from helpers.model import model_fn as model_fn
    from helpers.tf_config import TFConfig as TFConfig

_HOME = {
    "LocalCluster": "helpers.cluster",
    "TFConfig": "helpers.tf_config",
    "input_fn": "helpers.data",
    "model_fn": "helpers.model",
}
__all__ = ["LocalCluster", "TFConfig", "input_fn", "model_fn"]


def __getattr__(name: str) -> Any:
    """Imports a public name at its first use: a process that only watches needs no TensorFlow."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
