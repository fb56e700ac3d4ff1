"""The hyper-parameters of a training, where nobody gives others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_PARAMS: Mapping[str, Any] = {
    "batch_size": 64,  # examples per replica and step
    "learning_rate": 0.025,  # for a global batch of that size
    "momentum": 0.9,
    "seed": 1,
}


def param(params: Mapping[str, Any], name: str) -> Any:
    """One of `params`, or the default where it is not among them."""
    return params.get(name, DEFAULT_PARAMS[name])


def with_defaults(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """`params`, and `DEFAULT_PARAMS` for what they leave out."""
    return {**DEFAULT_PARAMS, **(params or {})}
