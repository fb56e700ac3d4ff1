"""How the lines of several workers become the output of a cell, with a clock that the test sets."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.worker_cells.output import FOLD_SECONDS, PARTIAL_SECONDS, CellOutput, ranges


class Screen:
    """Collects what is shown."""

    def __init__(self, workers: int) -> None:
        self.text = ""
        self.streams: list[str] = []
        self.bundles: list[dict[str, Any]] = []
        self.now = 0.0
        self.output = CellOutput(range(workers), self._write, self._show, lambda: self.now)

    def _write(self, stream: str, text: str) -> None:
        self.streams.append(stream)
        self.text += text

    def _show(self, data: dict[str, Any], _metadata: dict[str, Any]) -> None:
        self.bundles.append(data)


def test_equal_lines_of_all_workers_are_shown_once_without_a_delay() -> None:
    screen = Screen(3)
    for worker in range(3):
        screen.output.add_text(worker, "stdout", "same\n")
    screen.output.tick()
    assert screen.text == "[0-2] same\n"


def test_a_line_waits_for_the_other_workers_only_for_a_moment() -> None:
    screen = Screen(2)
    screen.output.add_text(1, "stdout", "one\n")
    screen.output.tick()
    assert screen.text == ""
    screen.now += FOLD_SECONDS
    screen.output.tick()
    assert screen.text == "[1] one\n"


def test_no_line_waits_for_a_worker_that_has_finished() -> None:
    screen = Screen(2)
    screen.output.add_text(1, "stdout", "one\n")
    screen.output.finish(0)
    screen.output.tick()
    assert screen.text == "[1] one\n"


def test_lines_that_differ_keep_the_order_of_each_worker() -> None:
    screen = Screen(2)
    screen.output.add_text(0, "stdout", "a\nsame\n")
    screen.output.add_text(1, "stdout", "b\nsame\n")
    screen.output.flush()
    assert screen.text == "[0] a\n[0] same\n[1] b\n[1] same\n"


def test_standard_error_stays_standard_error() -> None:
    screen = Screen(1)
    screen.output.add_text(0, "stdout", "a\n")
    screen.output.add_text(0, "stderr", "b\n")
    screen.output.tick()
    assert screen.streams == ["stdout", "stderr"]


def test_a_progress_bar_is_one_line() -> None:
    screen = Screen(1)
    screen.output.add_text(0, "stdout", "10%\r20%")
    screen.output.tick()
    assert screen.text == ""
    screen.now += PARTIAL_SECONDS
    screen.output.tick()
    screen.output.tick()
    assert screen.text == "[0] 20%"
    screen.output.add_text(0, "stdout", "\rend\n")
    screen.output.tick()
    assert screen.text == "[0] 20%\r[0] end\n"


def test_the_end_of_a_cell_shows_a_line_without_an_end() -> None:
    screen = Screen(2)
    screen.output.add_text(0, "stdout", "a")
    screen.output.add_text(1, "stdout", "a")
    screen.output.flush()
    assert screen.text == "[0-1] a\n"


def test_equal_values_are_shown_once_and_text_is_a_line() -> None:
    screen = Screen(2)
    for worker in range(2):
        screen.output.add_display(worker, {"text/plain": "3"}, {})
        screen.output.add_display(worker, {"text/plain": "t", "text/html": "<b>t</b>"}, {})
    screen.output.flush()
    assert screen.text == "[0-1] 3\n[0-1]\n"
    assert screen.bundles == [{"text/plain": "t", "text/html": "<b>t</b>"}]


def test_a_thread_of_a_worker_that_does_not_run_the_cell_may_print() -> None:
    screen = Screen(1)
    screen.output.add_text(3, "stdout", "late\n")
    screen.output.add_display(4, {"text/plain": "value"}, {})
    screen.output.flush()
    assert screen.text == "[3] late\n[4] value\n"


@pytest.mark.parametrize(
    ("numbers", "text"), [([0], "0"), ([0, 1, 2], "0-2"), ([0, 2, 3, 5], "0,2-3,5")]
)
def test_numbers_of_workers_are_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
