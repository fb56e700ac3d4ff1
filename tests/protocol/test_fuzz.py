"""Bad input of every kind leads to a message or a result, never to an internal traceback."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cluster.group import WorkerGroup
from helpers.cluster.timeouts import Timeouts
from helpers.course.panel.choices import CHOICES
from helpers.course.panel.run import Run, planned_tasks
from helpers.course.panel.state import PanelState
from helpers.errors import ConfigError
from helpers.protocol.events import WORKER_EVENT_FIELDS, Event, decode
from helpers.protocol.failures import user_traceback
from helpers.results.training_result import TrainingResult
from helpers.tf_config import TFConfig
from tests.support.l10n_project import LESSON, code_cell, make_project, text_cell
from tools.l10n import build, catalog
from tools.lessons.project import Project, ToolError

NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -1, 0, 2**63, True])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


# Data from a worker.


@st.composite
def almost_events(draw: st.DrawFn) -> bytes:
    """Lines with the right names and, usually, wrong values."""
    kinds = {kind.value: fields for kind, fields in WORKER_EVENT_FIELDS.items()}
    kind = draw(st.sampled_from([*kinds, "exit", "group_restart", ""]))
    known: dict[str, Any] = {
        "step": 7,
        "loss": 0.5,
        "examples_per_second": None,
        "frames": [["f.py", 1, "f"]],
    }
    known |= {"bytes": {"worker 0": 4}, "updates": 1.5}
    known |= {"metrics": {"accuracy": 0.5}, "message": "m", "type": "E", "retryable": False}
    known |= {"cores": [0], "isolated": True, "host": "h", "error_class": None}
    names = draw(st.sets(st.sampled_from([*kinds.get(kind, {}), "time", "task", "attempt"])))
    event = {name: known.get(name, 1) for name in kinds.get(kind, {})} | {"time": 1.0}
    return json.dumps(event | {"event": kind} | {name: draw(JSON) for name in names}).encode()


LINES = st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode())
LINES |= almost_events() | st.just(b"[" * 100_000) | st.just(b'{"event":' * 3000)


class FakeWorkerProcess:
    """Replaces a process and sends these lines."""

    config = TFConfig()
    task = config.task

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines

    def read_events(self) -> list[Event]:
        return [event for line in self._lines if (event := decode(line)) is not None]


@given(st.lists(LINES, max_size=5))
def test_whatever_a_worker_sends_the_watching_and_the_result_go_on(lines: list[bytes]) -> None:
    talker: Any = FakeWorkerProcess(lines)
    group = WorkerGroup([talker], (), Timeouts(60, 60, 60))
    result = TrainingResult(1, "RING", "", time.time())
    run = Run(result, planned_tasks(1, evaluator=False), 64)
    for received in group._read(talker):
        event = received | {"attempt": 0}
        result.add(event)
        run.add(event, [])
        if event["event"] == "error":
            assert user_traceback(event)
    assert repr(result)
    json.dumps(result._repr_mimebundle_())


# Values that a program sets in the panel's state.


class Hostile:
    """A value that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("cannot be compared")

    def __hash__(self) -> int:
        return 0


@pytest.fixture(scope="module")
def state() -> PanelState:
    return PanelState()


@given(name=st.sampled_from(CHOICES), value=JSON | NUMBERS | st.builds(Hostile))
def test_a_choice_of_the_panel_is_taken_or_refused_with_a_message(
    state: PanelState, name: str, value: Any
) -> None:
    before = getattr(state, name)
    try:
        state.update(**{name: value})
    except ConfigError as error:
        assert name in str(error)
        assert getattr(state, name) == before
        return
    for choice in CHOICES:
        assert isinstance(state.unavailable_reason(choice, getattr(state, choice)), str | None)
    assert all(map(str, state.notes()))
    assert math.isfinite(state.learning_rate)
    compile(state.code(), "<panel>", "exec")
    state.update(**{name: before})


@given(st.dictionaries(st.text(max_size=10), JSON, min_size=1))
def test_an_unknown_choice_is_refused_with_those_there_are(choices: dict[str, Any]) -> None:
    state = PanelState()
    if not set(choices) <= set(CHOICES):
        with pytest.raises(ConfigError):
            state.update(**choices)


# Input of the builder.


@st.composite
def damaged(draw: st.DrawFn, text: str, junk: st.SearchStrategy[str]) -> bytes:
    """A text with some pieces removed, inserted or replaced, which may no longer be UTF-8."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        text = text[:start] + draw(junk) + text[end:]
    data = text.encode(errors="surrogatepass")
    cut = draw(st.integers(0, len(data)) | st.none())
    return data if cut is None else data[:cut]


PO = """\
msgid ""
msgstr ""
"Language: ru\\n"
"Plural-Forms: nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);\\n"
"Content-Type: text/plain; charset=utf-8\\n"

# A translator's comment
#. 01_first, intro
#: notebooks/en/01_first.ipynb
#, fuzzy, python-brace-format
#| msgid "Old text"
msgid "Hello, *reader* {name}."
msgstr "Привет, *читатель* {name}."

msgctxt "menu"
msgid "{n} step"
msgid_plural "{n} steps"
msgstr[0] "{n} шаг"
msgstr[1] "{n} шага"
msgstr[2] "{n} шагов"

#~ msgid "Gone"
#~ msgstr "Ушло"
"""
PO_PIECES = st.text(max_size=10) | st.sampled_from(
    [
        "Plural-Forms: nplurals=0; plural=n/0;\\n",
        "charset=latin-9",
        "Language: xx\\n",
        "msgctxt ",
        'msgid "',
        'msgstr[9] "a"\n',
        "msgid_plural",
        "#~ ",
        "#| msgid",
        '"\n',
        "\\",
        "\\x",
        "#, fuzzy\n",
    ]
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    cells = text_cell("intro", "# Title\n\nHello, *reader* {name}.\n"), code_cell("one", "x = 1")
    made = make_project(tmp_path_factory.mktemp("fuzz"), *cells)
    made.catalog(LESSON, "ru").parent.mkdir(parents=True)
    return made


def assert_named(error: ToolError, path: Path) -> None:
    assert str(path) in str(error)
    assert str(error).rstrip()[-1] in ".)"


@given(damaged(PO, PO_PIECES) | st.binary(max_size=100))
def test_any_po_file_is_read_or_refused_with_a_message(project: Project, data: bytes) -> None:
    path = project.catalog(LESSON, "ru")
    path.write_bytes(data)
    try:
        messages = catalog.read(path, "ru")
    except ToolError as error:
        assert_named(error, path)
        return
    finally:
        path.unlink()
    assert isinstance(build.build(project, LESSON, "ru", messages).text, str)
    assert isinstance(catalog.dumps(messages), str)
    assert isinstance(catalog.compiled(messages), bytes)


@st.composite
def altered_notebooks(draw: st.DrawFn, notebook: Any) -> bytes:
    """A notebook in which one value, at any depth, is different."""
    changed = copy.deepcopy(notebook)
    place: Any = changed
    while True:
        key = draw(st.sampled_from([*place] if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not (isinstance(inner, dict | list) and inner and draw(st.booleans())):
            break
        place = inner
    if draw(st.booleans()):
        place[key] = draw(JSON)
    else:
        del place[key]
    return json.dumps(changed).encode()


NOTEBOOK = json.loads(
    json.dumps(
        {
            "cells": [
                text_cell("intro", "# Title\n\nHello, *reader* {name}.\n", "badges"),
                text_cell("more", "A [link](x) and `code`.\n\n| a |\n|---|\n| b |\n"),
                code_cell("one", 'lang = "en"', "l10n-lang", output="x"),
            ],
            "metadata": {"language_info": {"name": "python", "version": "3"}, "widgets": {}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
)
NOTEBOOKS = altered_notebooks(NOTEBOOK) | JSON.map(lambda value: json.dumps(value).encode())
NOTEBOOKS |= damaged(json.dumps(NOTEBOOK), st.text(max_size=5)) | st.binary(max_size=50)


@pytest.mark.parametrize("lang", ["en", "ru"], ids=["the source", "a built one"])
@given(data=NOTEBOOKS)
def test_any_notebook_is_built_or_refused_with_a_message(
    project: Project, lang: str, data: bytes
) -> None:
    path = project.notebook(LESSON, lang)
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    try:
        built = build.build(project, LESSON, "ru")
        assert isinstance(json.loads(built.text), dict)
    except ToolError as error:
        assert_named(error, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        if before:
            path.write_bytes(before)
