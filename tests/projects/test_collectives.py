"""The given collectives and their switch: results, bytes, errors, and an end with waiting calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

from helpers.course.projects.collectives import Collectives
from helpers.course.projects.relay import listening_socket
from helpers.course.projects.switch import Switch

SECONDS = 20.0  # the deadline of a test
Work = Callable[[Collectives], Any]


@contextmanager
def started(size: int, work: Work) -> Iterator[tuple[Switch, list[Future[Any]]]]:
    """The same work in one thread for each process."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(listening_socket()) for _rank in range(size)]
        pool = stack.enter_context(ThreadPoolExecutor(size))
        addresses = [listener.getsockname() for listener in listeners]
        switch = stack.enter_context(Switch(addresses))
        groups = [Collectives(rank, size, listener) for rank, listener in enumerate(listeners)]
        yield switch, [pool.submit(work, group) for group in groups]


def results(size: int, work: Work) -> list[Any]:
    with started(size, work) as (_switch, futures):
        return [future.result(SECONDS) for future in futures]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_two_halves_are_an_all_reduce(size: int) -> None:
    def work(group: Collectives) -> Any:
        array = np.arange(3.0 * size) + group.rank
        piece = group.reduce_scatter(array)
        assert array[0] == group.rank  # unchanged
        return group.all_gather(piece)

    wanted = sum(np.arange(3.0 * size) + rank for rank in range(size))
    assert all(np.array_equal(found, wanted) for found in results(size, work))


def test_a_piece_may_be_a_part_of_the_result_and_arrays_may_be_empty() -> None:
    def work(group: Collectives) -> Any:
        out = np.zeros(6, "float32")
        own = out[2 * group.rank : 2 * group.rank + 2]
        own += group.rank
        assert group.all_gather(own, out=out) is out
        assert len(group.reduce_scatter(np.zeros(0))) == 0
        return out.tolist()

    assert results(3, work) == [[0, 0, 1, 1, 2, 2]] * 3


def test_the_switch_counts_data_and_headers_of_arrays_larger_than_any_buffer() -> None:
    array = np.ones(4_000_000)
    with started(2, lambda group: group.reduce_scatter(array)[0]) as (switch, futures):
        assert [future.result(SECONDS) for future in futures] == [2, 2]
        header = len("reduce_scatter 4000000 float64")
        assert switch.sent == [array.nbytes // 2 + header] * 2


def test_different_calls_are_an_error_that_names_both() -> None:
    def work(group: Collectives) -> str:
        with pytest.raises(ValueError, match="calls ") as error:
            group.reduce_scatter(np.zeros(4 + 2 * group.rank))
        return str(error.value)

    assert results(2, work)[0] == (
        "process 0 calls reduce_scatter for float64[4], but process 1 reduce_scatter for float64[6]"
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda group: group.reduce_scatter(np.zeros(3)), "length 3 is not divisible by 2"),
        (lambda group: group.reduce_scatter([1.0, 2.0]), "array is list, and not a NumPy array"),
        (lambda group: group.all_gather(np.zeros((2, 2))), "piece has the shape"),
        (lambda group: group.all_gather(np.zeros(8)[::2]), "Pass a contiguous array"),
        (lambda group: group.all_gather(np.zeros(2), out=np.zeros(3)), r"need float64\[4\]"),
    ],
)
def test_a_wrong_argument_is_an_error(call: Work, text: str) -> None:
    def work(group: Collectives) -> None:
        with pytest.raises(ValueError, match=text):
            call(group)

    results(2, work)


def test_closing_the_switch_ends_calls_that_wait_and_all_threads() -> None:
    before = set(threading.enumerate())

    def work(group: Collectives) -> None:
        if group.rank == 0:
            with pytest.raises((EOFError, OSError)):
                group.reduce_scatter(np.zeros(2))

    with started(2, work) as (_switch, [waiting, _other]):
        pass
    waiting.result(SECONDS)
    assert set(threading.enumerate()) <= before
