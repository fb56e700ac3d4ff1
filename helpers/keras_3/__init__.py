"""Keras 3 under MultiWorkerMirroredStrategy: `fit`, `evaluate` and `predict` on several workers.

    import keras
    import helpers.keras_3

From TensorFlow 2.16 on, `import tensorflow` brings Keras 3, whose `fit` ends on several workers,
before the first step, with "Attempt to convert a value (PerReplica…)"
(https://github.com/keras-team/keras/issues/20585). This import, above or below that of Keras,
replaces the functions of Keras that fail there, or that compute something else than one worker
would, and lets Keras 3 train under ParameterServerStrategy. Under any other strategy, and without
one, Keras runs as it was. A function that Keras has fixed itself is left alone. docs/KERAS_3.md
has the details for owners of Keras code.

Importing it raises PackageError if the installed packages do not fit together.
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
    """Replaces what fails, and what computes something else than one worker would."""
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
            "{variable} is {backend!r}, and helpers.keras_3 is for Keras on TensorFlow. Set it to "
            '"tensorflow", or leave it unset.'
        )
        raise PackageError(message.format(variable=BACKEND, backend=backend))
    check_one_tensorflow()
    note = versions.check_release()
    if note:
        warnings.warn(note, stacklevel=2)


_install()
