"""`tf.estimator` for TensorFlow 2.16 and later, from which it was removed.

    import helpers.estimator  # before tensorflow
    import tensorflow as tf

    tf.estimator.Estimator(...)

Up to TensorFlow 2.15, the original module exists, and nothing changes. From 2.16 on, this import
selects Keras 2, installs the package tensorflow-estimator 2.15.0 as `tf.estimator`, and adds the
few modules that this package needs from TensorFlow. docs/ESTIMATOR.md describes the use with
existing Estimator code.

The import raises PackageError if the installed packages are incompatible, or if TensorFlow was
already imported with Keras 3. In a worker of `run(…, keras=3)`, it provides TensorFlow without
`tf.estimator`.

Attributes:
  tf: the TensorFlow module. With `from helpers.estimator import tf`, the order of imports does not
    matter.
"""

from __future__ import annotations

import importlib
import sys
from importlib import util
from typing import TYPE_CHECKING, Any

from helpers.errors import PackageError
from helpers.i18n import _
from helpers.system.keras_version import import_order_error, is_keras_3_chosen, select_keras_2
from helpers.system.tensorflow_import import gc_disabled, startup_logs_suppressed

__all__ = ["tf"]


def _install() -> Any:
    """Imports TensorFlow and returns it with `tf.estimator` installed."""
    if is_keras_3_chosen():
        tf: Any = importlib.import_module("tensorflow")
        tf.estimator = _EstimatorUnavailable()
        return tf
    select_keras_2()
    tf = importlib.import_module("tensorflow")
    if hasattr(tf, "estimator"):
        return tf
    if tf.keras.Model.__module__.partition(".")[0] != "tf_keras":
        raise import_order_error()
    _install_estimator_training()
    _register_api_name()
    _stub_package_init()
    estimator = importlib.import_module("tensorflow_estimator._api.v2.estimator")
    tf.estimator = sys.modules["tensorflow.estimator"] = estimator
    return tf


class _EstimatorUnavailable:
    """The replacement for `tf.estimator` in a worker that runs with Keras 3."""

    def __getattr__(self, name: str) -> Any:
        message = _(
            "tf.estimator.{name} is not available in a worker that runs with keras=3, because "
            "Estimator needs Keras 2. Omit keras=3, or do not use Estimator in the function."
        )
        raise PackageError(message.format(name=name))


def _install_estimator_training() -> None:
    """Adds the module that tensorflow-estimator imports from TensorFlow, which no longer has it."""
    training = importlib.import_module("helpers.estimator.training")
    sys.modules["tensorflow.python.distribute.estimator_training"] = training


def _register_api_name() -> None:
    """Registers the name under which tensorflow-estimator records its public symbols."""
    export: Any = importlib.import_module("tensorflow.python.util.tf_export")
    export.ESTIMATOR_API_NAME = "estimator"
    for table, suffix in (export.API_ATTRS, ""), (export.API_ATTRS_V1, "_v1"):
        record = type(table[export.TENSORFLOW_API_NAME])
        names = (f"_estimator_api_{kind}{suffix}" for kind in ("names", "constants"))
        table["estimator"] = record(*names)


def _stub_package_init() -> None:
    """Registers the package without running it, because it would import removed TPU code."""
    spec = util.find_spec("tensorflow_estimator")
    assert spec is not None
    sys.modules.setdefault("tensorflow_estimator", util.module_from_spec(spec))


if TYPE_CHECKING:
    import tensorflow as tf
else:
    with gc_disabled(), startup_logs_suppressed():
        tf = _install()
