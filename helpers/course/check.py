"""`check("shard")`: whether a task of an exercise is solved, and what to look at if not.

A reader calls it in the notebook; the graded cells of nbgrader call the same, and then again with
other numbers. A task has parts, checked in order up to the first that fails; each is worth points.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from helpers.course.exercises.criteria import CheckFailed, Criterion, Exercise, execution_error
from helpers.course.exercises.sandbox_protocol import from_json, to_json
from helpers.errors import UserCodeError, unknown_choice
from helpers.i18n import _, number

TASK_MODULES = {  # where each task is checked; imported when it is
    "third_worker": "train_on_two_workers",
    "shard": "train_on_two_workers",
    "scaled_loss": "train_on_two_workers",
    "mended": "train_on_two_workers",
    "held": "choose_a_strategy",
    "pick": "choose_a_strategy",
    "train_all": "choose_a_strategy",
    "strategy_for": "choose_a_strategy",
    "full_batches": "train_with_keras_fit",
    "rate_and_steps": "train_with_keras_fit",
    "every_once": "train_with_keras_fit",
    "resumed": "train_with_keras_fit",
    "fed": "write_a_training_loop",
    "last_batch": "write_a_training_loop",
    "totals": "write_a_training_loop",
    "until": "write_a_training_loop",
    "server_of": "train_with_parameter_servers",
    "split_large": "train_with_parameter_servers",
    "run_steps": "train_with_parameter_servers",
    "staleness": "train_with_parameter_servers",
    "shared_accuracy": "evaluate_while_training",
    "to_keep": "evaluate_while_training",
    "evaluated": "evaluate_while_training",
    "cheapest": "evaluate_while_training",
    "own_part": "run_on_a_real_cluster",
    "slurm_config": "run_on_a_real_cluster",
    "start_again": "run_on_a_real_cluster",
    "mended_job": "run_on_a_real_cluster",
    "save_every": "survive_failures",
    "record": "survive_failures",
    "must_restart": "survive_failures",
    "count": "survive_failures",
    "whole_cluster": "parameter_servers_with_estimator",
    "training_batches": "parameter_servers_with_estimator",
    "max_steps": "parameter_servers_with_estimator",
    "train_op": "parameter_servers_with_estimator",
    "speed_up": "make_it_faster",
    "starving": "make_it_faster",
    "fast": "make_it_faster",
    "migrated": "move_to_keras",
    "restored": "move_to_keras",
    "train_to": "move_to_keras",
    "served": "move_to_keras",
    "ported": "keras_3_on_several_workers",
    "shares": "keras_3_on_several_workers",
    "finished": "keras_3_on_several_workers",
}

AnswerRunner = Callable[[str, Mapping[str, Any]], Any]
# Set by programs that run answers in another process and grade them here.
answer_runner: ContextVar[AnswerRunner | None] = ContextVar("answer_runner", default=None)


def check(name: str, answers: Mapping[str, Any] | None = None, **case: Any) -> float:
    """Checks one task, says what it found, and returns the points earned.

    Args:
      name: of the task, which is the name that the answer has in the notebook.
      answers: where the answer is looked up; by default among the notebook's variables.
      case: other numbers than the task's own to try the answer with.

    Raises:
      ConfigError: there is no such task.
    """
    task = find_task(name)
    case = {**task.case, **case}
    run = answer_runner.get() or functools.partial(_run_answer_locally, answers=answers)
    earned = 0.0
    lines: list[str] = []
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # nbgrader takes any word there for failure
            seen = run(name, task.visible_case(case))
            for criterion in task.criteria:
                _run(criterion.check, seen, case)
                earned += criterion.points
                lines.append(f"  ✓ {_(criterion.description)}")
    except CheckFailed as wrong:
        lines += _report(task.criteria[len(lines)], wrong)
    print(_head(name, earned, task.points), *lines, sep="\n")
    return earned


def run_answer(name: str, case: Mapping[str, Any], answers: Mapping[str, Any] | None = None) -> Any:
    """What the answer to a task does in a case.

    Raises:
      CheckFailed: there is no answer, or it raises.
    """
    return _run(find_task(name).run, _answer(name, answers), case)


def _run_answer_locally(
    name: str, case: Mapping[str, Any], answers: Mapping[str, Any] | None
) -> Any:
    """By the way that an observation takes elsewhere, so that marks are what readers see."""
    return from_json(to_json(run_answer(name, case, answers)))


def find_task(name: str) -> Exercise:
    """The task of this name.

    Raises:
      ConfigError: there is none.
    """
    if name not in TASK_MODULES:
        raise unknown_choice("name", name, TASK_MODULES)
    return _lesson(TASK_MODULES[name])[name]


def _lesson(name: str) -> Mapping[str, Exercise]:
    """The exercises of a lesson; their modules import much, so each is imported when it is used."""
    return importlib.import_module(f"helpers.course.exercises.{name}").EXERCISES


def _run(function: Callable[..., Any], subject: Any, case: Mapping[str, Any]) -> Any:
    """Calls what may call the reader's code; raises `CheckFailed` for whatever that raises."""
    try:
        return function(subject, case)
    except CheckFailed:
        raise
    except NotImplementedError:
        raise _empty() from None
    except Exception as error:  # whatever the reader's code raises
        if (
            isinstance(error, UserCodeError)
            and error.exception_type == NotImplementedError.__name__
        ):
            raise _empty() from None
        raise execution_error(f"{type(error).__name__}: {error}") from error


def _answer(name: str, answers: Mapping[str, Any] | None) -> Any:
    if answers is None:
        answers = _notebook()
    if answers.get(name) is None:
        expected = _("something named {name}").format(name=name)
        hint = _("Run the cell with your answer first; it must not end with an error.")
        raise CheckFailed(expected, _("nothing of that name"), hint)
    return answers[name]


def _notebook() -> Mapping[str, Any]:
    """The variables of the notebook, or of the program."""
    import IPython

    shell = IPython.get_ipython()
    return shell.user_ns if shell else vars(importlib.import_module("__main__"))


def _empty() -> CheckFailed:
    hint = _("Write your answer in place of the line that raises NotImplementedError.")
    return CheckFailed(_("your answer"), _("an empty place"), hint)


def _head(name: str, earned: float, points: float) -> str:
    message = _("{name}: {earned} of {points} points")
    return message.format(name=name, earned=number(earned, "g"), points=number(points, "g"))


def _report(criterion: Criterion, wrong: CheckFailed) -> list[str]:
    return [
        f"  ✗ {_(criterion.description)}",
        "      " + _("expected: {expected}").format(expected=wrong.expected),
        "      " + _("found: {found}").format(found=wrong.found),
        "      " + _("hint: {hint}").format(hint=wrong.hint),
    ]
