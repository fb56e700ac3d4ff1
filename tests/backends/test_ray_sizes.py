"""Requests of Ray for the size of a group, and their answers, tested without Ray."""

from __future__ import annotations

import asyncio

from helpers.backends.ray.event_queue import EventQueue
from helpers.protocol.events import EventType
from tests.backends.test_ray_stacks import run


async def requests(queue: EventQueue) -> list[tuple[int, int | None]]:
    """The counted slots and the numbers of the requests that the notebook has received."""
    mail = await queue.take(60)
    assert {event["event"] for event in mail} == {EventType.SLOTS_COUNTED}
    return [(event["slots"], event["request"]) for event in mail]


def test_ray_gets_the_size_that_the_notebook_chooses() -> None:
    async def scenario(queue: EventQueue) -> None:
        asked = asyncio.create_task(queue.request_size(4, 60))
        [(slots, request)] = await requests(queue)
        assert (slots, request) == (4, 1)
        await queue.set_size(1, 3)
        assert await asked == 3
        await queue.report_slots(2)
        assert await requests(queue) == [(2, None)]

    run(scenario)


def test_a_late_answer_does_not_count() -> None:
    async def scenario(queue: EventQueue) -> None:
        assert await queue.request_size(4, 0.01) is None
        asked = asyncio.create_task(queue.request_size(3, 60))
        await asyncio.sleep(0)
        assert await requests(queue) == [(4, 1), (3, 2)]
        await queue.set_size(1, 4)
        await asyncio.sleep(0)
        assert not asked.done()
        await queue.set_size(2, 3)
        assert await asked == 3

    run(scenario)


def test_the_end_of_a_run_is_an_answer() -> None:
    async def scenario(queue: EventQueue) -> None:
        asked = asyncio.create_task(queue.request_size(4, 60))
        await requests(queue)
        await queue.end()
        assert await asked == 0
        assert await queue.request_size(4, 60) == 0

    run(scenario)
