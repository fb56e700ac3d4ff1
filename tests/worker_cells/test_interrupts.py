"""When an interrupt reaches the cell of a worker."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from helpers.worker.cells.interrupts import Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    previous = signal.getsignal(signal.SIGINT)
    started = Interrupts()
    started.begin()
    yield started
    signal.signal(signal.SIGINT, previous)


def test_a_cell_is_interrupted(interrupts: Interrupts) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_after_the_cell_an_interrupt_is_ignored(interrupts: Interrupts) -> None:
    interrupts.end()
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end_of_a_message(interrupts: Interrupts) -> None:
    interrupts.hold()
    interrupts.hold()
    signal.raise_signal(signal.SIGINT)
    interrupts.release()
    with pytest.raises(KeyboardInterrupt):
        interrupts.release()
    interrupts.hold()
    interrupts.release()  # it is raised once


def test_an_interrupt_of_one_cell_does_not_reach_the_next(interrupts: Interrupts) -> None:
    interrupts.hold()
    signal.raise_signal(signal.SIGINT)
    interrupts.end()
    interrupts.begin()
    interrupts.hold()
    interrupts.release()


def test_a_replaced_handler_is_replaced_by_the_next_cell(interrupts: Interrupts) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts.begin()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
