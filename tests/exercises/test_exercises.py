"""Exercises: solutions earn all points, empty answers and plausible wrong ones earn none."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbgrader.preprocessors import ClearSolutions
from nbgrader.utils import determine_grade, is_grade, is_solution
from traitlets.config import Config

from helpers import i18n
from helpers.course import check as check_module
from helpers.course.check import TASK_MODULES, check, find_task
from helpers.course.exercises import exported_program
from helpers.course.exercises.legacy_estimator import CLASSES, legacy_model_fn
from helpers.errors import ConfigError
from helpers.i18n import set_language
from tests.exercises import observations
from tests.exercises.forgeries import forgeries, marked
from tests.exercises.observations import ANSWERS
from tests.exercises.wrong_answers import PARTLY, WRONG
from tests.support import ROOT
from tests.support.l10n_project import make_project, notebook_text, run, text_cell, whats
from tools.l10n import build, checks
from tools.l10n.extract import template
from tools.l10n.rewords import text_of
from tools.lessons import exercises
from tools.lessons.project import HELPERS, Project, ToolError
from tools.teaching.grading import SandboxedExecute

PROJECT = Project.load(ROOT)
DOMAINS = PROJECT.exercises
PROGRAM = "migrated-text"
LANGUAGES = ["en", *PROJECT.languages]


def pairs(*later: pytest.MarkDecorator) -> list[Any]:
    """Every exercise in one language, the first one always and the others with a marker.

    The code is the same in all languages, so only the slow tests run all of them.
    """
    return [
        pytest.param(
            domain,
            language,
            marks=pytest.mark.slow if LANGUAGES[place % 5] != language else later[: min(place, 1)],
        )
        for place, domain in enumerate(DOMAINS)
        for language in LANGUAGES
    ]


def solution(domain: str, language: str = "en") -> Any:
    return nbformat.reads(build.solution(PROJECT, domain, language), as_version=4)


def empty(domain: str, language: str) -> Any:
    """The exercise as nbgrader grades it: without solutions, with hidden tests."""
    notebook, _resources = ClearSolutions().preprocess(solution(domain, language), {})
    return notebook


def executed(notebook: Any, folder: Path) -> Any:
    """The notebook after a reader has run it."""
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, allow_errors=True, resources=resources).execute()
    return notebook


def graded(notebook: Any) -> Any:
    """The notebook after grading: its answers run in one process, and are judged in another."""
    config = Config({"SandboxedKernelManager": {"seconds": 900.0}})
    done, _resources = SandboxedExecute(config=config, timeout=600).preprocess(notebook, {})
    return done


def marks(notebook: Any) -> dict[str, tuple[float, float]]:
    """The earned and possible points of each graded cell."""
    return {
        cell.metadata.nbgrader.grade_id: determine_grade(cell)
        for cell in notebook.cells
        if is_grade(cell)
    }


def namespace_of(task: str) -> dict[str, Any]:
    """The names that the notebook's cells define before the answer."""
    [domain] = [d for d in DOMAINS if d.partition("_")[2] == TASK_MODULES[task]]
    namespace: dict[str, Any] = {"__name__": "__main__"}  # as in a notebook
    for cell in solution(domain).cells:
        if cell["id"] in ("language", "imports", "broken"):
            exec(without_init(cell["source"]), namespace)
    return namespace


def without_init(source: str) -> str:
    """A cell without the line that prepares the notebook's own workers."""
    return re.sub(r"^init\(.*\)$", "", source, flags=re.MULTILINE)


def points_of(task: str, code: str) -> float:
    namespace = namespace_of(task)
    exec(code, namespace)
    return check(task, namespace)


def test_there_are_three_to_five_tasks_in_each_exercise_and_all_have_wrong_answers() -> None:
    names = []
    for domain in DOMAINS:
        found = [cell.metadata.nbgrader.grade_id for cell in solution(domain).cells if answer(cell)]
        assert 3 <= len(found) <= 5
        names += found
    assert sorted(names) == sorted(TASK_MODULES) == sorted(WRONG)
    assert all(len(wrong) >= 2 for wrong in WRONG.values())
    assert len(DOMAINS) >= 3


def answer(cell: Any) -> bool:
    return is_solution(cell)


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_graded_cells_are_worth_what_the_checks_give(domain: str) -> None:
    for cell in solution(domain).cells:
        if is_grade(cell):
            task = cell.metadata.nbgrader.grade_id.removesuffix("_check")
            assert cell.metadata.nbgrader.points == find_task(task).points
            assert f'check("{task}")' in cell.source


@pytest.mark.parametrize(("domain", "language"), pairs(pytest.mark.grading))
def test_the_solution_earns_full_marks(domain: str, language: str) -> None:
    found = marks(graded(solution(domain, language)))
    assert len(found) >= 3
    assert {name: earned for name, (earned, _most) in found.items()} == {
        name: most for name, (_earned, most) in found.items()
    }


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_empty_exercise_earns_nothing(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"__name__": "an_exercise"}
    monkeypatch.setattr(check_module, "_notebook", lambda: namespace)
    earned = []
    for cell in empty(domain, "en").cells:
        if cell.cell_type == "code" and cell["id"] != "install":
            with suppress(NotImplementedError) if answer(cell) else nullcontext():
                exec(without_init(cell.source), namespace)
            if is_grade(cell):
                earned.append(namespace.pop("points"))
    assert len(earned) >= 3
    assert set(earned) == {0}


@pytest.mark.parametrize(("domain", "language"), pairs(pytest.mark.grading))
def test_the_empty_exercise_earns_nothing_in_a_notebook(
    domain: str, language: str, tmp_path: Path
) -> None:
    found = marks(executed(empty(domain, language), tmp_path))
    assert len(found) >= 3
    assert [earned for earned, _most in found.values()] == [0] * len(found)


@pytest.mark.parametrize(
    ("task", "name"), [(task, name) for task, name in ANSWERS if name != observations.PART]
)
def test_a_wrong_answer_earns_nothing_and_gets_a_hint(
    task: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    observation = observations.recorded(task, name)
    assert observation.judged(task) == 0
    printed = capsys.readouterr().out
    assert f"{task}: 0 of " in printed
    for word in ("✗", "expected: ", "found: ", "hint: "):
        assert word in printed
    assert "an answer that runs" not in printed  # it was judged by its behavior
    seen = None if observation.wrong else observation.value()
    forged = [(one, marked(task, one)) for one in forgeries(seen)]
    assert not [one for one, earned in forged if earned]


def test_no_message_puts_a_second_colon_into_a_line_of_a_check() -> None:
    labels = {"expected: {expected}", "found: {found}", "hint: {hint}"}
    found = [text_of(message)[-1] for message in template(PROJECT, HELPERS) if message.id]
    assert labels <= set(found)
    paths = sorted((ROOT / "helpers" / "course" / "exercises").glob("*.py"))
    texts = [node.value for path in paths for node in ast.walk(ast.parse(path.read_text("utf-8")))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    shown = set(found) & set(texts)
    assert len(shown) > 150
    assert [text for text in shown if ": " in text and not text.endswith((".", "?"))] == []


@pytest.mark.parametrize("task", PARTLY)
def test_an_answer_that_is_right_in_part_earns_a_part(task: str) -> None:
    points = observations.points_of(task, observations.PART)
    assert 0 < points < find_task(task).points
    assert observations.recorded(task, observations.PART).judged(task) == points


@pytest.mark.answers
@pytest.mark.parametrize(("task", "name"), ANSWERS)
def test_an_answer_does_what_is_recorded(
    task: str, name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    observation = observations.execute(task, name, namespace_of(task))
    if request.config.getoption("--record"):
        observations.record(task, name, observation)
    record = observations.recorded(task, name)
    assert observations.shape(observation.seen) == observations.shape(record.seen)
    assert bool(observation.wrong) == bool(record.wrong)
    capsys.readouterr()
    assert observation.judged(task) == record.judged(task) == observations.points_of(task, name)
    first, second = re.findall(r"✗ .*", capsys.readouterr().out)
    assert first == second


def test_an_answer_that_is_not_there_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("mended", {}) == 0
    assert "Run the cell with your answer first" in capsys.readouterr().out


def test_an_empty_answer_is_named_so_even_in_a_worker(capsys: pytest.CaptureFixture[str]) -> None:
    code = "def {}(*arguments):\n    raise NotImplementedError()\n"
    for task in ("third_worker", "scaled_loss"):
        assert points_of(task, code.format(task)) == 0
        assert "found: no answer yet" in capsys.readouterr().out


def test_an_answer_that_raises_is_told_what_it_raised(capsys: pytest.CaptureFixture[str]) -> None:
    assert points_of("third_worker", "def third_worker(one, two): return one") == 0
    assert "found: TypeError: third_worker() missing" in capsys.readouterr().out


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="third_worker, shard"):
        check("schard")


def test_a_check_speaks_the_language_of_the_notebook(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"no answer yet": "una respuesta vacía", "found: {found}": "hallado: {found}"}
    monkeypatch.setattr(i18n._translations, "gettext", lambda text: words.get(text, text))
    points_of("third_worker", "def third_worker(_): raise NotImplementedError()")
    assert "hallado: una respuesta vacía" in capsys.readouterr().out
    assert set_language("en") == "en"


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_exercise_gives_nothing_away(domain: str) -> None:
    text = PROJECT.notebook(domain).read_text("utf-8")
    assert "BEGIN" not in text
    assert "hidden" not in text.lower().replace("source_hidden", "")
    for cell in solution(domain).cells:
        if answer(cell):
            inside = cell.source.partition("### BEGIN SOLUTION\n")[2].partition("### END")[0]
            assert inside.strip()
            assert json.dumps(inside.strip().splitlines()[0])[1:-1] not in text


def test_the_old_program_that_exercise_11_shows_is_the_one_that_is_trained() -> None:
    [text] = [c.source for c in solution("exercises/11_move_to_keras").cells if c.id == PROGRAM]
    shown = ast.parse(text.split("```python\n")[1].partition("```")[0]).body[0]
    source = inspect.getsource(legacy_model_fn).replace("CLASSES", str(CLASSES))
    trained = ast.parse(source).body[0]
    assert isinstance(shown, ast.FunctionDef) and isinstance(trained, ast.FunctionDef)
    body = [ast.unparse(line) for line in shown.body]
    _docstring, imported, *rest = [ast.unparse(line) for line in trained.body]
    assert imported.startswith("from")
    assert body[:-1] == rest[:-1]
    assert body[-1][:-1] == rest[-1].partition(", training_chief_hooks")[0]


def test_an_exercise_that_is_not_what_its_solution_gives_is_found(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_cell("a", "Text."))
    folder = tmp_path / "notebooks" / "solutions"
    folder.mkdir()
    (folder / "01_x.ipynb").write_text(notebook_text(text_cell("t", "Solve it.")), "utf-8")
    assert project.exercises == ["exercises/01_x"]
    assert "has not been built" in whats(list(checks.check(project, ["en"])))
    assert run(project, "update", "--lang", "ru") == run(project, "build") == 0
    assert "Solve it." in project.notebook("exercises/01_x", "ru").read_text("utf-8")
    built = project.notebook("exercises/01_x")
    built.write_text(built.read_text("utf-8").replace("Solve", "Guess"), "utf-8")
    assert "differs from the result of a build" in whats(list(checks.check(project, ["en"])))


def test_a_solution_that_cannot_be_cut_is_named() -> None:
    cell = {
        **text_cell("t", "x"),
        "cell_type": "code",
        "source": ["### BEGIN SOLUTION\n", "1"],
        "outputs": [],
        "execution_count": None,
    }
    with pytest.raises(ToolError, match=r"solutions/01_x.*no end solution"):
        exercises.strip_solution(notebook_text(cell), "solutions/01_x")


JUDGED_BY_NUMBERS = ("cheapest", "evaluated", "max_steps", "slurm_config", "speed_up", "to_keep")


@pytest.mark.parametrize("task", JUDGED_BY_NUMBERS)
def test_no_function_of_the_package_is_an_answer(task: str) -> None:
    """A submission may import them all. The right answers are only in the hidden tests."""
    modules = [
        importlib.import_module(f"helpers.course.exercises.{name}")
        for name in TASK_MODULES.values()
    ]
    functions = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value)
    }
    assert len(functions) > 100
    assert not [name for name in functions if "right" in name and not name.startswith("_is")]
    hidden = {"measure": None} if task in ("max_steps", "speed_up") else {}
    earned = {name: check(task, {task: value}, **hidden) for name, value in functions.items()}
    assert set(earned.values()) == {0}


def test_a_message_that_names_an_error_is_not_an_empty_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = "def {}(*arguments):\n    raise ValueError('no NotImplementedError, but a bug')\n"
    assert points_of("scaled_loss", code.format("scaled_loss")) == 0
    printed = capsys.readouterr().out
    assert "no answer yet" not in printed
    assert "but a bug" in printed


def test_an_exported_program_that_hangs_is_killed_and_has_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "launch.sh").write_text("echo $$ > pid; sleep 60; echo", "utf-8")
    monkeypatch.setattr(exported_program, "SECONDS", 0.5)
    assert exported_program._launch(tmp_path) == ["no result after 0.5 s"] * 2
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
