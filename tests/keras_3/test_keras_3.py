"""Two workers under Keras 3 compute the same as one, on the same global batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.keras_3.processes import run
from benchmarks.keras_3.runs import DECIDING, verdicts
from benchmarks.keras_3.verdict import Verdict
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3


def broken(judged: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The cases with an unexpected result."""
    return {name: verdict for name, verdict in judged.items() if not verdict.holds}


@pytest.mark.keras_3
def test_two_workers_compute_what_one_does_wherever_a_function_was_replaced() -> None:
    judged = verdicts(names=DECIDING)[1]
    assert not broken(judged)
    assert set(judged) == set(DECIDING)


@pytest.mark.slow
def test_two_workers_compute_what_one_does_in_all_cases_or_say_why_not() -> None:
    judged = verdicts()[1]
    assert not broken(judged)
    assert len(judged) >= 140
    refused = {name: verdict.reason for name, verdict in judged.items() if not verdict.works}
    assert all("Error: " in reason for reason in refused.values())


@pytest.mark.parametrize(
    "program", ["user_program", pytest.param("ray_program", marks=pytest.mark.programs)]
)
def test_a_program_fails_on_two_workers_and_trains_with_one_line_more(
    program: str, tmp_path: Path
) -> None:
    """If the first half fails, Keras has fixed the problem, and docs/KERAS_3.md must say so."""
    module = f"benchmarks.keras_3.{program}"
    (code, printed), _other = run(module, [[], []], tmp_path)
    assert code != 0 and "PerReplica" in printed
    done = run(module, [["--mended"], ["--mended"]], tmp_path)
    losses = [text.splitlines()[-1] for _code, text in done]
    assert losses[0] == losses[1] and losses[0].startswith("losses [")


def in_keras_3(code: str) -> str:
    """The output of a program whose TensorFlow has Keras 3."""
    environ = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


MENDED = """
import inspect
import json
import keras
from keras.src.backend.tensorflow import trainer
def _maybe_symbolic_build(self, iterator=None, data_batch=None): "as Keras may have it one day"
trainer.TensorFlowTrainer._maybe_symbolic_build = _maybe_symbolic_build
def reduce_per_replica(values, strategy, reduction): "the same"
trainer.reduce_per_replica = reduce_per_replica
import helpers.keras_3
print(json.dumps([
    inspect.unwrap(trainer.TensorFlowTrainer._maybe_symbolic_build) is _maybe_symbolic_build,
    trainer.reduce_per_replica is reduce_per_replica,
]))
"""


def test_what_keras_has_mended_itself_is_left_alone() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "mended.py"  # a file, because the functions' source is inspected
        script.write_text(MENDED)
        printed = in_keras_3(f"import runpy; runpy.run_path({str(script)!r})")
    assert json.loads(printed.splitlines()[-1]) == [True, True]


UNTOUCHED = """
import keras, numpy as np, tensorflow as tf, json
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
def train(strategy):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1, clipnorm=0.2), "mse", steps_per_execution=2)
    x = np.arange(48.0, dtype="float32").reshape(16, 3) / 48
    history = model.fit(x, x.sum(1), batch_size=4, epochs=2, verbose=0, shuffle=False).history
    return [history["loss"], [w.tolist() for w in model.get_weights()]]
strategies = [tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy("/cpu:0")]
before = [train(strategy) for strategy in strategies]
import helpers.keras_3
print(json.dumps(before == [train(strategy) for strategy in strategies]))
"""


@pytest.mark.keras_3
def test_without_a_strategy_and_under_another_keras_computes_what_it_did() -> None:
    assert json.loads(in_keras_3(UNTOUCHED).splitlines()[-1]) is True
