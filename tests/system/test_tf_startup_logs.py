"""Messages are suppressed while TensorFlow is imported, and no others are lost."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
from helpers.system.tensorflow_import import startup_logs_suppressed
with startup_logs_suppressed():
    os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called ...\\n")
    os.write(2, b"I0000 00:00:1795391627.6 11124 port.cc:153] oneDNN custom operations are on.\\n")
    os.write(2, b"E0000 00:00:1795391627.6 11124 of.cc:1] something is wrong\\n")
os.write(2, b"I0000 later\\n")
"""


def said(code: str, level: str) -> str:
    """The standard error output of a program."""
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": level}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    return done.stderr


@pytest.mark.parametrize("level", ["1", "3"])
def test_early_messages_are_dropped_and_others_are_not(level: str) -> None:
    assert said(PROGRAM, level).splitlines() == [
        "E0000 00:00:1795391627.6 11124 of.cc:1] something is wrong",
        "I0000 later",
    ]


def test_who_has_not_asked_for_quiet_sees_all() -> None:
    assert len(said(PROGRAM, "0").splitlines()) == 4


def test_the_import_of_a_lesson_is_quiet() -> None:
    assert said("import helpers.estimator\nimport tensorflow", "3") == ""


@pytest.mark.training
def test_a_kernel_imports_keras_quietly_once_it_has_imported_helpers() -> None:
    kernel = "import sys; sys.modules['ipykernel'] = sys\n"
    code = "import helpers\nimport keras\nimport tensorflow"
    assert said(kernel + code, "3") == ""
    assert "oneDNN" in said(kernel + code, "0")
