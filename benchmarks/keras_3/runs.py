"""Runs the cases in an environment, by one worker and by several."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.keras_3.processes import run
from benchmarks.keras_3.verdict import Answers, Verdict, badness, judge

WORKERS = 2
DECIDING = (  # at least one for each kind of function that is replaced
    "Sequential",
    "not built before `fit`",
    "NumPy arrays",
    "BatchNormalization",
    "a shorter last batch",
    "`clipnorm`",
    "`gradient_accumulation_steps`",
    "loss scaling, an infinite example",
    "`steps_per_execution`",
    "`jit_compile`",
    "a function that returns a mean",
    "Dice",
    "`mask_zero`",
    "an activity regularizer",
    "batches of one, own mean",
    "BatchNormalization without examples",
    "clipped in `train_step`",
    "`apply` overridden",
    "an execution cut short, EarlyStopping",
    "a metric that keeps a maximum",
    "metrics of `train_on_batch`",
    "a generator",
    "a PyDataset of slices",
    "arrays shuffled without a seed",
    "state in a layer",
    "weights loaded by the chief only",
    "a model outside of the scope",
)
VERSIONS = "import importlib.metadata as m, sys; print(sys.version.split()[0], *map(m.version, {}))"


def answers(workers: int, folder: Path, python: str | Path, names: Sequence[str]) -> list[Answers]:
    """Returns the answers of each worker.

    Raises:
      RuntimeError: one failed. The message ends with its output.
    """
    folder.mkdir()
    files = [folder / f"answers-{index}" for index in range(workers)]
    arguments = [[str(file), *names] for file in files]
    for code, printed in run("benchmarks.keras_3.program", arguments, folder, python):
        if code != 0:
            raise RuntimeError(f"a worker ended with {code}: {printed[-3000:]}")
    return [json.loads(file.read_text("utf-8")) for file in files]


def verdicts(
    python: str | Path = sys.executable,
    names: Sequence[str] = (),
    workers: Sequence[int] = (WORKERS,),
) -> tuple[Answers, dict[str, Verdict]]:
    """Returns the answers of the first of several workers, and the worst verdict on each case."""
    with tempfile.TemporaryDirectory(prefix="keras-3-") as folder:
        [alone] = answers(1, Path(folder) / "alone", python, names)
        found = [answers(count, Path(folder) / str(count), python, names) for count in workers]
    judged = [judge(alone, together) for together in found]
    return found[0][0], {
        name: max((one[name] for one in judged), key=badness) for name in judged[0]
    }


def versions(python: str | Path) -> tuple[str, str, str]:
    """Returns the versions of Python, TensorFlow and Keras."""
    for tensorflow in ("tensorflow", "tensorflow-cpu"):
        code = VERSIONS.format((tensorflow, "keras"))
        done = subprocess.run(
            [str(python), "-c", code], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            own, tf, keras = done.stdout.split()
            return own, tf, keras
    raise RuntimeError(f"{python} has no TensorFlow: {done.stderr[-300:]}")
