"""Workers that are ready before they are asked for.

TensorFlow's import is most of a worker's start. So the process that workers are forked from may
begin it early, on another core, while the notebook still has imports of its own to do.
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

# Else TensorFlow takes all memory of all GPUs in the notebook, and leaves the workers none.
ALLOW_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"


def init(lang: str = "en") -> None:
    """Sets the language of all messages, as `set_language`, and has workers got ready.

    Call it once, before TensorFlow is imported: what this program computes is computed as in the
    workers (`helpers.system.tensorflow_import`). Nothing is left of it when this program ends.

    Args:
      lang: a code such as ``"ru"``.
    """
    set_language(lang)
    enable_onednn(os.environ)
    if nvidia_gpus():
        os.environ.setdefault(ALLOW_GROWTH, "true")
    prewarm(keras=2)  # the next line of most lessons imports helpers.estimator


def prewarm(keras: int | None = None) -> None:
    """Has TensorFlow imported in the process that workers are forked from; returns at once.

    Does nothing where workers are not forked, or where that process is there already.

    Args:
      keras: the Keras of these workers; by default the one that they probably need.
    """
    if can_fork():
        ForkServer.get(base_env(_likely_keras() if keras is None else keras))


def _likely_keras() -> int:
    """That of this process; but `helpers.model_fn` is Estimator's, which needs Keras 2."""
    return 2 if "helpers.course.lazy_defaults" in sys.modules else keras_version.default()


def is_prewarming() -> bool:
    """Whether such a process is there, and still imports."""
    return any(not server.is_ready for server in ForkServer.running())
