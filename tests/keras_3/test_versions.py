"""The Keras versions to which `helpers.keras_3` is applied."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from benchmarks import ROOT
from helpers.errors import PackageError
from helpers.keras_3.tested_sources import TESTED_SOURCES as REPLACED
from tests.support.faults import needs_keras_3
from tools.keras_sources import replaced


def import_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "helpers.keras_3", raising=False)
    importlib.import_module("helpers.keras_3")


@pytest.mark.parametrize("found", ["2.15.0", "3.3.3", "3.9.2"])
def test_a_keras_that_is_too_old_is_refused(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setattr(metadata, "version", lambda name: found)
    expected = rf'Keras 3\.10 to 3\.15 \(found: {found}\)\..*"keras>=3\.10,<3\.16"'
    with pytest.raises(PackageError, match=expected):
        import_anew(monkeypatch)


def test_another_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(PackageError, match="KERAS_BACKEND is 'jax'"):
        import_anew(monkeypatch)


def program(code: str, folder: Path | None = None) -> str:
    """The output of a program with Keras 3, which searches for modules in `folder` first."""
    environ = {
        k: v for k, v in os.environ.items() if k not in ("TF_USE_LEGACY_KERAS", "PYTHONPATH")
    }
    if folder:
        environ["PYTHONPATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


UNTESTED = """
import warnings
from importlib import metadata
original = metadata.version
metadata.version = lambda name: "4.0rc1" if name == "keras" else original(name)
import keras
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        import helpers.keras_3
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print(*(warning.message for warning in caught if warning.category is UserWarning))
"""


@pytest.mark.keras_3
@needs_keras_3
def test_an_untested_release_is_accepted_with_a_warning_if_its_functions_were_tested() -> None:
    said = program(UNTESTED)
    assert said.startswith("Keras 4.0rc1 was not tested with helpers.keras_3 (tested: 3.10 to")
    assert 'pip install "keras>=3.10,<3.16"' in said


@needs_keras_3
def test_an_untested_release_with_another_function_is_refused_by_name(tmp_path: Path) -> None:
    keras = importlib.util.find_spec("keras")
    assert keras and keras.origin
    shutil.copytree(Path(keras.origin).parent, tmp_path / "keras")
    file = tmp_path / "keras/src/backend/tensorflow/trainer.py"
    text = file.read_text("utf-8")
    file.write_text(text.replace('reduce("MEAN", v, axis=0)', 'reduce("MEAN", v, axis=None)'))
    said = program(UNTESTED, tmp_path)
    assert said.startswith("PackageError Keras 4.0rc1 is later than")
    assert "have changed: backend.tensorflow.trainer.reduce_per_replica. Install" in said


@needs_keras_3
def test_each_function_that_is_replaced_is_declared() -> None:
    """If it fails, run `python -m tools.keras_sources`."""
    found = replaced()
    assert found
    assert set(found) <= set(REPLACED)


@needs_keras_3
def test_each_declared_function_has_the_hash_of_the_installed_release() -> None:
    """If it fails, run `python -m tools.keras_sources`, if the table of benchmarks is green."""
    from helpers.keras_3 import versions
    from helpers.keras_3.tested_sources import TESTED_SOURCES

    keras = importlib.util.find_spec("keras")
    assert keras and keras.origin
    found = versions.hashes(Path(keras.origin).parents[1])
    release = versions.parse(versions.installed() or "")
    assert release
    for name, hashed in found.items():
        recorded = TESTED_SOURCES.get(name, {})
        valid = [v for since, v in recorded.items() if (versions.parse(since) or ()) <= release]
        assert valid and valid[-1] == hashed, name
    assert set(TESTED_SOURCES) == set(versions.REPLACED)


@needs_keras_3
def test_comments_and_docstrings_make_no_other_source() -> None:
    from helpers.keras_3.versions import normalized

    plain = "    def f(x):\n        return x\n"
    text = '(x):\n        """Says.\n\nMore.\n        """\n# why\n'
    commented = plain.replace("(x):", text)
    assert normalized(plain) == normalized(commented)
    assert normalized(plain) != normalized(plain.replace("return x", "return -x"))


@needs_keras_3
def test_the_import_runs_no_operation_of_tensorflow() -> None:
    """Workers are forked from a process that imported it, and TensorFlow's threads do not fork."""
    code = "import helpers.keras_3\nfrom tensorflow.python.eager import context\n"
    assert program(code + "print(context.context()._context_handle)") == "None"
