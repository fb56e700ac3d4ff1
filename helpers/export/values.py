"""Values that a function uses, as source code: literals, and arrays in a file."""

from __future__ import annotations

import functools
import math
from pathlib import Path, PurePath
from types import FunctionType, MethodType
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _

MAX_LITERAL = 100_000  # characters
ARRAYS = "data.npz"
DATASETS = "datasets"
DATASETS_DIR = Path(__file__).parents[1] / DATASETS  # of this package
_KINDS = {  # a class of TensorFlow or Keras, or its base class, and its name in messages
    "DatasetV2": lambda: _("a dataset"),
    "StrategyBase": lambda: _("a strategy"),
    "Tensor": lambda: _("a tensor"),
    "BaseResourceVariable": lambda: _("a variable"),
    "Layer": lambda: _("a model or layer"),
    "KerasVariable": lambda: _("a variable"),
}


class Values:
    """Converts values to expressions, and collects what the expressions need.

    Attributes:
      arrays: the arrays for `ARRAYS`, by name.
      imports: the modules that the expressions use.
      uses_datasets: whether one is the folder of the bundled datasets.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.imports: set[str] = set()
        self.uses_datasets = False

    def expression(self, name: str, value: Any, user: str) -> str:
        """The source of a value.

        Args:
          name: the name of the value, for messages and for arrays.
          user: the function that uses it, for messages.

        Raises:
          ConfigError: it cannot be written as source or as an array.
        """
        try:
            text = self._text(name, value)
        except _NoSourceError as error:
            raise _refused(name, error.value, user) from None
        except RecursionError:
            raise _refused(name, value, user) from None
        if len(text) > MAX_LITERAL:
            message = _(
                "{function} uses {name}, which needs {size} as text. Convert it to a NumPy array, "
                "or save it to a file and read the file in the function."
            )
            size = labels.format_bytes(len(text))
            raise ConfigError(message.format(function=user, name=name, size=size))
        return text

    def _text(self, name: str, value: Any) -> str:
        kind = type(value)
        if value is None or value is ... or kind in (bool, int, str, bytes, complex, range):
            return repr(value)
        if kind is float:
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if kind in (list, tuple, set, frozenset, dict):
            return self._container(name, value)
        if isinstance(value, PurePath):
            return self._path(value)
        if kind.__module__ == "numpy" and hasattr(value, "dtype"):
            return self._array(name, value)
        raise _NoSourceError(value)

    def _container(self, name: str, value: Any) -> str:
        if isinstance(value, dict):
            pairs = [map(functools.partial(self._text, name), pair) for pair in value.items()]
            return "{" + ", ".join(map(": ".join, pairs)) + "}"
        parts = [self._text(name, part) for part in value]
        match value:
            case list():
                return f"[{', '.join(parts)}]"
            case tuple():
                return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
            case set() if parts:
                return f"{{{', '.join(sorted(parts))}}}"
        return f"{type(value).__name__}([{', '.join(sorted(parts))}])"

    def _path(self, value: PurePath) -> str:
        self.imports.add("pathlib")
        if value == DATASETS_DIR:
            self.uses_datasets = True
            return f'pathlib.Path(__file__).with_name("{DATASETS}")'
        return f"pathlib.{type(value).__name__.removeprefix('Posix')}({str(value)!r})"

    def _array(self, name: str, value: Any) -> str:
        if value.dtype.kind not in "biufcSU":  # others would need pickle
            raise _NoSourceError(value)
        self.imports.add("numpy")
        if value.shape == ():
            return f"numpy.{value.dtype.name}({value.item()!r})"
        key = next(k for k in _numbered(name) if self.arrays.get(k, value) is value)
        self.arrays[key] = value
        return f'_DATA["{key}"]'


def _numbered(name: str) -> Any:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


class _NoSourceError(Exception):
    """A value that has no source."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _refused(name: str, value: Any, user: str) -> ConfigError:
    if isinstance(value, (FunctionType, MethodType, functools.partial, type)):
        message = _(
            "{function} uses {name}, which contains a function or class ({type}) that the program "
            "cannot refer to by name. Define it in a cell with def or class, and use that name."
        )
    else:
        message = _(
            "{function} uses {name}, {type}, which cannot be written into a program. Create it "
            "inside the function, or keep its values as numbers, strings or NumPy arrays."
        )
    kind = _kind(type(value))
    return ConfigError(message.format(function=user, name=name, type=kind))


def _kind(kind: type) -> str:
    if kind.__module__.partition(".")[0] in ("tensorflow", "keras", "tf_keras"):
        for base in kind.__mro__:
            if base.__name__ in _KINDS:
                return _KINDS[base.__name__]()
    return _("an object of type {type}").format(type=f"{kind.__module__}.{kind.__qualname__}")
