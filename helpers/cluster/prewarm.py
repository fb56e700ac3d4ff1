"""Starts the fork server early, so that the first workers start sooner.

Importing TensorFlow is most of a worker's start time. The fork server can start to import it on
another core while the notebook still imports other modules.
"""

from __future__ import annotations

import os
import sys

from helpers.cluster.environment import base_env
from helpers.cluster.fork_client import ForkServer, can_fork
from helpers.i18n import set_language
from helpers.system import keras_version
from helpers.system.machine import nvidia_gpus
from helpers.system.tensorflow_import import enable_onednn

# By default TensorFlow in the notebook reserves all memory of all GPUs.
ALLOW_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


def init(lang: str = "en") -> None:
    """Sets the language of messages, starts the fork server, and prints the versions in use.

    Call it once, after `helpers.estimator` or `keras` was imported, because the workers that it
    prepares have the Keras of this program (`helpers.system.keras_version`). Without these imports
    it is the Keras that `TF_USE_LEGACY_KERAS` selects, else Keras 3. The fork server ends with this
    program.

    Args:
      lang: a code such as ``"ru"``.
    """
    set_language(lang)
    enable_onednn(os.environ)
    if nvidia_gpus():
        os.environ.setdefault(ALLOW_GROWTH, "true")
    prewarm()
    print(keras_version.version_report())


def prewarm(keras: int | None = None) -> None:
    """Starts the fork server, which imports TensorFlow, and returns at once.

    Does nothing if workers are not forked on this machine, or if the server is running.

    Args:
      keras: the Keras of these workers, by default the version that they probably need.
    """
    if can_fork():
        ForkServer.get(base_env(_likely_keras() if keras is None else keras))


def _likely_keras() -> int:
    """The Keras of this process, or 2 for `helpers.model_fn` if none is imported yet."""
    if "tensorflow" not in sys.modules and "helpers.course.lazy_defaults" in sys.modules:
        return 2
    return keras_version.default()


def is_prewarming() -> bool:
    """Whether a fork server is still importing TensorFlow."""
    return any(not server.is_ready for server in ForkServer.running())
