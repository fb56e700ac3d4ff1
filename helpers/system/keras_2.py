"""Chooses Keras 2 for `tf.keras`: the only Keras that Estimator works with.

From TensorFlow 2.16 on, Keras 2 is the package tf-keras, and TensorFlow takes it if the environment
says so when it is imported. So this module imports no TensorFlow.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata, util

from helpers.errors import PackageError
from helpers.i18n import _

LAST_GENUINE = (2, 15)  # the last TensorFlow that has tf.estimator, and Keras 2 by itself
LAST_TESTED = (2, 21)
ESTIMATOR_VERSION = "2.15.0"
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"

Minor = tuple[int, int]


def select_keras_2() -> None:
    """Has TensorFlow take Keras 2 when it is imported; call it before.

    Raises:
      PackageError: the installed packages do not fit together, or TensorFlow has been imported
        with Keras 3.
    """
    version = _version("tensorflow")
    if version is None:
        return  # its import will say so
    if _minor(version) <= LAST_GENUINE:
        if util.find_spec("tf_keras") is None:
            os.environ.pop(LEGACY_KERAS, None)  # others set it, as Ray does; tf.keras would fail
        return
    _check_packages(version)
    if "tensorflow" in sys.modules and os.environ.get(LEGACY_KERAS) not in ("1", "true", "True"):
        raise imported_too_late()
    os.environ[LEGACY_KERAS] = "1"


def _check_packages(tensorflow: str) -> None:
    minor = _minor(tensorflow)
    if minor > LAST_TESTED:
        raise _too_new(tensorflow)
    keras = _version("tf-keras")
    if keras is None or _minor(keras) != minor:
        raise _wrong_keras(tensorflow, keras)
    estimator = _version("tensorflow-estimator")
    if estimator != ESTIMATOR_VERSION:
        raise _wrong_estimator(tensorflow, estimator)


def _version(distribution: str) -> str | None:
    """The version of an installed package; for TensorFlow also of its variants, as -cpu."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        variants = metadata.packages_distributions().get(distribution.replace("-", "_"), ())
        return metadata.version(variants[0]) if variants else None


def _minor(version: str) -> Minor:
    major, minor, *_rest = version.split(".")
    return int(major), int(minor)


def imported_too_late() -> PackageError:
    """The error for a TensorFlow that has Keras 3 already."""
    message = _(
        "tensorflow was imported before helpers.estimator, so tf.keras is Keras 3, and Estimator "
        "needs Keras 2. Restart Python (in a notebook, the kernel), and put "
        '"import helpers.estimator" above "import tensorflow".'
    )
    return PackageError(message)


def _too_new(tensorflow: str) -> PackageError:
    message = _(
        "TensorFlow {version} is installed; helpers.estimator was tested up to {tested}. Install "
        "that one: {command}"
    )
    tested = ".".join(map(str, LAST_TESTED))
    command = f'pip install "tensorflow=={tested}.*" "tf-keras=={tested}.*"'
    return PackageError(message.format(version=tensorflow, tested=tested, command=command))


def _wrong_keras(tensorflow: str, keras: str | None) -> PackageError:
    minor = ".".join(map(str, _minor(tensorflow)))
    command = f'pip install "tf-keras=={minor}.*" "tensorflow=={tensorflow}"'
    if keras is None:
        message = _(
            "tf-keras is not installed. Estimator needs Keras 2, which TensorFlow {version} "
            "takes from there. Install it: {command}"
        )
    else:
        message = _(
            "tf-keras {keras} does not fit TensorFlow {version}: the first two numbers must be "
            "equal. Install the one that fits: {command}"
        )
    return PackageError(message.format(version=tensorflow, keras=keras, command=command))


def _wrong_estimator(tensorflow: str, estimator: str | None) -> PackageError:
    message = _(
        "TensorFlow {version} has no Estimator of its own, and tensorflow-estimator {wanted} is "
        "not installed (found: {found}). Install it: {command}"
    )
    command = f"pip install tensorflow-estimator=={ESTIMATOR_VERSION}"
    return PackageError(
        message.format(
            version=tensorflow,
            wanted=ESTIMATOR_VERSION,
            found=estimator or _("none"),
            command=command,
        )
    )
