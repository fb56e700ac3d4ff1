"""Project 5, the chart: steps next to a straggler, staleness and traffic, with their formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.course.charts.svg import Drawing
from helpers.course.projects.panels import Panel, draw, megabytes, not_measured
from helpers.course.projects.parameter_server import steps_ahead
from helpers.course.projects.parameter_server_loops import NAME, has_worked
from helpers.course.projects.parameter_server_runs import observe_concurrent, observe_straggler
from helpers.i18n import _, ngettext

BOUNDS = 0, 1, 2, 4
WORKERS, SLOW, ROUNDS = 3, 1, 3
LENGTH = 350_000  # of float32: as many parameters as the network of the lessons has
MB = 1e6


def measure(module: Path) -> Drawing:
    """Measures the module with several bounds.

    Raises:
      ConfigError: it does not work with one of them.
    """
    ahead, staleness, traffic = [], [], []
    for bound in BOUNDS:
        session = observe_straggler(module, (WORKERS, bound, SLOW), ROUNDS, seed=0)
        _require(session, len(session.get("rounds", ())) == ROUNDS)
        ahead.append((bound, float(max(session["rounds"][-1]["steps"]))))
        staleness.append((bound, float(max(map(_staleness, session["pulls"])))))
        session = observe_concurrent(module, (1, bound + 1, "float32"), LENGTH, seed=0)
        _require(session, bool(session.get("final")))
        traffic.append((bound, sum(session["sent"]) / session["steps"] / MB))
    done = ROUNDS - 1
    panels = [
        Panel(
            _("steps of the other workers"),
            f"{done} + s + 1",
            [(bound, steps_ahead(done, bound)) for bound in BOUNDS],
            ahead,
            "s",
        ),
        Panel(_("largest staleness"), "s", [(bound, bound) for bound in BOUNDS], staleness, "s"),
        Panel(
            _("MB per step"),
            f"2 · {megabytes(4 * LENGTH / MB)}",
            [(bound, 2 * 4 * LENGTH / MB) for bound in BOUNDS],
            traffic,
            "s",
        ),
    ]
    title = ngettext(
        "Your server with several bounds s, while a slow worker has completed {done} step",
        "Your server with several bounds s, while a slow worker has completed {done} steps",
        done,
    )
    return draw(title.format(done=done), panels)


def _staleness(pull: dict[str, Any]) -> int:
    return max(pull["at"] - steps for steps in pull["steps"])


def _require(session: dict[str, Any], complete: bool) -> None:
    if complete and has_worked(session) and not any(map(_is_wrong, session["pulls"])):
        return
    raise not_measured(NAME, "s", session["bound"])


def _is_wrong(pull: dict[str, Any]) -> bool:
    return bool(pull["problem"])
