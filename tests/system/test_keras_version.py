"""The Keras of a process, and whether its packages fit together."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

from helpers.errors import PackageError
from helpers.system import keras_version


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    """Makes Python find these distributions, and no others."""
    found = {name.replace("_", "-"): version for name, version in versions.items()}

    def version(name: str) -> str:
        if name not in found:
            raise metadata.PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(metadata, "version", version)


def test_two_tensorflows_over_each_other_are_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, tensorflow="2.9.1", tensorflow_cpu="2.21.0")
    for check in (keras_version.select_keras_2, keras_version.select_keras_3):
        with pytest.raises(PackageError) as caught:
            check()
        assert "tensorflow 2.9.1, tensorflow-cpu 2.21.0" in str(caught.value)
        assert "pip uninstall --yes tensorflow tensorflow-cpu" in str(caught.value)
        assert str(caught.value).endswith("pip install tensorflow==2.21.0")


def test_one_tensorflow_or_one_under_two_names_is_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorflow="2.21.0")
    keras_version.check_one_tensorflow()
    install(monkeypatch, tensorflow="2.21.0", tensorflow_cpu="2.21.0")
    keras_version.check_one_tensorflow()


def test_a_tensorflow_without_keras_3_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorflow="2.15.1")
    with pytest.raises(PackageError, match=r"TensorFlow 2\.15\.1 is installed, which includes"):
        keras_version.check_keras_3()


def test_a_keras_2_that_was_imported_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tensorflow="2.21.0")
    monkeypatch.setenv(keras_version.LEGACY_KERAS, "1")
    monkeypatch.setitem(sys.modules, "tensorflow", object())
    with pytest.raises(PackageError, match="was imported with Keras 2"):
        keras_version.select_keras_3()


def test_the_default_is_the_keras_that_tf_keras_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(keras_version.LEGACY_KERAS, raising=False)
    install(monkeypatch, tensorflow="2.15.1")
    assert keras_version.default() == 2
    install(monkeypatch, tensorflow="2.16.2")
    assert keras_version.default() == 3
    monkeypatch.setenv(keras_version.LEGACY_KERAS, "1")  # as `import helpers.estimator` does
    assert keras_version.default() == 2
    monkeypatch.setenv(keras_version.LEGACY_KERAS, keras_version.USE_KERAS_3)
    assert keras_version.default() == 3
