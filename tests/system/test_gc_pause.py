"""Python's garbage collector is disabled while TensorFlow is imported, and enabled afterwards."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.system.tensorflow_import import gc_disabled
from tests.support import ROOT


def test_a_search_that_was_on_is_on_again_even_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ImportError), gc_disabled():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()


def test_one_that_the_reader_turned_off_stays_off() -> None:
    gc.disable()
    try:
        with gc_disabled():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_tensorflow_is_imported_without_it(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("import gc\nestimator, searched = None, gc.isenabled()")
    code = "import gc; from helpers.estimator import tf; print(tf.searched, gc.isenabled())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False True\n"
