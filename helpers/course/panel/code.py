"""The panel's choices as Python code for a reader to copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from helpers.course import lazy_defaults
from helpers.system import keras_version


def training_code(
    group: Mapping[str, Any],
    options: Mapping[str, Any],
    model_fn: Callable[..., Any],
    input_fn: Callable[..., Any],
    export: str | None = None,
) -> str:
    """A program that trains and shows the result, or exports the training.

    Args:
      group: keyword arguments of `LocalCluster`.
      options: keyword arguments of its `train`.
      model_fn, input_fn: the model and the data. Functions of the notebook itself are not imported.
      export: the folder of `LocalCluster.export`, or None to train.
    """
    cluster = ", ".join(f"{name}={_literal(value)}" for name, value in group.items())
    arguments = "".join(f"        {name}={_literal(options[name])},\n" for name in options)
    call = f'cluster.export(\n        "{export}",' if export else "result = cluster.train("
    return (
        f"{_imports(input_fn, model_fn)}\n"
        f"with LocalCluster({cluster}) as cluster:\n"
        f"    {call}\n"
        f"        {_name(model_fn) or 'model_fn'},\n"
        f"        {_name(input_fn) or 'input_fn'},\n"
        f"{arguments}"
        f"    ){'' if export else _RESULT}"
    )


_RESULT = "\nresult"


def calling_code(
    group: Mapping[str, Any],
    function: Callable[..., Any],
    keras: int,
    export: str | None = None,
) -> str:
    """A program that calls a function in every worker and shows the results, or exports it.

    Args:
      group: keyword arguments of `LocalCluster`.
      function: the function to call. A function of the notebook itself is not imported.
      keras: the Keras version of the workers, 2 or 3.
      export: as for `training_code`.
    """
    cluster = ", ".join(f"{name}={_literal(value)}" for name, value in group.items())
    name = _name(function) or "function"
    version = "" if keras == 2 == keras_version.default() else f", keras={keras}"
    begin = f"{_imports(function)}\nwith LocalCluster({cluster}) as cluster:\n"
    if export:
        return f'{begin}    cluster.export("{export}", {name}{version})'
    return f"{begin}    values = cluster.run({name}{version})\nvalues"


def _imports(*functions: Callable[..., Any]) -> str:
    """The lines that import LocalCluster and the functions."""
    names: dict[str, list[str]] = {"helpers": ["LocalCluster"]}
    for function in functions:
        module = "helpers" if function.__module__ == lazy_defaults.__name__ else function.__module__
        if module != "__main__" and (name := _name(function)):
            names.setdefault(module, []).append(name)
    return "".join(f"from {module} import {', '.join(names[module])}\n" for module in names)


def _name(function: Callable[..., Any]) -> str | None:
    """The name of a function in a program, or None without a name, as for `functools.partial`."""
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else None


def _literal(value: object) -> str:
    """A value as source code, with double quotes as in this project."""
    return repr(value).replace("'", '"')
