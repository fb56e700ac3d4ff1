"""The fault laboratory: scenarios, deeds by its buttons, and the story on its time line."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from helpers.errors import ConfigError
from helpers.messages.events import Deed, Event
from helpers.panel import Panel, scenarios
from helpers.panel.laboratory import lines
from helpers.panel.state import PanelState
from helpers.panel.status import Status
from helpers.panel.story_picture import story_picture
from helpers.results.history import Point
from helpers.results.story import Line
from helpers.results.training_result import TrainingResult
from tests.support.processes import wait_until

TASKS = ["worker 0", "worker 1"]
LONG = 30  # epochs: more than a test waits for


@pytest.fixture
def panel() -> Iterator[Panel]:
    made = Panel(laboratory=True, collective="RING", batch_size=1024)
    yield made
    made.close()


def step(number: int) -> Event:
    return {"event": "step", "step": number}


def do(panel: Panel, deed: str, task: str) -> None:
    """As somebody who chooses a deed and a process, and presses the button."""
    laboratory = panel.laboratory
    assert laboratory
    laboratory.deed.value, laboratory.task.value = deed, task
    laboratory.button.click()


@pytest.mark.parametrize("name", scenarios.SCENARIOS)
def test_a_scenario_asks_before_and_does_its_deed_once(name: str) -> None:
    asked = scenarios.question(name, TASKS)
    assert asked.endswith("?") and "{" not in asked
    done: list[tuple[Any, ...]] = []
    play = scenarios.begin(name, TASKS, lambda *deed, **how: done.append((*deed, how)))
    before = len(done)
    for number in (1, scenarios.AT_STEP - 1, scenarios.AT_STEP, scenarios.AT_STEP + 1):
        play(step(number))
    scenario = scenarios.SCENARIOS[name]
    assert done == [(scenario.deed.value, TASKS[scenario.task], scenario.how)]
    assert before == (scenario.deed == Deed.DELAY)


def test_no_scenario_asks_and_does_nothing() -> None:
    assert scenarios.question(scenarios.NONE, TASKS) == ""
    scenarios.begin(scenarios.NONE, TASKS, lambda *deed: pytest.fail("a deed"))(step(1000))


def test_an_unknown_scenario_is_refused_with_its_name() -> None:
    with pytest.raises(ConfigError, match="an earthquake"):
        PanelState(scenario="an earthquake")


def test_without_a_laboratory_there_is_none() -> None:
    plain = Panel()
    assert plain.laboratory is None
    plain.close()


def test_a_frozen_worker_is_noticed_survived_and_told(panel: Panel) -> None:
    laboratory = panel.laboratory
    assert laboratory and laboratory.button.disabled
    panel.launch(epochs=LONG)
    run = panel.state.run
    assert run and wait_until(lambda: run.result.steps > 20, 60)
    assert wait_until(lambda: not laboratory.button.disabled, 5)
    do(panel, "freeze", "worker 1")
    assert wait_until(lambda: 1 in run.result.resumed_at, 60)
    assert wait_until(lambda: len(run.result.story) >= 3, 30)
    whats = [line.what for line in run.result.story]
    assert "frozen" in whats[0] and "noticed" in whats[1] and "next step" in whats[2]
    assert wait_until(lambda: "next step" in laboratory.story.value, 5)
    panel.stop()


def test_what_cannot_be_done_is_said_and_the_training_goes_on(panel: Panel) -> None:
    panel.launch(epochs=LONG)
    run = panel.state.run
    assert run and wait_until(lambda: run.result.steps > 5, 60)
    do(panel, "thaw", "worker 0")
    panel.paint()
    assert panel.laboratory
    assert 'role="alert"' in panel.laboratory.question.value
    assert panel.state.status == Status.RUNNING
    panel.stop()


def test_a_scenario_that_is_chosen_is_the_states(panel: Panel) -> None:
    assert panel.laboratory
    panel.laboratory.scenario.value = "a straggler"
    assert panel.state.scenario == "a straggler"
    assert "1/4" in panel.laboratory.question.value


def told() -> TrainingResult:
    """A run of two workers, of whom the second was killed."""
    result = TrainingResult(2, "RING", "", 0.0, seconds=9.0, total_steps=468)
    for task in TASKS:
        result.history[task] = [Point(k / 10, k, 1.0, None, 0) for k in range(30)]
        result.history[task] += [Point(5 + k / 10, k, 1.0, None, 1) for k in range(30)]
    result.story.append(Line(3.0, "worker 1", "killed <&"))
    result.story.append(Line(5.0, "worker 0", "next step, 1"))
    return result


def test_the_time_line_has_a_bar_for_each_attempt_and_a_number_for_each_line() -> None:
    drawing = story_picture(told(), TASKS)
    root = ET.fromstring(drawing.svg())
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}rect")) == 4
    assert len(root.findall(f"{space}circle")) == 2
    assert drawing.label == "worker 1: killed <&; worker 0: next step, 1"
    for rect in root.findall(f"{space}rect"):
        assert 0 <= float(rect.get("x", "")) <= drawing.width - float(rect.get("width", ""))


def test_a_number_hides_no_other() -> None:
    result = told()
    result.story.insert(1, Line(3.06, "worker 1", "noticed"))
    result.story += [Line(9.0, "worker 1", "killed"), Line(9.0, "worker 0", "killed")]
    circles = re.findall(
        r'<circle cx="([\d.]+)" cy="([\d.]+)" r="9"', story_picture(result, TASKS).svg()
    )
    assert len(circles) == 5
    for lane in {y for _x, y in circles}:
        places = sorted(float(x) for x, y in circles if y == lane)
        assert all(right - left >= 18 for left, right in pairwise(places))


def test_the_lines_below_it_are_escaped_and_numbered() -> None:
    listed = lines(told().story)
    assert listed.startswith("<ol") and "killed &lt;&amp;" in listed
    assert re.findall(r"<b>(.*?):</b>", listed) == ["3.0 s · worker 1", "5.0 s · worker 0"]
