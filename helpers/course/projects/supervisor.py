"""Project 6: a supervisor that detects death, freeze and silence, and restarts from a checkpoint.

The rules are those of common supervisors: the first failure of a group is its cause (torch elastic,
https://docs.pytorch.org/docs/stable/elastic/errors.html), heartbeats detect a frozen process, and
progress detects a hang. All workers restart together, from the same checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from helpers.course.criteria import CheckFailed, CheckSkipped, Criterion, Exercise, expect
from helpers.course.projects.fault_injector import Fault, Plan
from helpers.course.projects.group import DEAD, LATE, RAISED, RETURNED, Reply
from helpers.course.projects.judge import error_hint, error_text, stage_reader
from helpers.course.projects.observations import from_data
from helpers.course.projects.supervised_worker import START, final_states
from helpers.course.projects.supervisor_runs import (
    END_SECONDS,
    FIRST,
    Case,
    expected_faults,
    plans,
    run,
)
from helpers.course.projects.supervisor_texts import HINTS, situation_of
from helpers.i18n import _, gettext_noop, ngettext, number

_stage = stage_reader(gettext_noop("A run without faults must return the results first."))


def _ends_well(name: str) -> Callable[[Mapping[str, Any], Case], None]:
    """A check that a run returned the right faults and results, after the right restarts."""

    def check(seen: Mapping[str, Any], case: Case) -> None:
        expect_run(_stage(seen, name), name, case)

    return check


def _resumes(seen: Mapping[str, Any], case: Case) -> None:
    found, (plan, _restarts) = _stage(seen, "saving"), _plan("saving", case)
    expected = expected_resumes(plan.faults, case["save_every"])
    [reply] = from_data(found["replies"])
    if reply.kind in (LATE, RETURNED):
        for start, rank, resume in found["starts"]:
            wanted = expected[min(start, len(expected) - 1)]
            expect(
                resume == wanted,
                expected=_(
                    "start {start} of the group resumes from step {step} ({situation})"
                ).format(start=start + 1, step=wanted, situation=situation_of(plan)),
                found=_("worker {rank} resumed from step {step}").format(rank=rank, step=resume),
                hint=_(
                    "Compare steps as numbers. A checkpoint is complete if the files of all "
                    "workers exist, and the SHA-256 in each of them is correct."
                ),
            )
    expect_run(found, "saving", case)


def expected_resumes(faults: Iterable[Fault], save_every: int) -> list[int]:
    """The step from which each start of the group resumes: that of the newest complete checkpoint.

    At a fault, all workers have saved every step before the previous one.
    """
    steps = [0]
    for fault in faults:
        saved = (fault.step - 1) // save_every * save_every
        steps.append(steps[-1] if fault.phase == START else saved)
    return steps


def _nothing_is_left(seen: Mapping[str, Any], case: Case) -> None:
    _stage(seen, "killed")
    runs = [seen[name] for name, plan, _restarts in plans(case) if plan.faults]
    if not any(reply.kind == RETURNED for run in runs for reply in from_data(run["replies"])):
        raise CheckSkipped(_("A run with a fault must return first."))
    for name, plan, _restarts in plans(case):
        for one in seen[name]["left"]:
            expected = _("nothing is left {seconds} s after supervise has returned ({situation})")
            expected = expected.format(
                seconds=number(END_SECONDS, "g"), situation=situation_of(plan)
            )
            raise CheckFailed(expected, *_remainder(one))


def _remainder(one: Mapping[str, Any]) -> tuple[str, str]:
    """What is left, and a hint."""
    kill = _("Kill all workers, whatever happens, for example in a finally clause.")
    if one["problem"] == "running":
        return _("worker {rank} is still running").format(rank=one["rank"]), kill
    if one["problem"] == "zombie":
        hint = _("Call wait() for every process that you start.")
        return _("worker {rank} is a zombie").format(rank=one["rank"]), hint
    hint = _("Close your sockets, and kill worker 0, which listens on its port.")
    return _("port {port} still accepts connections").format(port=one["port"]), hint


def _plan(name: str, case: Case) -> tuple[Plan, int]:
    return next((plan, restarts) for other, plan, restarts in plans(case) if other == name)


def expect_run(found: Mapping[str, Any], name: str, case: Case) -> None:
    """Fails unless `supervise` returned the right faults and results in this run."""
    plan, restarts = _plan(name, case)
    late, wrong = (_(hint).format(restarts=restarts, last=restarts + 1) for hint in HINTS[name])
    if found["port_busy"]:
        late = wrong = _(
            "A worker ended with exit code 4, because its port was in use. Find a free port for "
            "each start of the group, and close the socket with which you found it."
        )
    starts = 1 + max((start for start, *_rest in found["starts"]), default=-1)
    _expect_returned(found, plan, starts, late)
    returned, faults = found["returned"], expected_faults(plan, restarts)
    situation = situation_of(plan)
    if "other" in returned:
        expected = _('supervise returns a dict with "results" and "faults" ({situation})')
        value = _("supervise returned {value}").format(value=returned["other"])
        hint = _("Read the specification of the result again.")
        raise CheckFailed(expected.format(situation=situation), value, hint)
    expect(
        returned["faults"] == faults,
        expected=_("the faults are {faults} ({situation})").format(
            faults=_show(faults), situation=situation
        ),
        found=_("supervise returned the faults {faults}").format(faults=_show(returned["faults"])),
        hint=wrong,
    )
    _expect_results(returned["results"], plan, situation, case, restarts)
    wanted = len(faults) + (not plan.always)
    expect(
        starts == wanted,
        expected=_starts(wanted, situation),
        found=_starts(starts, situation),
        hint=_("Restart all workers after each fault, and at no other time."),
    )


def _expect_returned(found: Mapping[str, Any], plan: Plan, starts: int, late: str) -> None:
    [reply] = from_data(found["replies"])
    if reply.kind == RETURNED:
        return
    expected = _("supervise returns within {seconds} s of the last event ({situation})")
    expected = expected.format(seconds=number(found["quiet"], ".2g"), situation=situation_of(plan))
    raise CheckFailed(expected, *_no_return(reply, starts, late))


def _no_return(reply: Reply, starts: int, late: str) -> tuple[str, str]:
    """What `supervise` did instead of returning, and a hint."""
    if reply.kind == RAISED:
        raised = _("supervise raised {error}").format(error=error_text(reply))
        return raised, error_hint(reply)
    if reply.kind == DEAD:
        ended = _("the process of supervise ended, and printed: {lines}")
        return ended.format(lines=reply.text), _("Raise errors, and do not exit.")
    running = ngettext(
        "supervise was still running after {count} start of the group",
        "supervise was still running after {count} starts of the group",
        starts,
    )
    return running.format(count=starts), late


def _expect_results(results: Any, plan: Plan, situation: str, case: Case, restarts: int) -> None:
    if plan.always:
        expect(
            results is None,
            expected=_("the results are None ({situation})").format(situation=situation),
            found=_("supervise returned the results {results}").format(results=results),
            hint=_("A group that has not finished has no results."),
        )
        return
    hint = _('The results are those in the "done" messages, in the order of the ranks.')
    if results is None:
        hint = _(
            "max_restarts is {restarts} in this run, so the group restarts after fault number "
            "{restarts}, too. Only fault number {last} would end the run."
        ).format(restarts=restarts, last=restarts + 1)
    wanted = final_states(case["workers"], case["steps"], case["seed"])
    expect(
        results == wanted,
        expected=_("the results are {results} ({situation})").format(
            results=wanted, situation=situation
        ),
        found=_("supervise returned the results {results}").format(results=results),
        hint=hint,
    )


def _starts(count: int, situation: str) -> str:
    text = ngettext(
        "{count} start of the group ({situation})",
        "{count} starts of the group ({situation})",
        count,
    )
    return text.format(count=count, situation=situation)


def _show(faults: Any) -> str:
    """Faults as Python writes them, with tuples."""
    if not isinstance(faults, list):
        return str(faults)
    return repr([tuple(one) if isinstance(one, list) else one for one in faults])


EXERCISE = Exercise(
    run,
    (
        Criterion(
            2,
            gettext_noop("Without a fault, supervise returns the results of all workers."),
            _ends_well(FIRST),
        ),
        Criterion(
            2,
            gettext_noop("A worker that dies is reported, and the group restarts."),
            _ends_well("killed"),
        ),
        Criterion(
            2, gettext_noop("So is a worker that dies or freezes at startup."), _ends_well("start")
        ),
        Criterion(
            2,
            gettext_noop(
                "A frozen worker is reported, even if it froze in the middle of a message."
            ),
            _ends_well("frozen"),
        ),
        Criterion(
            3,
            gettext_noop("The worker that hangs is reported, and not one that waits for it."),
            _ends_well("silent"),
        ),
        Criterion(2, gettext_noop("Slow workers cause no false alarm."), _ends_well("slow")),
        Criterion(
            3, gettext_noop("The group resumes from the newest complete checkpoint."), _resumes
        ),
        Criterion(
            2, gettext_noop("After max_restarts, the supervisor gives up."), _ends_well("gives_up")
        ),
        Criterion(2, gettext_noop("No process and no open port is left behind."), _nothing_is_left),
    ),
    {
        "seed": 1,
        "workers": 3,
        "steps": 14,
        "save_every": 4,
        "start_timeout": 4.0,
        "heartbeat_timeout": 0.8,
        "progress_timeout": 1.2,
        "killed": [(2, "killed", "compute", 6), (0, "crashed", "compute", 11)],
        "start": [(1, "killed", "start"), (0, "frozen", "start")],
        "frozen": [(1, "frozen", "compute", 6), (2, "frozen", "message", 10)],
        "silent": [(2, "silent", "compute", 7), (0, "silent", "save", 12)],
        "saving": [
            (2, "killed", "save", 8, "empty"),
            (1, "killed", "save", 12, "digit"),
            (0, "killed", "compute", 14),
        ],
        "slow": [
            (0, {"log_lines": 4000}),
            (1, {"start_delay": 2.2}),
            (2, {"step_seconds": 0.6, "slow_steps": 4}),
        ],
        "gives_up": (1, "killed", "compute", 6),
        "max_restarts": 2,
    },
    independent=True,
)
