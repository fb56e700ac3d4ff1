"""Selects the cases and programs for `make test` and for the lane `make test-keras-3`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def in_lanes(names: Iterable[Any], kept: Iterable[Any]) -> list[Any]:
    """Parameters of a test. Those that are not `kept` have the marker of the lane."""
    kept = set(kept)
    return [
        name if name in kept else pytest.param(name, marks=pytest.mark.keras_3) for name in names
    ]


def selected_names(request: pytest.FixtureRequest, fixture: str, **params: Any) -> list[str]:
    """The parameter `name` of each selected test that uses a fixture, without repetition.

    Args:
      params: other parameters that the test must have, if it has them at all.
    """
    names: dict[str, None] = {}
    for item in request.session.items:
        found = getattr(item, "callspec", None)
        if fixture not in getattr(item, "fixturenames", ()) or found is None:
            continue
        if request.scope == "module" and item.getparent(pytest.Module) is not request.node:
            continue  # a fixture of that name in another module
        if all(found.params.get(key, value) == value for key, value in params.items()):
            names[found.params["name"]] = None
    return list(names)
