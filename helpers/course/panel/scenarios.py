"""Scenarios of the fault-injection lab, by name.

Students read the question before the run, and the fault log after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from helpers import labels
from helpers.i18n import _, gettext_noop, number
from helpers.protocol.events import Event, EventType, FaultType
from helpers.system import capabilities
from helpers.system.virtual_hosts import virtual_hosts_supported

NO_FAULT = "none"
DEFAULT_FAULT_STEP = 150  # between two checkpoints, so that steps are lost
FIRST, LAST = 0, -1  # indices of training tasks


class Scenario(NamedTuple):
    """A fault injected into one task at a given step.

    Attributes:
      label: its name in the panel.
      question: the question to students before the run.
      fault, task, options: the injected fault, the index of the training task, and the fault's
        options.
    """

    label: str
    question: str
    fault: FaultType
    task: int = LAST
    options: Mapping[str, float] = {}


# The labels are translated when they are shown.
SCENARIOS: Mapping[str, Scenario] = {
    "kill": Scenario(
        gettext_noop("a worker dies"),
        gettext_noop(
            "At step {step}, {task} is killed. Does training continue without it, end with an "
            "error, or restart? If it restarts, at which step?"
        ),
        FaultType.KILL,
    ),
    "pause": Scenario(
        gettext_noop("a worker freezes"),
        gettext_noop(
            "At step {step}, {task} stops, and its connections stay open. What detects this, "
            "and after how many seconds?"
        ),
        FaultType.PAUSE,
    ),
    "short_pause": Scenario(
        gettext_noop("a short freeze"),
        gettext_noop(
            "At step {step}, {task} stops for {seconds} s. What do the others do in the "
            "meantime, and how many steps are lost?"
        ),
        FaultType.PAUSE,
        options={"seconds": 2},
    ),
    "straggler": Scenario(
        gettext_noop("a straggler"),
        gettext_noop(
            "From step {step} on, {task} runs at 1/{factor} of its speed. How fast is the "
            "group? Does anything detect it?"
        ),
        FaultType.THROTTLE,
        options={"factor": 4},
    ),
    "partition": Scenario(
        gettext_noop("a network failure"),
        gettext_noop(
            "At step {step}, {task} is disconnected from the network. What does {task} detect, "
            "what do the others detect, and what ends the waiting?"
        ),
        FaultType.PARTITION,
    ),
    "flaky_link": Scenario(
        gettext_noop("a short network failure"),
        gettext_noop(
            "At step {step}, {task} is disconnected from the network, and reconnected after "
            "{seconds} s. Is the connection lost? Is a step lost?"
        ),
        FaultType.PARTITION,
        options={"seconds": 2},
    ),
    "disk_full": Scenario(
        gettext_noop("a full disk"),
        gettext_noop(
            "From step {step} on, {task} cannot write to its disk. At which step does that "
            "become a failure? Can a restart help?"
        ),
        FaultType.DISK_FULL,
        FIRST,
    ),
    "late_start": Scenario(
        gettext_noop("a late start"),
        gettext_noop(
            "{task} starts {seconds} s later than the others. What do they do until then?"
        ),
        FaultType.DELAY_START,
        options={"seconds": 5},
    ),
}


def names() -> dict[str, str]:
    """The label of each scenario, and of no scenario."""
    return {
        NO_FAULT: _("no scenario"),
        **{key: _(scenario.label) for key, scenario in SCENARIOS.items()},
    }


def unavailable_reason(key: str, *, fault_injection: bool) -> str | None:
    """The reason why a scenario cannot run here, or without fault injection, or None."""
    fault = None if key == NO_FAULT else SCENARIOS[key].fault
    if fault == FaultType.PARTITION and not fault_injection:
        message = _("The scenario {scenario!r} needs fault injection: Panel(fault_injection=True).")
    elif fault == FaultType.PARTITION and not virtual_hosts_supported():
        message = _(
            "The scenario {scenario!r} needs virtual network cables, which this machine "
            "forbids or does not support. Choose another scenario."
        )
    elif fault == FaultType.DISK_FULL and not capabilities.has_prlimit():
        message = _(
            "The scenario {scenario!r} sets a limit for another process, which is possible "
            "only on Linux. Choose another scenario."
        )
    else:
        return None
    return message.format(scenario=_(SCENARIOS[key].label))


def question(key: str, tasks: Sequence[str]) -> str:
    """The question to students, which is empty for no scenario.

    Args:
      key: the name of the scenario.
      tasks: the names of the training tasks.
    """
    if key == NO_FAULT:
        return ""
    scenario = SCENARIOS[key]
    values = {name: number(value, "g") for name, value in scenario.options.items()}
    task = labels.task(tasks[scenario.task])
    return _(scenario.question).format(step=DEFAULT_FAULT_STEP, task=task, **values)


def start(key: str, tasks: Sequence[str], inject: Callable[..., Any]) -> Callable[[Event], None]:
    """Prepares a scenario for a run that is about to start.

    Args:
      key: the name of the scenario.
      tasks: the names of the training tasks.
      inject: a function like `LocalCluster.inject_fault`.

    Returns: a function to call with every event of the run.
    """
    if key == NO_FAULT:
        return lambda event: None
    scenario = SCENARIOS[key]
    task = tasks[scenario.task]
    waits = scenario.fault != FaultType.DELAY_START
    if not waits:
        inject(scenario.fault.value, task, **scenario.options)

    def play(event: Event) -> None:
        nonlocal waits
        if waits and event["event"] == EventType.STEP and event["step"] >= DEFAULT_FAULT_STEP:
            waits = False
            inject(scenario.fault.value, task, **scenario.options)

    return play
