"""The messages of helpers can be translated well: plurals, whole sentences, marks, labels."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from helpers import i18n, labels
from helpers.cluster.equal_steps import EqualSteps
from helpers.cluster.supervisor import exhaustion_message
from helpers.i18n import LocalNumber, labeled
from helpers.protocol.events import EventType
from helpers.results.fault_log import Entry, FaultLog
from helpers.tf_config import Task, TFConfig, build_tf_configs
from tests.support import ROOT
from tools.l10n import extract
from tools.lessons.project import Project

HELPERS = sorted((ROOT / "helpers").rglob("*.py"))
NOUNS = (
    "workers|steps|epochs|batches|examples|replicas|values|numbers|bytes|times|files|images|rows|"
    "shards|tasks|rounds|parts|records|processes|machines|characters|seconds|GPUs|points"
)
COUNTED = re.compile(
    rf"\{{\w+(?::[^}}]*)?\}} (?:(?:more|other|different|such|right) )?(?:{NOUNS})\b"
)
# A list before the noun, a unit, or a number that has decimals.
NOT_COUNTED = re.compile(
    r"\{(groups|parts|sizes)\} |examples/s|\{(ratio|factor:\.4g)\} times|\{times\} times the"
)
LITERAL_MARKS = re.compile(r"""["'][,;] ["']\.join\(""")
# Code, or the English of a warning and of a set of variables for a process.
ENGLISH_LISTS = {"i18n.py", "code.py", "job.py", "collect.py", "entry.py", "values.py"}


@pytest.fixture
def language(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sets back the language that a test has chosen."""
    before = i18n._language
    yield
    monkeypatch.undo()
    i18n._language = before


def messages() -> list[tuple[str | tuple[str, ...], str]]:
    """The messages in the code of helpers, and where they are."""
    project = Project.load(ROOT)
    found = [(one.text, one.file) for one in extract._in_code(project)]
    return [(text, file) for text, file in found if re.match(r"helpers/.*\.py$", file)]


def test_a_counted_noun_has_plural_forms() -> None:
    found = messages()
    single = [text for text, _file in found if isinstance(text, str)]
    assert len(single) > 500
    counted = [text for text in single if COUNTED.search(NOT_COUNTED.sub("", text))]
    assert counted == []


def test_a_message_has_one_plural_everywhere() -> None:
    plurals = defaultdict(set)
    for text, _file in messages():
        singular, plural = (text, None) if isinstance(text, str) else (text[0], text[1])
        plurals[singular].add(plural)
    assert sum(None not in found for found in plurals.values()) > 90
    assert {text: found for text, found in plurals.items() if len(found) > 1} == {}


def test_a_message_is_no_fragment_with_a_space_at_an_end() -> None:
    texts = [text for text, _file in messages() if isinstance(text, str)]
    assert [text for text in texts if text != text.strip() or text[0] in ",;."] == []


def test_no_list_of_a_message_has_marks_of_english() -> None:
    found = [path.name for path in HELPERS if LITERAL_MARKS.search(path.read_text("utf-8"))]
    assert len(HELPERS) > 150
    assert set(found) == ENGLISH_LISTS


def test_a_name_and_its_value_get_their_colon_from_labeled() -> None:
    """In f-strings of two fields; those left are errors as Python writes them."""
    found = set()
    for path in HELPERS:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                kinds = [part.value if isinstance(part, ast.Constant) else None
                         for part in node.values]  # fmt: skip
                if kinds == [None, ": ", None]:
                    found.add(ast.unparse(node.values[0]))
    assert all("type(error).__name__" in name or "{name}" in name for name in found), found


@pytest.mark.parametrize(("lang", "text"), [("en", "a: 1"), ("ru", "a: 1"), ("zh", "a：1")])
@pytest.mark.usefixtures("language")
def test_the_colon_is_that_of_the_language(lang: str, text: str) -> None:
    i18n._language = lang
    assert labeled("a", 1) == text


@pytest.mark.usefixtures("language")
def test_a_number_is_written_as_the_language_does() -> None:
    assert f"{LocalNumber(2.5):g} s" == "2.5 s"
    i18n._language = "es"
    assert f"{LocalNumber(2.5):g} s" == "2,5 s"
    assert f"{LocalNumber(12345.6):,.1f}" == "12\u00a0345,6"
    assert f"{LocalNumber(1234.5):>9,.1f}" == "   1234,5"
    assert f"{LocalNumber(9999.9):,.0f}" == "10\u00a0000"


@pytest.fixture
def russian(monkeypatch: pytest.MonkeyPatch, language: None) -> None:
    """A Russian label of workers, and no other message."""
    words = {"worker {number}": "воркер {number}"}
    monkeypatch.setattr(i18n._translations, "gettext", lambda text: words.get(text, text))


@pytest.mark.usefixtures("russian")
def test_a_task_has_a_label_in_the_language_of_the_reader_and_an_english_key() -> None:
    task = Task("worker", 1)
    assert (str(task), task.label) == ("worker 1", "воркер 1")
    assert labels.task("worker 1") == "воркер 1"
    assert labels.task("ps 0") == "ps 0"
    assert labels.task("") == ""
    assert labels.task("the worker") == "the worker"


@pytest.mark.usefixtures("russian")
def test_explanations_and_logs_show_the_label_of_a_task() -> None:
    config = TFConfig({"worker": ("a:1", "b:2")}, Task("worker", 1))
    assert "This process is воркер 1, listening on b:2." in config.explain()
    assert "воркер 0 (a:1)" in config.explain()
    log = FaultLog()
    log.append(Entry(1.0, "worker 1", "killed"))
    assert repr(log) == "1.0 s  воркер 1  killed"
    assert log[0].task == "worker 1"


@pytest.mark.parametrize("steps", [(), (0,), (1,), (0, 1)])
def test_a_task_that_ended_is_explained_in_a_whole_sentence(steps: tuple[int, ...]) -> None:
    configs, equal = build_tf_configs(["a:1", "b:2"]), EqualSteps()
    for index in steps:
        equal.note(configs[index], {"event": EventType.STEP.value, "step": 7 + index})
    equal.end(configs[1])
    ended = "worker 1 has finished (step 8)" if 1 in steps else "worker 1 has finished"
    task = "still training (step 7)" if 0 in steps else "still training"
    sentence = equal.explain(configs[0]) or ""
    assert sentence.startswith(f"{ended}, while worker 0 is {task} and needs it for every step. ")
    assert sentence.endswith("so the group was not restarted.")


def test_a_group_without_restarts_says_so() -> None:
    assert "restarts are disabled (max_restarts=0)" in exhaustion_message("it failed", 0, "a.log")
    assert "restarted 1 time (max_restarts=1)" in exhaustion_message("it failed", 1, "a.log")
    assert "restarted 2 times (max_restarts=2)" in exhaustion_message("it failed", 2, "a.log")
