"""Two workers under Keras 3 compute what one does, on the same global batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.keras_3.processes import run
from tests.support import ROOT

KERAS = tuple(int(part) for part in metadata.version("keras").split(".")[:2])
pytestmark = pytest.mark.skipif(KERAS < (3, 15), reason="for Keras 3.15; make test-newest has it")

TOLERANCE = {"mixed precision": 2e-2, "loss scaling": 1e-5}

# From the program, which only workers can import here: it brings Keras 3.
CASES = tuple(
    line.split('"')[1]
    for line in (ROOT / "tests/keras_3/program.py").read_text("utf-8").splitlines()
    if line.startswith('        "') and '": Case(' in line
)
REFUSED = {"jit_compile": "jit_compile=True cannot be had on several workers"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Any]]:
    """What one worker, and the first of two, found in each case."""
    folder = tmp_path_factory.mktemp("keras-3")
    found = {}
    for workers in (1, 2):
        place = folder / str(workers)
        place.mkdir()
        files = [place / f"answers-{index}" for index in range(workers)]
        done = run("tests.keras_3.program", [[str(file)] for file in files], place)
        assert [code for code, _printed in done] == [0] * workers, done[0][1][-3000:]
        found[workers] = json.loads(files[0].read_text("utf-8"))
    yield found


def leaves(value: Any) -> Iterator[float]:
    """The numbers of a nest of lists and dicts, in order."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from leaves(value[name])
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@pytest.mark.parametrize("case", [case for case in CASES if case not in REFUSED])
def test_two_workers_compute_what_one_does(case: str, answers: dict[int, Any]) -> None:
    alone, together = answers[1][case], answers[2][case]
    assert isinstance(alone, dict), alone
    assert isinstance(together, dict), together
    tolerance = TOLERANCE.get(case, 1e-6)
    for part in ("history", "weights", "evaluate", "predict"):
        expected = pytest.approx(
            list(leaves(alone[part])), rel=tolerance, abs=tolerance, nan_ok=True
        )
        assert list(leaves(together[part])) == expected, part


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_with_a_sentence(case: str, answers: dict[int, Any]) -> None:
    assert REFUSED[case] in answers[2][case]


def test_every_case_is_tested(answers: dict[int, Any]) -> None:
    assert sorted(answers[2]) == sorted(CASES)
    assert len(CASES) >= 30


def test_an_owners_program_fails_on_two_workers_and_trains_with_one_line_more(
    tmp_path: Path,
) -> None:
    """When the first half fails, Keras has mended it: then say so in docs/KERAS_3.md."""
    (code, printed), _other = run("tests.keras_3.owners_program", [[], []], tmp_path)
    assert code != 0 and "PerReplica" in printed
    done = run("tests.keras_3.owners_program", [["--mended"], ["--mended"]], tmp_path)
    losses = [text.splitlines()[-1] for _code, text in done]
    assert losses[0] == losses[1] and losses[0].startswith("losses [")
