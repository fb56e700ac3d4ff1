"""Units are determined by the imports of their modules, and this is enforced."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import ROOT, units


@pytest.mark.parametrize(
    ("module", "name", "expected"),
    [
        ("cluster/test_supervisor.py", "test_supervisor_restarts_all_when_one_is_killed", True),
        ("panel/test_view.py", "test_numbers_on_axes_are_round", True),
        ("panel/test_view.py", "test_every_button_says_what_it_does", False),  # its fixture
        (
            "cluster/test_group.py",
            "test_a_death_is_a_fault_that_names_the_worker_and_the_signal",
            False,
        ),
        ("estimator/test_estimator.py", "test_a_remote_cluster_is_refused", False),
        ("panel/test_browser.py", "test_the_keyboard_alone_is_enough", False),
    ],
)
def test_a_unit_uses_nothing_that_starts_a_process(module: str, name: str, expected: bool) -> None:
    assert units.is_unit(ROOT / "tests" / module, name) == expected


def test_what_a_test_uses_of_other_modules_counts_too(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(
        "from tests.support.faults import train_tiny\n"
        "def first():\n    return train_tiny\n"
        "def test_train():\n    first()\n"
        "def test_other():\n    assert 1\n"
    )
    assert "    first()" in "".join(units.text_of(path, "test_train"))
    assert any("def train_tiny" in text for text in units.text_of(path, "test_train"))
    assert units.text_of(path, "test_other") == {"def test_other():\n    assert 1"}


@pytest.mark.parametrize(
    ("event", "arguments", "reason"),
    [
        ("subprocess.Popen", ("sh",), "starts a process"),
        ("import", ("tensorflow",), "imports TensorFlow"),
        ("import", ("json",), ""),
        ("open", ("file",), ""),
    ],
)
def test_the_guard_notes_what_no_unit_may_do(
    event: str, arguments: tuple[str, ...], reason: str
) -> None:
    guard = units.Guard()
    sys.audit(event, *arguments)
    assert not guard.found
    guard.armed = True
    sys.audit(event, *arguments)
    guard.armed = False
    assert reason in guard.found if reason else not guard.found
