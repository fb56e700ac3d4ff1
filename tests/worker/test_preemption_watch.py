"""A worker that receives SIGTERM: when it reports it, and when it stops."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.protocol.events import EventType
from helpers.protocol.failures import error_fields, is_preempted
from helpers.tf_config import TFConfig, build_tf_configs
from helpers.worker import preemption
from helpers.worker.context import WorkerContext
from helpers.worker.preemption import PreemptionWatch


class Service:
    """TensorFlow's coordination service, for workers in one process, which never waits."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def set_config_key_value(self, key: str, value: str) -> None:
        """Sets a key once."""
        if key in self.values:
            raise ValueError("ALREADY_EXISTS")
        self.values[key] = value

    def get_config_key_value(self, key: str) -> str:
        """Raises KeyError where the real service would wait."""
        return self.values[key]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    found = Service()
    monkeypatch.setattr(preemption, "_service", lambda: found)
    before = signal.getsignal(signal.SIGTERM)
    yield found
    signal.signal(signal.SIGTERM, before)


def context(config: TFConfig, reports: list[Any]) -> WorkerContext:
    return WorkerContext(config, lambda kind, **fields: reports.append(kind))


@pytest.mark.usefixtures("service")
def test_a_worker_alone_reports_after_the_step_and_stops_at_once() -> None:
    reports: list[Any] = []
    watch = PreemptionWatch(context(TFConfig(), reports))
    assert not watch.must_stop()
    os.kill(os.getpid(), signal.SIGTERM)
    assert reports == []  # in the handler, the main thread may hold the lock of the events
    assert watch.must_stop()
    assert reports == [EventType.PREEMPTED]
    assert watch.error().is_own


def test_a_peer_stops_after_the_announced_step(service: Service) -> None:
    service.set_config_key_value(preemption.REQUEST, "2")  # announced by worker 1
    watch = PreemptionWatch(context(build_tf_configs(["a:1", "b:1"])[0], []))
    for thread in threading.enumerate():
        if thread.name == "preemption":
            thread.join()
    assert [watch.must_stop(), watch.must_stop()] == [False, True]
    assert f"{preemption.ACKNOWLEDGEMENT}/0" in service.values
    error = watch.error()
    assert not error.is_own
    assert is_preempted(error)
    assert error_fields(error)["retryable"]
