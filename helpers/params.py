"""The default hyper-parameters of the package's own functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

DEFAULT_PARAMS: Mapping[str, Any] = {
    "batch_size": 64,  # examples per replica and step
    "learning_rate": 0.025,  # for a global batch of that size
    "momentum": 0.9,
    "seed": 1,
}


def param(params: Mapping[str, Any], name: str) -> Any:
    """One of `params`, or the default if it is not among them."""
    return params.get(name, DEFAULT_PARAMS[name])


def with_defaults(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """`params`, completed with `DEFAULT_PARAMS`."""
    return {**DEFAULT_PARAMS, **(params or {})}


def uses_defaults(function: Callable[..., Any]) -> bool:
    """Whether a function belongs to this package, which falls back on `DEFAULT_PARAMS`."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]
