"""Copies modules of this package into an exported program, which then does not need `helpers`.

A bundle is a folder of the export, which is a Python package. It contains the modules that its
roots import, directly or indirectly, with the text of their files. Only the names of the modules
change: `helpers.keras_3.step` becomes `keras_3_multi_worker.step`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from helpers.system.keras_version import DISTRIBUTION

PACKAGE = "helpers"
ROOT = Path(__file__).parents[1]
LICENSE = "Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0"
KERAS_3, LESSONS = "keras_3_multi_worker", "lesson_functions"
ESTIMATOR, ESTIMATOR_TRAINING = "estimator_on_new_tensorflow", "estimator_training"
# An exported program has already imported TensorFlow with the right Keras.
_TENSORFLOW = re.compile(r"^( *)from helpers\.(either_keras|estimator) import tf$", re.MULTILINE)
_ESTIMATOR_FIRST = re.compile(r"^ *import helpers\.estimator\b.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Bundle:
    """A folder of copied modules.

    Attributes:
      name: the name of the folder.
      roots: the modules that an exported program may import.
      inner: the packages whose modules are copied to the folder itself.
    """

    name: str
    roots: tuple[str, ...]
    inner: tuple[str, ...]

    def module(self, name: str) -> str:
        """The name of a module of this package in the bundle."""
        for package in self.inner:
            if name == package:
                return self.name
            if name.startswith(f"{package}."):
                return f"{self.name}.{name.removeprefix(package + '.')}"
        return f"{self.name}.{name.removeprefix(PACKAGE + '.')}"

    def files(self) -> Mapping[str, str]:
        """The text of each file, by its path in the export."""
        found: dict[str, str] = {f"{self.name}/__init__.py": ""}
        left = list(self.roots)
        seen: set[str] = set()
        while left:
            name = left.pop()
            if name in seen:
                continue
            seen.add(name)
            text = _file(name).read_text("utf-8")
            text = _ESTIMATOR_FIRST.sub("", _TENSORFLOW.sub(r"\1import tensorflow as tf", text))
            left += _imports(ast.parse(text))
            found[self._path(name)] = _header(name) + self._renamed(text)
        return found

    def _path(self, name: str) -> str:
        path = self.module(name).replace(".", "/")
        return f"{path}/__init__.py" if path == self.name else f"{path}.py"

    def _renamed(self, text: str) -> str:
        text = text.replace("helpers.compare", "one worker")  # a hint in a message
        for package in self.inner:
            text = re.sub(rf"\b{re.escape(package)}\b", self.name, text)
        return re.sub(rf"\b{PACKAGE}\b", self.name, text)


BUNDLES = {
    KERAS_3: Bundle(
        KERAS_3,
        ("helpers.keras_3", "helpers.keras_3.sidecar"),
        ("helpers.keras_3", "helpers.system"),
    ),
    LESSONS: Bundle(
        LESSONS,
        (
            "helpers.course.data",
            "helpers.course.model",
            "helpers.course.lazy_defaults",
            "helpers.params",
        ),
        ("helpers.course",),
    ),
}


def replacement(module: str) -> tuple[str, str] | None:
    """The bundle and the module in it that replace a module of this package, or None."""
    for bundle in BUNDLES.values():
        if module in bundle.roots:
            return bundle.name, bundle.module(module)
    return None


def estimator_files() -> Mapping[str, str]:
    """The two files that provide `tf.estimator` on TensorFlow 2.16 and later."""
    template = (ROOT / "export" / "templates" / f"{ESTIMATOR}.template").read_text("utf-8")
    source = _file("helpers.estimator").read_text("utf-8")
    functions = [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and f"{node.name}()" in template
    ]
    copied = "\n\n\n".join(_segment(source, name) for name in functions)
    copied = copied.replace("helpers.estimator.training", ESTIMATOR_TRAINING)
    training = _file("helpers.estimator.training").read_text("utf-8")
    training = training.replace("from helpers.errors import ConfigError\n", "")
    training = training.replace("from helpers.i18n import _\n", "ConfigError = ValueError\n")
    training = training.replace("from __future__ import annotations\n", _ANNOTATIONS)
    training = training.replace("helpers.estimator", ESTIMATOR)
    return {
        f"{ESTIMATOR}.py": template.replace("# The functions follow here.", copied),
        f"{ESTIMATOR_TRAINING}.py": _header("helpers.estimator.training") + training,
    }


_ANNOTATIONS = "from __future__ import annotations\n\nfrom gettext import gettext as _\n"


def _segment(source: str, name: str) -> str:
    functions = [one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)]
    [node] = [one for one in functions if one.name == name]
    return ast.get_source_segment(source, node) or ""


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _imports(tree: ast.AST) -> Iterator[str]:
    """The modules of this package that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith(f"{PACKAGE}."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            assert node.module is not None
            parts = [f"{node.module}.{one.name}" for one in node.names]
            modules = [part for part in parts if _file(part).is_file()]
            yield from modules
            if len(modules) < len(parts):
                yield node.module


def _header(module: str) -> str:
    path = _file(module).relative_to(ROOT.parent)
    version = metadata.version(DISTRIBUTION)
    return f"# Copied from {DISTRIBUTION} {version}, {path} ({LICENSE}).\n"
