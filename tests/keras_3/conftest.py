"""One start of workers for the cases that decide, of all modules of helpers.keras_3."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from benchmarks.keras_3.runs import verdicts
from benchmarks.keras_3.verdict import Verdict

MEANS = (
    "a function that returns a mean",
    "Dice",
    "Keras's loss and a mean",
    "`reduction=None` in `compile`",
    "arrays that do not divide",
    "`mean_with_sample_weight`",
    "`mask_zero`",
    "two outputs",
    "BatchNormalization without examples",
    "BatchNormalization, synchronized, uneven",
    "batches of one, own mean",
)
GRADIENTS = (
    "clipped in `train_step`",
    "two tapes, one persistent",
    "each example's gradient clipped",
    "`apply` overridden",
    "`apply_gradients` overridden, own loop",
    "an Embedding's gradients clipped",
)
EXECUTIONS = ("an execution cut short, EarlyStopping", "`train_on_batch` in executions")
METRICS = (
    "a metric that keeps a maximum",
    "a function of the batch",
    "metrics of `train_on_batch`",
    "a step that returns a variable",
)


@pytest.fixture(scope="session")
def verdict() -> Callable[[str], Verdict]:
    """Of a case, on three workers beside one; the cases run when the first is asked for."""
    found: Mapping[str, Verdict] = verdicts(
        names=MEANS + GRADIENTS + EXECUTIONS + METRICS, workers=(3,)
    )[1]
    return lambda name: found[name]
