"""The packages of an exported program, with the versions that are installed here."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata

from helpers.system.keras_version import TF_DISTRIBUTIONS

# TensorFlow Datasets does not declare the first as a dependency, and needs versions of the others
# that are compatible with TensorFlow.
TFDS, TFDS_NEEDS = (
    "tensorflow_datasets",
    ("importlib_resources", "tensorflow-metadata", "protobuf"),
)
RAY = "ray[train]==2.60.0"  # as in pyproject.toml, if Ray is not installed here


def requirements(modules: Iterable[str], *, keras: int, estimator: bool, ray: bool) -> str:
    """The text of requirements.txt.

    Args:
      modules: the modules that the program imports.
      keras: the version of Keras, 2 or 3.
      estimator: whether it uses `tf.estimator`.
      ray: whether Ray starts it.
    """
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    names = set(map(_distribution, tops | {"tensorflow", "numpy"}))
    names |= {"keras"} if keras == 3 else {"tf-keras"}
    names |= {"tensorflow-estimator"} if estimator else set()
    names |= set(TFDS_NEEDS) if TFDS in tops else set()
    lines = {line for name in names if name and (line := _pinned(name))}
    if ray:
        lines = {line for line in lines if not line.startswith("ray==")}
        version = (_pinned("ray") or "").partition("==")[2]
        lines.add(f"ray[train]=={version}" if version else RAY)
    header = f"# The versions with which it was exported, on Python {platform.python_version()}.\n"
    return header + "".join(f"{line}\n" for line in sorted(lines))


def tensorflow_version() -> tuple[int, int]:
    """The first two numbers of the installed TensorFlow."""
    major, minor, *_rest = metadata.version(_distribution("tensorflow") or "").split(".")
    return int(major), int(minor)


def _distribution(top: str) -> str | None:
    """The package that contains a module, or None if it is unknown or not installed."""
    for name in TF_DISTRIBUTIONS if top == "tensorflow" else (top.replace("_", "-"),):
        if _pinned(name):
            return name
    names = set(metadata.packages_distributions().get(top, ()))
    return names.pop() if len(names) == 1 else None


def _pinned(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return f"{name}=={metadata.version(name)}"
    return None
