"""TensorFlow with the Keras of this process, for modules that support Keras 2 and Keras 3.

    from helpers.either_keras import tf

If the process has selected Keras 2, by `import helpers.estimator` or with `TF_USE_LEGACY_KERAS=1`,
`tf.keras` is Keras 2, and `tf.estimator` exists. Otherwise `tf.keras` is the default Keras of the
installed TensorFlow, which is Keras 3 from TensorFlow 2.16 on.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from helpers.system import keras_version
from helpers.system.tensorflow_import import gc_disabled, startup_logs_suppressed

__all__ = ["tf"]


def _import_tensorflow() -> Any:
    if keras_version.default() == 2:
        return importlib.import_module("helpers.estimator").tf
    with gc_disabled(), startup_logs_suppressed():
        return importlib.import_module("tensorflow")


if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = _import_tensorflow()
