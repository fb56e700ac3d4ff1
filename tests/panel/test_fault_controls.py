"""The fault-injection lab: scenarios, faults from its buttons, and the report on its timeline."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from helpers.course.panel import Panel, scenarios
from helpers.course.panel.fault_timeline import fault_timeline, lines
from helpers.course.panel.state import PanelState
from helpers.course.panel.status import Status
from helpers.errors import ConfigError
from helpers.protocol.events import Event, FaultType
from helpers.results.fault_log import Entry
from helpers.results.history import StepReport
from helpers.results.training_result import TrainingResult
from tests.support.processes import wait_until

TASKS = ["worker 0", "worker 1"]
LONG = 30  # epochs, more than a test waits for


@pytest.fixture
def panel() -> Iterator[Panel]:
    made = Panel(fault_injection=True, collective="RING", batch_size=1024)
    yield made
    made.close()


def step(number: int) -> Event:
    return {"event": "step", "step": number}


def do(panel: Panel, deed: str, task: str) -> None:
    """Chooses a fault and a process, and presses the button."""
    controls = panel.fault_controls
    assert controls
    controls.fault.value, controls.task.value = deed, task
    controls.button.click()


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_scenario_asks_before_and_does_its_deed_once(name: str) -> None:
    asked = scenarios.question(name, TASKS)
    assert asked.endswith("?") and "{" not in asked
    done: list[tuple[Any, ...]] = []
    play = scenarios.start(name, TASKS, lambda *deed, **how: done.append((*deed, how)))
    before = len(done)
    for number in (
        1,
        scenarios.DEFAULT_FAULT_STEP - 1,
        scenarios.DEFAULT_FAULT_STEP,
        scenarios.DEFAULT_FAULT_STEP + 1,
    ):
        play(step(number))
    scenario = scenarios.SCENARIOS[name]
    assert done == [(scenario.fault.value, TASKS[scenario.task], scenario.options)]
    assert before == (scenario.fault == FaultType.DELAY_START)


def test_no_scenario_asks_and_does_nothing() -> None:
    assert scenarios.question(scenarios.NO_FAULT, TASKS) == ""
    scenarios.start(scenarios.NO_FAULT, TASKS, lambda *deed: pytest.fail("a deed"))(step(1000))


def test_an_unknown_scenario_is_refused_with_its_name() -> None:
    with pytest.raises(ConfigError, match="an earthquake"):
        PanelState(scenario="an earthquake")


def test_without_a_laboratory_there_is_none() -> None:
    plain = Panel()
    assert plain.fault_controls is None
    plain.close()


@pytest.mark.faults
def test_a_frozen_worker_is_noticed_survived_and_told(panel: Panel) -> None:
    controls = panel.fault_controls
    assert controls and controls.button.disabled
    panel.launch(epochs=LONG)
    run = panel.state.run
    assert run and wait_until(lambda: run.result.steps > 20, 60)
    assert wait_until(lambda: not controls.button.disabled, 5)
    do(panel, "freeze", "worker 1")
    assert wait_until(lambda: 1 in run.result.resumed_at, 60)
    assert wait_until(lambda: len(run.result.fault_log) >= 3, 30)
    whats = [line.message for line in run.result.fault_log]
    assert "frozen" in whats[0] and "detected" in whats[1] and "next step" in whats[2]
    assert wait_until(lambda: "next step" in controls.story.value, 5)
    panel.stop()


def test_what_cannot_be_done_is_said_and_the_training_goes_on(panel: Panel) -> None:
    panel.launch(epochs=LONG)
    run = panel.state.run
    assert run and wait_until(lambda: run.result.steps > 5, 60)
    do(panel, "thaw", "worker 0")
    panel.paint()
    assert panel.fault_controls
    assert 'role="alert"' in panel.fault_controls.question.value
    assert panel.state.status == Status.RUNNING
    panel.stop()


def test_a_scenario_that_is_chosen_is_the_states(panel: Panel) -> None:
    assert panel.fault_controls
    panel.fault_controls.scenario.value = "straggler"
    assert panel.state.scenario == "straggler"
    assert "1/4" in panel.fault_controls.question.value


def told() -> TrainingResult:
    """A run of two workers, the second of which was killed."""
    result = TrainingResult(2, "RING", "", 0.0, seconds=9.0, total_steps=468)
    for task in TASKS:
        result.history[task] = [StepReport(k / 10, k, 1.0, None, 0) for k in range(30)]
        result.history[task] += [StepReport(5 + k / 10, k, 1.0, None, 1) for k in range(30)]
    result.fault_log.append(Entry(3.0, "worker 1", "killed <&"))
    result.fault_log.append(Entry(5.0, "worker 0", "next step, 1"))
    return result


def test_the_time_line_has_a_bar_for_each_attempt_and_a_number_for_each_line() -> None:
    drawing = fault_timeline(told(), TASKS)
    root = ET.fromstring(drawing.svg())
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}rect")) == 4
    assert len(root.findall(f"{space}circle")) == 2
    assert drawing.label == "worker 1: killed <&; worker 0: next step, 1"
    for rect in root.findall(f"{space}rect"):
        assert 0 <= float(rect.get("x", "")) <= drawing.width - float(rect.get("width", ""))


def test_a_number_hides_no_other() -> None:
    result = told()
    result.fault_log.insert(1, Entry(3.06, "worker 1", "noticed"))
    result.fault_log += [Entry(9.0, "worker 1", "killed"), Entry(9.0, "worker 0", "killed")]
    circles = re.findall(
        r'<circle cx="([\d.]+)" cy="([\d.]+)" r="9"', fault_timeline(result, TASKS).svg()
    )
    assert len(circles) == 5
    for lane in {y for _x, y in circles}:
        places = sorted(float(x) for x, y in circles if y == lane)
        assert all(right - left >= 18 for left, right in pairwise(places))


def test_the_lines_below_it_are_escaped_and_numbered() -> None:
    listed = lines(told().fault_log)
    assert listed.startswith("<ol") and "killed &lt;&amp;" in listed
    assert re.findall(r"<b>(.*?)</b>: ", listed) == ["3.0 s · worker 1", "5.0 s · worker 0"]
