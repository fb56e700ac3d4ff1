"""A supervised group of scripted workers, without processes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.cluster import group as group_module
from helpers.cluster import supervisor as supervisor_module
from helpers.cluster.group import WorkerGroup
from helpers.cluster.group_size import GroupSize
from helpers.cluster.supervisor import Supervisor
from helpers.cluster.timeouts import SuspendSafeClock, Timeouts
from helpers.protocol.events import Event, EventType
from helpers.tf_config import PS, TFConfig, build_tf_configs
from tests.support.fake_worker import FakeTime, ScriptedProcess, step

TIMEOUTS = Timeouts(start=60.0, heartbeat=30.0, progress=20.0)
ADDRESSES = ["a:1", "b:1", "c:1", "d:1", "e:1"]


class Launcher:
    """Starts scripted workers, and remembers the workers of each attempt."""

    def __init__(self, workers: int = 2, ps: int = 0, min_workers: int | None = None) -> None:
        self.configs = build_tf_configs(ADDRESSES[: workers + 2 * ps], chief=ps > 0, ps=ps)
        self.size = GroupSize(workers, min_workers)
        self.attempts: list[list[ScriptedProcess]] = []
        self.injected: list[Event] = []
        self.fault_injector: Any = SimpleNamespace(
            drain_events=self._drain, set_processes=lambda processes: None
        )

    def launch(self, attempt: int, workers: int) -> list[ScriptedProcess]:
        if not self.configs[0].is_asynchronous:
            self.configs = build_tf_configs(ADDRESSES[:workers])
        self.attempts.append([ScriptedProcess(config) for config in self.configs])
        return list(self.attempts[attempt])

    def respawn(self, lost: ScriptedProcess) -> ScriptedProcess:
        new = ScriptedProcess(lost.config)
        self.attempts[-1][self.configs.index(lost.config)] = new
        return new

    @property
    def processes(self) -> list[ScriptedProcess]:
        return self.attempts[-1]

    def _drain(self) -> list[Event]:
        drained, self.injected = self.injected, []
        return drained


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """The supervisor's clock, which advances by a second at each reading."""
    fake = FakeTime()

    def fast_group(*arguments: Any, **options: Any) -> WorkerGroup:
        return WorkerGroup(*arguments, **options, clock=SuspendSafeClock(fake))

    monkeypatch.setattr(supervisor_module, "WorkerGroup", fast_group)
    monkeypatch.setattr(group_module, "POLL_INTERVAL", 0.001)
    return fake


def supervised(launcher: Any, max_restarts: int = 3) -> Supervisor:
    """The supervisor of such a group."""
    size = getattr(launcher, "size", None) or GroupSize(2)
    return Supervisor(
        launcher, is_server, TIMEOUTS, max_restarts, launcher.fault_injector, size=size
    )


def events_of(
    launcher: Launcher, react: Callable[[Event], None], max_restarts: int = 3
) -> list[Event]:
    """Returns all events of a run. `react` is called for each of them."""
    supervisor = supervised(launcher, max_restarts)
    seen = []
    try:
        for event in supervisor.run():
            seen.append(event)
            react(event)
    finally:
        supervisor.close()
    return seen


def kinds(events: list[Event]) -> list[tuple[str, str]]:
    return [(str(event["event"]), str(event["task"])) for event in events]


def is_last_launch(event: Event, launcher: Launcher) -> bool:
    last = str(launcher.configs[-1].task)
    return bool(event["event"] == EventType.LAUNCHED and event["task"] == last)


def finish(launcher: Launcher) -> None:
    """Completes a step in every worker, then ends it successfully."""
    for process in launcher.processes:
        process.send(EventType.READY, step=0)
        step(process, 1)
        process.end()


def is_server(config: TFConfig) -> bool:
    return config.task.type == PS
