"""Requests for stacks on Ray, and their answers, tested without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from helpers.backends.ray.event_queue import EventQueue
from helpers.cluster.stack_patterns import WaitsFor
from helpers.cluster.stacks import Stacks, TaskStack

SECONDS = 0.2


def run(scenario: Callable[[EventQueue], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(EventQueue())

    asyncio.run(main())


async def answer(queue: EventQueue, task: str, attempt: int = 0) -> list[tuple[int, bool]]:
    """Answers all requests as the supervisor of a task, until the attempt has failed."""
    requests: list[tuple[int, bool]] = []
    while request := await queue.wait_stack_request(
        attempt, task, requests[-1][0] if requests else None
    ):
        requests.append(request)
        await queue.put_stacks(request[0], task, Stacks({task: TaskStack(task, WaitsFor.SLEEP)}))
    return requests


async def started(queue: EventQueue, *tasks: str, attempt: int = 0) -> list[asyncio.Task[object]]:
    supervisors: list[asyncio.Task[object]] = [
        asyncio.create_task(answer(queue, task, attempt)) for task in tasks
    ]
    await asyncio.sleep(0)
    return supervisors


def kind(answers: dict[str, Stacks], task: str) -> WaitsFor:
    """What a task waits for, according to the answer of its supervisor."""
    return answers[task][task].waits_for


def test_all_supervisors_answer_each_request_in_the_order_of_the_workers() -> None:
    async def scenario(queue: EventQueue) -> None:
        supervisors = await started(queue, "worker 10", "worker 2")
        for before_kill in (False, True):
            found = await queue.collect_stacks(0, 60, before_kill=before_kill)
            assert list(found) == ["worker 2", "worker 10"]
            assert [kind(found, task) for task in found] == [WaitsFor.SLEEP] * 2
        both = await asyncio.gather(*(queue.collect_stacks(0, 60) for _time in range(2)))
        assert both[0] == both[1] == found
        await queue.fail([])
        requests = [(1, False), (2, True), (3, False), (4, False)]
        assert await asyncio.gather(*supervisors) == [requests, requests]

    run(scenario)


def test_a_supervisor_that_does_not_answer_is_not_waited_for() -> None:
    async def scenario(queue: EventQueue) -> None:
        await started(queue, "worker 0")
        lost = asyncio.create_task(queue.wait_stack_request(0, "worker 1", None))
        await asyncio.sleep(0)
        found = await queue.collect_stacks(0, SECONDS)
        assert [kind(found, task) for task in found] == [WaitsFor.SLEEP, WaitsFor.UNKNOWN]
        assert await lost == (1, False)
        late = asyncio.create_task(queue.collect_stacks(0, SECONDS))
        await asyncio.sleep(0)
        await queue.put_stacks(1, "worker 1", Stacks())  # the answer to the first request
        assert kind(await late, "worker 1") == WaitsFor.UNKNOWN

    run(scenario)


def test_the_answer_of_a_task_that_has_ended_is_empty() -> None:
    async def scenario(queue: EventQueue) -> None:
        await started(queue, "worker 1")
        ended = asyncio.create_task(queue.wait_stack_request(0, "worker 0", None))
        await asyncio.sleep(0)
        found = asyncio.create_task(queue.collect_stacks(0, 60))
        assert await ended == (1, False)
        await queue.put_stacks(1, "worker 0", Stacks())
        assert (await found)["worker 0"] == {} and kind(await found, "worker 1") == WaitsFor.SLEEP

    run(scenario)


def test_only_supervisors_of_the_current_attempt_answer() -> None:
    async def scenario(queue: EventQueue) -> None:
        await started(queue, "worker 0", "worker 1")
        assert len(await queue.collect_stacks(0, 60)) == 2
        await queue.fail([])
        assert await queue.collect_stacks(0, 60) == {} == await queue.collect_stacks(1, 60)
        [late] = await started(queue, "worker 0", attempt=0)
        assert await late == []
        await started(queue, "worker 1", attempt=1)
        assert list(await queue.collect_stacks(1, 60)) == ["worker 1"]

    run(scenario)
