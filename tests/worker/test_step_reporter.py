"""How often workers report."""

from __future__ import annotations

import time
from typing import Any

from helpers.tf_config import build_tf_configs
from helpers.worker.context import WorkerContext
from helpers.worker.step_reporter import StalenessReporter, StepReporter, report_interval


def group(workers: int) -> list[Any]:
    return build_tf_configs([f"host-{k}:2222" for k in range(workers)])


def test_a_small_group_reports_ten_times_a_second() -> None:
    assert [report_interval(config) for config in group(4)] == [0.1] * 4


def test_in_a_large_group_the_others_than_the_chief_send_no_more_than_200_a_second_together() -> (
    None
):
    chief, *others = group(512)
    assert report_interval(chief) == 0.1
    assert 190 < sum(1 / report_interval(config) for config in others) <= 200


def test_a_reporter_keeps_to_its_interval(monkeypatch: Any) -> None:
    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    sent: list[int] = []
    context = WorkerContext(group(512)[1], lambda kind, **fields: sent.append(fields["step"]))
    reporter = StepReporter(context, global_batch=64)
    for step in range(1, 101):
        now = step / 10
        if reporter.should_report:
            reporter.report(step, 1.0)
    assert sent == [1, 27, 53, 79]


def test_staleness_is_what_others_did_during_the_own_steps() -> None:
    told: list[tuple[int, float]] = []
    reporter = StalenessReporter(lambda kind, step, updates: told.append((step, updates)))
    for own, step in ((1, 10), (4, 22), (2, 24), (0, 30), (5, 34)):
        for _step in range(own):
            reporter.count()
        reporter.report(step)
    # Nothing before the first report or without an own step, and never below 0.
    assert told == [(22, 2.0), (24, 0.0), (34, 0.0)]
