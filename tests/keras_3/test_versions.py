"""Which Keras `helpers.keras_3` takes."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata

import pytest

from helpers.errors import PackageError


def import_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "helpers.keras_3", raising=False)
    importlib.import_module("helpers.keras_3")


@pytest.mark.parametrize("found", ["2.15.0", "3.3.3", "3.9.2", "3.16.0", "4.0.0"])
def test_a_keras_that_was_not_tested_is_refused(
    found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setattr(metadata, "version", lambda name: found)
    expected = rf'Keras 3\.10 to 3\.15; found: {found}\..*"keras>=3\.10,<3\.16"'
    with pytest.raises(PackageError, match=expected):
        import_anew(monkeypatch)


def test_another_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(PackageError, match="KERAS_BACKEND is 'jax'"):
        import_anew(monkeypatch)
