"""Keras 3 under MultiWorkerMirroredStrategy: `fit`, `evaluate` and `predict` on several workers.

    import keras
    import helpers.keras_3

From TensorFlow 2.16 on, `import tensorflow` imports Keras 3. On several workers, its `fit` fails
before the first step with "Attempt to convert a value (PerReplica…)"
(https://github.com/keras-team/keras/issues/20585).

This import may precede or follow the import of Keras. It replaces the functions of Keras that fail
on several workers or compute something different from one worker, and it enables training under
ParameterServerStrategy. Under any other strategy, and without a strategy, Keras is unchanged. A
function that Keras itself has fixed is not replaced. docs/KERAS_3.md describes the use with
existing Keras code.

The import raises PackageError if the installed packages are incompatible.
"""

from __future__ import annotations

import os
import warnings

from helpers.errors import PackageError
from helpers.i18n import _
from helpers.keras_3 import (
    data,
    divergence,
    executions,
    gradients,
    means,
    metrics,
    optimizers,
    parameter_servers,
    versions,
)
from helpers.system.keras_version import check_one_tensorflow

BACKEND = "KERAS_BACKEND"


def _install() -> None:
    """Replaces the functions that fail or compute something different from one worker."""
    _check_packages()
    for module in (
        executions,
        gradients,
        optimizers,
        means,
        metrics,
        divergence,
        data,
        parameter_servers,
    ):
        module.install()


def _check_packages() -> None:
    backend = os.environ.get(BACKEND, "tensorflow")
    if backend != "tensorflow":
        message = _(
            "{variable} is {backend!r}, but helpers.keras_3 works only for Keras on TensorFlow. "
            "Set it to "
            '"tensorflow", or leave it unset.'
        )
        raise PackageError(message.format(variable=BACKEND, backend=backend))
    check_one_tensorflow()
    note = versions.check_release()
    if note:
        warnings.warn(note, stacklevel=2)


_install()
