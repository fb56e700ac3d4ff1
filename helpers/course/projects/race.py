"""The bonus of a project: a student's module and TensorFlow, measured in turns in two processes.

Both use loopback. The module's connections do not go through the relay.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from helpers.cluster.local import LocalCluster
from helpers.course.projects.group import ProcessGroup
from helpers.course.projects.observations import all_returned
from helpers.errors import ConfigError
from helpers.i18n import _, number

WORKERS = 2
OPEN_SECONDS = 8.0


def take_turns(
    module: Path,
    name: str,
    rounds: int,
    own_turn: Callable[[ProcessGroup], bool],
    other_turn: Callable[[LocalCluster], None],
) -> None:
    """Starts both groups of processes, and calls both functions in each round.

    Args:
      name: of the project.
      own_turn: measures the module, and returns whether it works.
      other_turn: measures TensorFlow.

    Raises:
      ConfigError: the module does not work.
    """
    with (
        ProcessGroup(module, name, WORKERS, relayed=False) as group,
        LocalCluster(workers=WORKERS) as cluster,
    ):
        works = all_returned(group.open(OPEN_SECONDS))
        for _round in range(rounds):
            works = works and own_turn(group)
            if not works:
                raise ConfigError(_("The module does not work with two processes yet."))
            other_turn(cluster)


def compare_medians(text: str, own: Sequence[float], tensorflow: Sequence[float]) -> str:
    """Fills `own`, `other` in milliseconds and `ratio` into a text, from lists of seconds."""
    mine, other = statistics.median(own), statistics.median(tensorflow)
    return text.format(
        own=number(mine * 1e3, ".2f"),
        other=number(other * 1e3, ".2f"),
        ratio=number(other / mine, ".2f"),
    )
