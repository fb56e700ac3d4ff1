"""The table of TensorFlow versions, and one cell of it for the installed TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compatibility


@pytest.mark.benchmarks
def test_two_workers_have_the_losses_of_tensorflow_2_15(tmp_path: Path) -> None:
    numbers = compatibility.run(sys.executable, "two_workers", tmp_path)
    assert sorted(numbers) == ["worker-0", "worker-1"]
    assert numbers["worker-0"] == numbers["worker-1"]
    assert len(numbers["worker-0"]) == 20
    assert numbers["worker-0"][::19] == pytest.approx([0.6468535, 0.4778734], abs=1e-5)


def test_a_run_that_fails_is_a_cell_with_its_last_line(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such thing\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(RuntimeError, match="no such thing"):
        compatibility.run(str(python), "predict", tmp_path)


def test_the_table_names_what_differs_and_what_failed(tmp_path: Path) -> None:
    def cell(version: str, capability: str, numbers: Any, reason: str = "") -> Any:
        return compatibility.Cell(version, "3.12.1", capability, numbers, reason)

    cells = compatibility.compare(
        [
            cell("2.15.1", "predict", {"alone-0": [1.0, 200.0]}),
            cell("2.15.1", "resume", {"alone-0": [1.0]}),
            cell("2.19.1", "predict", {"alone-0": [1.0, 200.001]}),
            cell("2.19.1", "resume", None, "no space"),
            cell("2.21.0", "predict", {"alone-0": [1.1, 200.0]}),
            cell("2.21.0", "resume", {"alone-0": [1.0, 2.0]}),
        ]
    )
    assert [cell.passed for cell in cells] == [True, True, True, False, False, False]
    compatibility.write(cells, tmp_path)
    rows = (tmp_path / "compatibility.md").read_text().splitlines()[-3:]
    assert rows == [
        "| 2.15.1 | 3.12.1 | equal | equal |",
        "| 2.19.1 | 3.12.1 | equal to 5e-06 | failed: no space |",
        "| 2.21.0 | 3.12.1 | differs by 1e-01 | another count of numbers |",
    ]
    assert len((tmp_path / "compatibility.csv").read_text().splitlines()) == 7
