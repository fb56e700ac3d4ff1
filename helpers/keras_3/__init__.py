"""Keras 3 under MultiWorkerMirroredStrategy: `fit`, `evaluate` and `predict` on several workers.

    import keras
    import helpers.keras_3

From TensorFlow 2.16 on, `import tensorflow` brings Keras 3, whose `fit` ends on several workers,
before the first step, with "Attempt to convert a value (PerReplica…)"
(https://github.com/keras-team/keras/issues/20585). This import, above or below that of Keras,
replaces the functions of Keras that fail there, or that compute something else than one worker
would. Under any other strategy, and without one, Keras runs as it was; a function that Keras has
mended itself is left alone. docs/KERAS_3.md tells owners of Keras code more.

Importing it raises PackageError if the installed packages do not fit together.
"""

from __future__ import annotations

import os
from importlib import metadata

from helpers.errors import PackageError
from helpers.i18n import _
from helpers.keras_3 import executions, gradients, means, metrics, optimizers
from helpers.system.keras_version import check_one_tensorflow

MIN_KERAS, MAX_KERAS = (3, 10), (3, 15)  # releases of Keras that were tested

BACKEND = "KERAS_BACKEND"


def _install() -> None:
    """Replaces what fails, and what computes something else than one worker would."""
    _check_packages()
    for module in (executions, gradients, optimizers, means, metrics):
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
    try:
        found = metadata.version("keras")
    except metadata.PackageNotFoundError:
        found = None
    release = tuple(int(part) for part in found.split(".")[:2]) if found else None
    if release is None or not MIN_KERAS <= release <= MAX_KERAS:
        message = _(
            "helpers.keras_3 was tested with Keras {oldest} to {newest}; found: {found}. Install "
            'one of them: pip install "keras>={oldest},<{after}"'
        )
        oldest, newest = (".".join(map(str, numbers)) for numbers in (MIN_KERAS, MAX_KERAS))
        after = f"{MAX_KERAS[0]}.{MAX_KERAS[1] + 1}"
        found = found or _("none")
        raise PackageError(message.format(oldest=oldest, newest=newest, after=after, found=found))


_install()
