"""Runs the cases, as one worker of `TF_CONFIG`.

    python -m benchmarks.keras_3.program ANSWERS [CASE …]

Writes the results of all cases, or of the named ones, to the file ANSWERS as JSON. Every case
starts from the same weights and data.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

import helpers.keras_3  # noqa: F401
from benchmarks.keras_3 import cases, data_cases, kinds
from benchmarks.keras_3.trial import Case, Trial
from helpers.tf_config import TFConfig


def answer(case: Case, trial: Trial) -> dict[str, Any]:
    """Runs one case and returns its entry of `verdict.Answers`."""
    about = {"group": case.group, "claim": case.claim, "tolerance": case.tolerance}
    about |= {"refused": case.refused, "not_numbers": case.not_numbers}
    try:
        return about | {"given": trial.run()}
    except Exception as error:
        return about | {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Runs all cases in turn."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    config = TFConfig.from_env()
    index, workers = config.task.index, len(config.tasks)
    path, wanted = Path(sys.argv[1]), sys.argv[2:]
    answers = {}
    every = cases.cases() | kinds.cases() | data_cases.data_cases()
    for name, case in every.items():
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            answers[name] = answer(case, Trial(case, strategy, index, workers, Path(folder)))
        print(name, answers[name].get("error", ""), flush=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(answers), encoding="utf-8")
    part.rename(path)


if __name__ == "__main__":
    main()
