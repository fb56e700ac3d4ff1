"""The environment variables that all workers of a program share."""

from __future__ import annotations

import os

from helpers.i18n import LANGUAGE
from helpers.system import keras_version
from helpers.system.ports import without_proxies
from helpers.system.tensorflow_import import enable_onednn

# Variables that importing TensorFlow 2.21 sets, with their values (None for any value). They do not
# count as differences, so a fork server that was started before this process imported TensorFlow
# stays usable.
SET_BY_TENSORFLOW = {
    "ENABLE_RUNTIME_UPTIME_TELEMETRY": "1",
    "HDF5_PLUGIN_PATH": "disable",
    "TF2_BEHAVIOR": "1",
    "TPU_ML_PLATFORM": "Tensorflow",
    "TPU_ML_PLATFORM_VERSION": None,
}
RAY_BREAKPOINTS = "ray.util.rpdb."  # PYTHONBREAKPOINT after ray.init: a debugger for Ray's tasks
PER_TASK_ENV: tuple[str, ...] = ("TF_CONFIG", "TMPDIR", LANGUAGE)


def base_env(keras: int = 2) -> dict[str, str]:
    """The environment that all workers of this program with the same Keras share."""
    environ = without_proxies(os.environ)
    for name in (*PER_TASK_ENV, keras_version.LEGACY_KERAS):
        environ.pop(name, None)
    if environ.get("PYTHONBREAKPOINT", "").startswith(RAY_BREAKPOINTS):
        del environ["PYTHONBREAKPOINT"]
    for name, value in SET_BY_TENSORFLOW.items():
        if value in (None, environ.get(name)):
            environ.pop(name, None)
    environ |= keras_version.keras_env(keras)
    if level := environ.get("PYTHONOPTIMIZE", ""):  # with 2 or more, TensorFlow cannot be imported
        environ["PYTHONOPTIMIZE"] = "1" if level != "0" else level
    environ.setdefault("MALLOC_ARENA_MAX", "2")  # 90 MB less in a worker, measured
    enable_onednn(environ)
    environ["TF_CPP_MIN_LOG_LEVEL"] = "1"  # a notebook may silence its own output, but not the logs
    return environ
