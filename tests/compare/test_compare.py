"""`helpers.compare`: the same program on groups of different sizes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import helpers
from benchmarks import ROOT
from benchmarks.keras_3 import planted
from helpers.compare import Cause, Comparison
from helpers.errors import ConfigError
from tests.support.faults import needs_keras_3


def of(name: str) -> planted.Planted:
    return next(one for one in planted.PROGRAMS if one.program.__name__ == name)


@needs_keras_3
@pytest.mark.keras_3
@pytest.mark.parametrize(
    "name", ["sound", "own_mean", "last_example", "unseeded_shuffle", "layer_with_state"]
)
def test_a_planted_fault_is_named(name: str) -> None:
    result, right = planted.run(of(name))
    assert right, str(result)


@needs_keras_3
@pytest.mark.slow
def test_of_all_planted_faults_nine_in_ten_are_named() -> None:
    assert planted.main([]) == 0


@needs_keras_3
def test_the_result_is_a_table_with_the_first_step_that_differs_and_a_picture() -> None:
    result, _right = planted.run(of("weighted_mean"))
    assert isinstance(result, Comparison) and not result.equal
    assert result.first_steps == {2: 1}
    assert result.diagnoses[2].cause is Cause.PARTIAL_MEANS
    loss, weights = result.rows
    assert (loss.name, weights.name) == ("loss", "weights")
    assert loss.values.keys() == {1, 2} and loss.difference > result.tolerance
    text = str(result)
    assert "1 worker  2 workers  largest difference" in text.splitlines()[0]
    assert "2 workers, from step 1 on: partial means. The gradient is not a multiple" in text
    assert "<table>" in result._repr_html_()
    assert "Comparison(1, 2 workers differ: partial means)" in result.plot()._repr_html_()


PROGRAM = """
import sys
import keras
import numpy as np
import tensorflow as tf

print("rate", sys.argv[1])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.arange(96, dtype="float32").reshape(24, 4) / 96
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(float(sys.argv[1])), "mse", metrics=["mae"])
if __name__ == "__main__":
    model.fit(x, x.sum(1), batch_size=12, epochs=2, shuffle=False, verbose=0)
"""


@needs_keras_3
def test_a_program_in_a_file_is_compared_with_the_fix_and_agrees(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "helpers.compare", "--workers", "1,2", str(program), "0.1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith("Comparison(1, 2 workers agree to ")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == ["loss", "mae", "weights"]


def test_it_is_called_by_its_name_and_imports_neither_tensorflow_nor_matplotlib() -> None:
    code = """
import sys
import helpers
assert callable(helpers.compare)
import helpers.compare
assert callable(helpers.compare) and callable(sys.modules["helpers.compare"])
print({"tensorflow", "matplotlib", "keras"} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_one_group_size_compares_nothing() -> None:
    with pytest.raises(ConfigError, match=r"workers=\(2,\) compares nothing"):
        helpers.compare(print, workers=(2,))
