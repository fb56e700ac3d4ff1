"""`check("shard")`: checks the answer to a task of an exercise, and prints a hint if it is wrong.

Students call it in the notebook. The graded cells of nbgrader call it in the same way, and then
again with other numbers. A task has criteria, each worth points. The criteria of an exercise are
checked in order up to the first failure, and those of a project independently of each other.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from helpers.course.criteria import (
    CheckFailed,
    CheckSkipped,
    Criterion,
    Exercise,
    execution_error,
)
from helpers.course.exercises.sandbox_protocol import from_json, to_json
from helpers.course.projects.printed import output_file
from helpers.errors import UserCodeError, unknown_choice
from helpers.i18n import _, ngettext, number

TASK_MODULES = {  # modules with the checks of each task, imported on demand
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
    "export_part": "run_on_a_real_cluster",
    "save_every": "survive_failures",
    "record": "survive_failures",
    "count": "survive_failures",
    "worker_batches": "survive_failures",
    "add_up": "survive_failures",
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
    "state_bytes": "beyond_data_parallelism",
    "micro_batches": "beyond_data_parallelism",
    "split_layers": "beyond_data_parallelism",
}
# The students' modules, which are tasks with the same names.
PROJECTS = (
    "ring_all_reduce",
    "data_parallel",
    "sharded_adam",
    "model_parallel",
    "parameter_server",
    "supervisor",
)
TASKS = (*TASK_MODULES, *PROJECTS)

AnswerRunner = Callable[[str, Mapping[str, Any]], Any]
# Set by programs that run answers in another process and grade them in this one.
answer_runner: ContextVar[AnswerRunner | None] = ContextVar("answer_runner", default=None)


def check(name: str, answers: Mapping[str, Any] | None = None, **case: Any) -> float:
    """Checks one task, prints the result, and returns the points earned.

    Args:
      name: the name of the task, which is also the name of the answer in the notebook.
      answers: the variables that contain the answer (default: the notebook's variables).
      case: numbers for the answer, in place of the task's own numbers.

    Raises:
      ConfigError: there is no such task.
    """
    task = find_task(name)
    case = {**task.case, **case}
    run = answer_runner.get() or functools.partial(_run_answer_locally, answers=answers)
    earned = 0.0
    lines: list[str] = []
    with contextlib.redirect_stderr(io.StringIO()):  # nbgrader sees output as failure
        try:
            seen = run(name, task.visible_case(case))
        except CheckFailed as wrong:
            lines = _report(task.criteria[0], wrong)
        else:
            earned, lines = _judge(task, seen, case)
            lines += _printed(name)
    print(_head(name, earned, task.points), *lines, sep="\n")
    return earned


def run_answer(name: str, case: Mapping[str, Any], answers: Mapping[str, Any] | None = None) -> Any:
    """Runs the answer to a task in a case, and returns the observed behavior.

    Raises:
      CheckFailed: there is no answer, or it raises an error.
    """
    return _run(find_task(name).run, _answer(name, answers), case)


def _run_answer_locally(
    name: str, case: Mapping[str, Any], answers: Mapping[str, Any] | None
) -> Any:
    """Encodes and parses the result as grading does, so that grades match the students' results."""
    return from_json(to_json(run_answer(name, case, answers)))


def find_task(name: str) -> Exercise:
    """The task with this name.

    Raises:
      ConfigError: there is no such task.
    """
    if name not in TASKS:
        raise unknown_choice("name", name, TASKS)
    if name in PROJECTS:
        return importlib.import_module(f"helpers.course.projects.{name}").EXERCISE
    return _lesson(TASK_MODULES[name])[name]


def _lesson(name: str) -> Mapping[str, Exercise]:
    """The exercises of a lesson, whose module is imported on demand because it imports a lot."""
    return importlib.import_module(f"helpers.course.exercises.{name}").EXERCISES


def _judge(task: Exercise, seen: Any, case: Mapping[str, Any]) -> tuple[float, list[str]]:
    """The points of an observation, and the lines about its criteria."""
    earned = 0.0
    lines: list[str] = []
    for criterion in task.criteria:
        try:
            _run(criterion.check, seen, case)
        except CheckSkipped as skipped:
            lines.append(f"  – {_(criterion.description)} {skipped}")
        except CheckFailed as wrong:
            lines += _report(criterion, wrong)
            if not task.independent:
                break
        else:
            earned += criterion.points
            lines.append(f"  ✓ {_(criterion.description)}")
    return earned, lines


def _run(function: Callable[..., Any], subject: Any, case: Mapping[str, Any]) -> Any:
    """Calls a function that may call the student's code, and raises its errors as `CheckFailed`."""
    try:
        return function(subject, case)
    except (CheckFailed, CheckSkipped):
        raise
    except NotImplementedError:
        raise _empty() from None
    except Exception as error:  # any error of the student's code
        if (
            isinstance(error, UserCodeError)
            and error.exception_type == NotImplementedError.__name__
        ):
            raise _empty() from None
        raise execution_error(f"{type(error).__name__}: {error}") from error


def _answer(name: str, answers: Mapping[str, Any] | None) -> Any:
    if name in PROJECTS:
        return _module(name)
    if answers is None:
        answers = _notebook()
    if answers.get(name) is None:
        expected = _("something named {name}").format(name=name)
        hint = _("Run the cell with your answer first. It must not end with an error.")
        raise CheckFailed(expected, _("nothing of that name"), hint)
    return answers[name]


def _module(name: str) -> Path:
    """The file of a project, which a cell of the notebook writes."""
    path = Path(f"{name}.py")
    if not path.is_file():
        expected = _("a file named {name}").format(name=path.name)
        hint = _("Run the cell that starts with %%writefile first.")
        raise CheckFailed(expected, _("no file of that name"), hint)
    return path


def _printed(name: str) -> list[str]:
    """The name of the file with the output of a project's processes, if there is any."""
    path = output_file(name)
    if name not in PROJECTS or not path.is_file():
        return []
    return ["", _("What your module printed is in the file {name}.").format(name=path.name)]


def _notebook() -> Mapping[str, Any]:
    """The variables of the notebook or program."""
    import IPython

    shell = IPython.get_ipython()
    return shell.user_ns if shell else vars(importlib.import_module("__main__"))


def _empty() -> CheckFailed:
    hint = _("Write your answer in place of the line that raises NotImplementedError.")
    return CheckFailed(_("your answer"), _("no answer yet"), hint)


def _head(name: str, earned: float, points: float) -> str:
    message = ngettext(
        "{name}: {earned} of {points} point", "{name}: {earned} of {points} points", int(points)
    )
    return message.format(name=name, earned=number(earned, "g"), points=number(points, "g"))


def _report(criterion: Criterion, wrong: CheckFailed) -> list[str]:
    return [
        f"  ✗ {_(criterion.description)}",
        "      " + _("expected: {expected}").format(expected=wrong.expected),
        "      " + _("found: {found}").format(found=wrong.found),
        "      " + _("hint: {hint}").format(hint=wrong.hint),
    ]
