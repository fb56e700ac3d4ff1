"""Scenarios of the fault laboratory: what befalls a training, by name.

A class reads the question before the training runs, and the story after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from helpers.i18n import _, gettext_noop
from helpers.messages.events import Deed, Event, Kind
from helpers.system import abilities
from helpers.system.hosts import are_permitted

NONE = "none"
AT_STEP = 150  # between two checkpoints, so that there are steps to lose
FIRST, LAST = 0, -1  # of the tasks that train


class Scenario(NamedTuple):
    """Something that befalls one task.

    Attributes:
      question: what a class is asked before.
      deed, task, how: what is done, to which of the tasks that train, and how.
    """

    question: str
    deed: Deed
    task: int = LAST
    how: Mapping[str, float] = {}


# By their names, which are translated when they are shown.
SCENARIOS: Mapping[str, Scenario] = {
    gettext_noop("a worker dies"): Scenario(
        gettext_noop(
            "At step {step}, {task} is killed. Does the training go on without it, end with an "
            "error, or begin again? If it begins again, at which step?"
        ),
        Deed.KILL,
    ),
    gettext_noop("a worker freezes"): Scenario(
        gettext_noop(
            "At step {step}, {task} stops, and its connections stay open. Who notices, and after "
            "how many seconds?"
        ),
        Deed.FREEZE,
    ),
    gettext_noop("a short freeze"): Scenario(
        gettext_noop(
            "At step {step}, {task} stops for {seconds} seconds. What do the others do in the "
            "meantime, and how many steps are lost?"
        ),
        Deed.FREEZE,
        how={"seconds": 2},
    ),
    gettext_noop("a straggler"): Scenario(
        gettext_noop(
            "From step {step} on, {task} runs at 1/{factor} of its speed. How fast is the group? "
            "Does anybody notice?"
        ),
        Deed.SLOW,
        how={"factor": 4},
    ),
    gettext_noop("a pulled cable"): Scenario(
        gettext_noop(
            "At step {step}, the network cable of {task} is pulled. What does {task} see of it, "
            "what do the others see, and who puts an end to the waiting?"
        ),
        Deed.CUT_OFF,
    ),
    gettext_noop("a loose cable"): Scenario(
        gettext_noop(
            "At step {step}, the network cable of {task} is pulled, and plugged in again after "
            "{seconds} seconds. Is the connection lost? Is a step?"
        ),
        Deed.CUT_OFF,
        how={"seconds": 2},
    ),
    gettext_noop("a full disk"): Scenario(
        gettext_noop(
            "From step {step} on, {task} cannot write to its disk. At which step does that become "
            "a fault? Can a new start help?"
        ),
        Deed.FILL_DISK,
        FIRST,
    ),
    gettext_noop("a late start"): Scenario(
        gettext_noop(
            "{task} starts {seconds} seconds later than the others. What do they do until then?"
        ),
        Deed.DELAY,
        how={"seconds": 5},
    ),
}


def names() -> dict[str, str]:
    """Each scenario, and none, in words."""
    return {NONE: _("no scenario"), **{name: _(name) for name in SCENARIOS}}


def why_not(key: str, *, laboratory: bool) -> str | None:
    """Why a scenario cannot be played here, or without a laboratory; None when it can."""
    deed = None if key == NONE else SCENARIOS[key].deed
    if deed == Deed.CUT_OFF and not laboratory:
        message = _("The scenario {scenario!r} needs the laboratory: Panel(laboratory=True).")
    elif deed == Deed.CUT_OFF and not are_permitted():
        message = _(
            "The scenario {scenario!r} needs virtual network cables, which this machine forbids or "
            "does not have. Choose another scenario."
        )
    elif deed == Deed.FILL_DISK and not abilities.limits_others():
        message = _(
            "The scenario {scenario!r} sets a limit for another process, which only Linux has. "
            "Choose another scenario."
        )
    else:
        return None
    return message.format(scenario=_(key))


def question(key: str, tasks: Sequence[str]) -> str:
    """What a class is asked; empty for no scenario.

    Args:
      tasks: the names of those that train.
    """
    if key == NONE:
        return ""
    scenario = SCENARIOS[key]
    values = {name: f"{value:g}" for name, value in scenario.how.items()}
    return _(scenario.question).format(step=AT_STEP, task=tasks[scenario.task], **values)


def begin(key: str, tasks: Sequence[str], harm: Callable[..., Any]) -> Callable[[Event], None]:
    """Has a scenario played in a run that is about to begin.

    Args:
      tasks: the names of those that train.
      harm: as `LocalCluster.harm`.

    Returns: what every event of the run must be given to.
    """
    if key == NONE:
        return lambda event: None
    scenario = SCENARIOS[key]
    task = tasks[scenario.task]
    waits = scenario.deed != Deed.DELAY
    if not waits:
        harm(scenario.deed.value, task, **scenario.how)

    def play(event: Event) -> None:
        nonlocal waits
        if waits and event["event"] == Kind.STEP and event["step"] >= AT_STEP:
            waits = False
            harm(scenario.deed.value, task, **scenario.how)

    return play
