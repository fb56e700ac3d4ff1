"""Selects the version of `tf.keras`: Keras 2, which Estimator requires, or Keras 3.

From TensorFlow 2.16 on, Keras 2 is the package tf-keras. TensorFlow selects it at its import if an
environment variable is set, and Keras 3 otherwise. So this module does not import TensorFlow.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata, util

from helpers.errors import PackageError
from helpers.i18n import _, join_items

LAST_TF_WITH_ESTIMATOR = (2, 15)  # the last TensorFlow with tf.estimator and Keras 2
LAST_TESTED = (2, 21)
ESTIMATOR_VERSION = "2.15.0"
DISTRIBUTION = "multiworker-lessons"  # this package
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
USE_KERAS_3 = "0"
FIX = "HELPERS_KERAS_3"  # "0" disables the fix in workers, to show Keras 3's own behavior
TF_DISTRIBUTIONS = (  # distributions that write into one folder, tensorflow/
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-gpu",
    "tensorflow-rocm",
    "tf-nightly",
    "tf-nightly-cpu",
)
TRUE_VALUES = ("1", "true", "True")  # how TensorFlow reads it

Minor = tuple[int, int]

_chosen: set[int] = set()
_unfixed: list[str] = []  # reasons why helpers.keras_3 was not applied


def default() -> int:
    """The version of `tf.keras` in this process, 2 or 3, also before its import.

    `helpers.estimator` and `TF_USE_LEGACY_KERAS=1` select Keras 2.
    """
    version = _version("tensorflow")
    if version is not None and _minor(version) <= LAST_TF_WITH_ESTIMATOR:
        return 2
    return 2 if os.environ.get(LEGACY_KERAS) in TRUE_VALUES else 3


def version_report() -> str:
    """The versions that this process runs with, as one line, without importing the packages."""
    tensorflow = _version("tensorflow")
    within = tensorflow is not None and _minor(tensorflow) <= LAST_TF_WITH_ESTIMATOR
    keras = _version("tf-keras" if default() == 2 and not within else "keras")
    message = _("Python {python}, TensorFlow {tensorflow}, Keras {keras}, course {course}")
    return message.format(
        python=platform.python_version(),
        tensorflow=tensorflow or "-",
        keras=keras or "-",
        course=_version(DISTRIBUTION) or "-",
    )


def keras_env(version: int) -> dict[str, str]:
    """The environment variables that select that Keras in a new process."""
    return {LEGACY_KERAS: USE_KERAS_3} if version == 3 else {}


def version_from_env(environment: Mapping[str, str]) -> int:
    """The Keras version, 2 or 3, that an environment of `keras_env` selects."""
    return 3 if environment.get(LEGACY_KERAS) == USE_KERAS_3 else 2


def select_keras(keras: int) -> None:
    """Selects the Keras of this process permanently. Call it before TensorFlow is imported.

    Raises: as `select_keras_2` and `select_keras_3`.
    """
    if keras == 3:
        select_keras_3()
        _chosen.add(3)
    else:
        select_keras_2()


def is_keras_3_chosen() -> bool:
    """Whether `select_keras` has selected Keras 3, so that this process has no Estimator."""
    return 3 in _chosen


def wants_fix() -> bool:
    """Whether workers apply `helpers.keras_3`, unless `HELPERS_KERAS_3=0` is set."""
    return os.environ.get(FIX) != "0"


def leave_unfixed(reason: str) -> None:
    """Records why `helpers.keras_3` cannot be applied in this process."""
    _unfixed.append(reason)


def why_unfixed() -> str | None:
    """Why `helpers.keras_3` could not be applied in this process, or None."""
    return _unfixed[-1] if _unfixed else None


def check_one_tensorflow() -> None:
    """Raises PackageError if two TensorFlow packages were installed over each other.

    Their files are then mixed, and the import fails with an undefined symbol, or worse.
    """
    found = {}
    for name in TF_DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if len(set(found.values())) > 1:
        message = _(
            "Two TensorFlow packages are installed over each other: {found}. Remove both, and "
            "install one: "
            "{command}"
        )
        last = max(found.values(), key=_minor)
        command = f"pip uninstall --yes {' '.join(found)} && pip install tensorflow=={last}"
        names = join_items(f"{name} {version}" for name, version in found.items())
        raise PackageError(message.format(found=names, command=command))


def select_keras_2() -> None:
    """Makes TensorFlow select Keras 2 at its import. Call it before the import.

    Raises:
      PackageError: the installed packages do not fit together, or TensorFlow has been imported
        with Keras 3.
    """
    check_one_tensorflow()
    version = _version("tensorflow")
    if version is None:
        return  # its import will raise the error
    if _minor(version) <= LAST_TF_WITH_ESTIMATOR:
        if util.find_spec("tf_keras") is None:
            os.environ.pop(LEGACY_KERAS, None)  # Ray sets it, and tf.keras would fail
        return
    _check_packages(version)
    if "tensorflow" in sys.modules and os.environ.get(LEGACY_KERAS) not in TRUE_VALUES:
        raise import_order_error()
    os.environ[LEGACY_KERAS] = "1"


def select_keras_3() -> None:
    """Makes TensorFlow select Keras 3 at its import. Call it before the import.

    Raises:
      PackageError: there is none, or TensorFlow has been imported with Keras 2.
    """
    check_keras_3()
    if "tensorflow" in sys.modules and os.environ.get(LEGACY_KERAS) in TRUE_VALUES:
        message = _(
            "tensorflow was imported with Keras 2, which Estimator needs, so this process "
            "cannot use Keras 3. Start another process, or call the function with run and "
            "keras=3: each worker imports its own Keras."
        )
        raise PackageError(message)
    os.environ[LEGACY_KERAS] = USE_KERAS_3


def check_keras_3() -> None:
    """Raises PackageError if the installed TensorFlow has no Keras 3."""
    check_one_tensorflow()
    version = _version("tensorflow")
    if version is not None and _minor(version) <= LAST_TF_WITH_ESTIMATOR:
        message = _(
            "TensorFlow {version} is installed, which includes Keras 2. TensorFlow 2.16 and "
            "later include Keras 3: {command}"
        )
        command = f'pip install "tensorflow>=2.16,<2.{LAST_TESTED[1] + 1}"'
        raise PackageError(message.format(version=version, command=command))


def _check_packages(tensorflow: str) -> None:
    minor = _minor(tensorflow)
    if minor > LAST_TESTED:
        raise _too_new_error(tensorflow)
    keras = _version("tf-keras")
    if keras is None or _minor(keras) != minor:
        raise _wrong_keras_error(tensorflow, keras)
    estimator = _version("tensorflow-estimator")
    if estimator != ESTIMATOR_VERSION:
        raise _wrong_estimator_error(tensorflow, estimator)


def _version(distribution: str) -> str | None:
    """The version of an installed package, or of a variant of TensorFlow, such as -cpu."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        variants = metadata.packages_distributions().get(distribution.replace("-", "_"), ())
        return metadata.version(variants[0]) if variants else None


def _minor(version: str) -> Minor:
    major, minor, *_rest = version.split(".")
    return int(major), int(minor)


def import_order_error() -> PackageError:
    """The error for a TensorFlow that has already selected Keras 3."""
    message = _(
        "tensorflow was imported before helpers.estimator, so tf.keras is Keras 3, and Estimator "
        "needs Keras 2. Restart Python (in a notebook, the kernel), and put "
        '"import helpers.estimator" above "import tensorflow".'
    )
    return PackageError(message)


def _too_new_error(tensorflow: str) -> PackageError:
    message = _(
        "TensorFlow {version} is installed; helpers.estimator was tested up to {tested}. Install "
        "that one: {command}"
    )
    tested = ".".join(map(str, LAST_TESTED))
    command = f'pip install "tensorflow=={tested}.*" "tf-keras=={tested}.*"'
    return PackageError(message.format(version=tensorflow, tested=tested, command=command))


def _wrong_keras_error(tensorflow: str, keras: str | None) -> PackageError:
    minor = ".".join(map(str, _minor(tensorflow)))
    command = f'pip install "tf-keras=={minor}.*" "tensorflow=={tensorflow}"'
    if keras is None:
        message = _(
            "tf-keras is not installed. Estimator needs Keras 2, which TensorFlow {version} "
            "imports from it. Install it: {command}"
        )
    else:
        message = _(
            "tf-keras {keras} does not match TensorFlow {version}: the first two numbers must "
            "be equal. Install the matching one: {command}"
        )
    return PackageError(message.format(version=tensorflow, keras=keras, command=command))


def _wrong_estimator_error(tensorflow: str, estimator: str | None) -> PackageError:
    message = _(
        "TensorFlow {version} does not include Estimator, and tensorflow-estimator {wanted} is "
        "not installed (found: {found}). Install it: {command}"
    )
    command = f"pip install tensorflow-estimator=={ESTIMATOR_VERSION}"
    return PackageError(
        message.format(
            version=tensorflow,
            wanted=ESTIMATOR_VERSION,
            found=estimator or _("no version"),
            command=command,
        )
    )
