"""Stored outputs say what the messages of their cells say now."""

from __future__ import annotations

import json

import pytest

from tests.support.l10n_project import code_cell, notebook_text
from tools.l10n import printed

SOURCE = """\
with cluster:
    for name in names:
        print_tr("{name}: {steps:,} steps", name=name, steps=steps)
if rare:
    print_tr("rare")
"""
RUSSIAN = {"{name}: {steps:,} steps": "{name}: шагов {steps:,}"}


def outdated(output: str, source: str = SOURCE) -> list[tuple[str, str]]:
    text = json.loads(notebook_text(code_cell("run", source, output=output)))
    return list(printed.outdated(text, lambda message: RUSSIAN.get(message, message)))


@pytest.mark.parametrize("output", ["worker 1: шагов 1000\n", "", "x\nworker 0: шагов 7"])
def test_an_output_in_the_present_words_is_current(output: str) -> None:
    assert outdated(output) == []


@pytest.mark.parametrize("output", ["worker 1: 1,000 steps\n", "worker 1: всего шагов 1000\n"])
def test_an_output_in_older_words_is_found(output: str) -> None:
    assert outdated(output) == [("run", "{name}: {steps:,} steps")]


@pytest.mark.parametrize("magic", ["%%workers", "%%workers 0,2 --timeout 30", "%%chief", "%pull x"])
def test_the_words_of_a_cell_with_magics_are_compared_too(magic: str) -> None:
    assert outdated("[0] worker 1: шагов 1000\n", f"{magic}\n{SOURCE}") == []
    assert outdated("[0] worker 1: 1,000 steps\n", f"{magic}\n{SOURCE}") == [
        ("run", "{name}: {steps:,} steps")
    ]


@pytest.mark.parametrize("source", ["%%writefile x\nprint_tr('a')", "print('a')", "print_tr(text)"])
def test_a_cell_without_a_known_message_is_current(source: str) -> None:
    assert outdated("b", source) == []
