"""Workers that diverge end with an error that names the current action of each."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.keras_3.processes import run
from tests.keras_3.selection import in_lanes, selected_names
from tests.support.faults import needs_keras_3

pytestmark = needs_keras_3

SENTENCES = {
    "weights_loaded_by_the_chief": r"different weights at the start of fit .*dense/kernel is",
    "learning_rate_of_one": r"at the end of epoch 1 of fit .*learning_rate is",
    "state_without_aggregation": r"at the end of epoch 1 of fit .*largest/most is",
    "weights_changed_in_a_long_epoch": r"at step 500 of fit .*bias is",
    "epoch_of_a_backup": r"start with different epochs, .*worker 0: 0, worker 1: 1",
    "chief_alone_in_evaluate": r"worker 0: evaluate of .*; worker 1: fit of",
    "evaluation_in_a_callback_of_the_chief": r"worker 0: evaluate of .*; worker 1: the end of",
    "different_epochs": r"epochs differs between workers.*worker 0: 2, worker 1: 3",
    "endless_on_one": r"data of worker 0 never ends, but the data of worker 1 does",
    "seeds_by_worker": r"different seeds.*worker 0: 0, worker 1: 1",
    "model_outside_of_the_scope": r"created at parting_programs\.py:\d+, outside",
    "compiled_outside_of_the_scope": r"optimizer, compiled at parting_programs\.py:\d+, was",
    "created_outside_compiled_inside": r"created at parting_programs\.py:\d+, outside of",
    "loaded_outside_of_the_scope": r"created at parting_programs\.py:\d+, outside of",
    "two_strategies": r"belongs to a different strategy than the model",
}
"""Of each program whose workers can go on with the next one."""

LAST = {
    "chief_alone_in_predict": (r"worker 0: predict of .*; worker 1: its program has ended", ""),
    "one_stops_in_an_epoch": (r"worker 0: in step 3 .*; worker 1: after step 2",) * 2,
    "one_stops_on_endless_data": (r"worker 0: in step 3 .*; worker 1: after step 2",) * 2,
    "one_fails_in_an_epoch": (
        r"A worker has failed.*worker 1: failed in fit of .* with ValueError: no more room",
        r"^ValueError: no more room$",
    ),
}
"""Of each program that is the last of its group, by worker."""

KEPT = (
    "weights_loaded_by_the_chief",
    "chief_alone_in_evaluate",
    "model_outside_of_the_scope",
)

Answers = Mapping[str, Mapping[str, Any]]


def errors(*names: str) -> list[Answers]:
    """The errors that two workers report."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"answers-{index}" for index in range(2)]
        arguments = [[str(file), *names] for file in files]
        for code, printed in run("tests.keras_3.parting_programs", arguments, Path(folder)):
            assert code == 0, printed[-3000:]
        return [json.loads(file.read_text("utf-8")) for file in files]


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> list[Answers]:
    return errors(*selected_names(request, "found"))


@pytest.mark.parametrize("name", in_lanes(SENTENCES, KEPT))
def test_workers_that_part_read_what_each_is_doing(name: str, found: list[Answers]) -> None:
    for answer in found:
        assert re.search(SENTENCES[name], answer[name]["error"]), answer[name]


@pytest.mark.keras_3
@pytest.mark.parametrize("name", LAST)
def test_a_worker_in_a_step_is_not_left_waiting(name: str) -> None:
    for expected, answer in zip(LAST[name], errors(name), strict=True):
        assert re.search(expected, answer[name]["error"]), answer[name]
        assert bool(expected) == bool(answer[name]["error"])


@pytest.mark.keras_3
@pytest.mark.parametrize("name", ["lost_at_an_epochs_end", "frozen_at_an_epochs_end"])
def test_the_others_do_not_wait_forever_for_a_lost_worker(name: str, tmp_path: Path) -> None:
    files = [tmp_path / f"answers-{index}" for index in range(2)]
    run("tests.keras_3.parting_programs", [[str(file), name] for file in files], tmp_path)
    answer = json.loads(files[0].read_text("utf-8"))[name]
    assert "UnavailableError" in answer["error"], answer
    assert "worker 1" in answer["error"] or "task:1" in answer["error"], answer
