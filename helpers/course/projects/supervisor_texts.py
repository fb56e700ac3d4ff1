"""Project 6: the faults of a run in words, and the hints."""

from __future__ import annotations

from helpers.course.projects.fault_injector import Fault, Plan
from helpers.course.projects.supervised_worker import SAVE, START
from helpers.course.projects.supervisor_runs import FIRST
from helpers.i18n import _, gettext_noop, join_clauses

STEP = "step"
PHRASES = {
    ("killed", START): gettext_noop("worker {rank} is killed before its first message"),
    ("frozen", START): gettext_noop("worker {rank} is frozen before its first message"),
    ("killed", STEP): gettext_noop("worker {rank} is killed at step {step}"),
    ("crashed", STEP): gettext_noop("worker {rank} ends with exit code 1 at step {step}"),
    ("quit", STEP): gettext_noop("worker {rank} ends with exit code 0 at step {step}, too early"),
    ("frozen", STEP): gettext_noop("worker {rank} is frozen at step {step}"),
    ("silent", STEP): gettext_noop("worker {rank} hangs at step {step}"),
    ("killed", SAVE): gettext_noop("worker {rank} is killed while it saves step {step}"),
    ("frozen", SAVE): gettext_noop("worker {rank} is frozen while it saves step {step}"),
    ("silent", SAVE): gettext_noop("worker {rank} hangs while it saves step {step}"),
}
# For each run, what to look at if supervise does not return, and if it names the wrong faults.
HINTS = {
    FIRST: (
        gettext_noop("Read the messages of all workers at the same time, until each has ended."),
        gettext_noop(
            "There was no fault in this run. A worker that has ended may already have written its "
            "result. Read its output to the end first."
        ),
    ),
    "killed": (
        gettext_noop(
            "When a worker has ended, its output ends, too, and poll() no longer returns None."
        ),
        gettext_noop(
            "Exit code 3 means that a worker has lost its connection to another one. The cause "
            "is another worker, not this one."
        ),
    ),
    "start": (
        gettext_noop("A worker that sends no message within start_timeout counts as frozen."),
        gettext_noop("Until a worker has sent its first message, start_timeout applies to it."),
    ),
    "frozen": (
        gettext_noop(
            "A frozen process does not react to SIGTERM, and may have written only part of a "
            "line. Which of your calls waits for it?"
        ),
        gettext_noop("The frozen worker is the only one whose heartbeats have stopped."),
    ),
    "silent": (
        gettext_noop("A worker that hangs still sends heartbeats. Which messages show progress?"),
        gettext_noop(
            "All workers wait for the one that hangs. Which of them is behind the others?"
        ),
    ),
    "saving": (
        gettext_noop("A worker that resumes from a damaged file ends with exit code 5."),
        gettext_noop("A worker that resumes from a damaged file ends with exit code 5."),
    ),
    "slow": (
        gettext_noop("A pipe that nothing reads is full after 64 KB, and then its writer waits."),
        gettext_noop(
            "heartbeat_timeout starts with a worker's first message, and progress_timeout only "
            "when all workers have sent theirs. Is a pipe for standard error full?"
        ),
    ),
    "gives_up": (
        gettext_noop(
            "max_restarts is {restarts} in this run. Return at fault number {last}, without "
            "another restart."
        ),
        gettext_noop(
            "max_restarts is {restarts} in this run. The group restarts after each fault, up to "
            "fault number {restarts}. The run ends at fault number {last}, which is the last one "
            "in the list."
        ),
    ),
}


def situation_of(plan: Plan) -> str:
    """The faults of a run, in words."""
    if plan.always:
        always = _("at every start, {fault}")
        return always.format(fault=_phrase(plan.faults[0]))
    if plan.faults:
        return join_clauses(map(_phrase, plan.faults))
    return _("slow workers, but no fault") if plan.traits else _("no fault")


def _phrase(fault: Fault) -> str:
    phase = fault.phase if fault.phase in (START, SAVE) else STEP
    return _(PHRASES[fault.kind, phase]).format(rank=fault.rank, step=fault.step)
