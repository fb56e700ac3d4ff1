"""How a worker compiles a cell, and which formats of a value it sends to the notebook."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.protocol.cell_code import compile_cell
from helpers.worker.cells.display import MAX_BYTES, MAX_TEXT, TEXT, mime_bundle


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("1", [True]),
        ("1;", [False]),
        ("x = 1", [False]),
        ("x = 1\nx", [False, True]),
        ("for x in []:\n    x", [False]),
        ("", []),
        ("# nothing", []),
    ],
)
def test_the_last_expression_of_a_cell_is_shown(code: str, shown: list[bool]) -> None:
    assert [is_shown for _part, is_shown in compile_cell(code, "cell")] == shown


def test_a_cell_may_await_and_inherits_no_future_import() -> None:
    assert compile_cell("await f()", "cell")
    variables: dict[str, Any] = {}
    for part, _is_shown in compile_cell("def f(a: 1): pass\nkind = f.__annotations__", "cell"):
        exec(part, variables)
    assert variables["kind"] == {"a": 1}


class Rich:
    """A value with several formats, of which one raises."""

    def __repr__(self) -> str:
        return "Rich"

    def _repr_html_(self) -> str:
        return "<b>rich</b>"

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return b"\x89PNG", {"width": 3}

    def _repr_latex_(self) -> str:
        raise ValueError

    def _repr_svg_(self) -> None:
        return None


class Bundled:
    """A value that builds its own bundle, with a format that is no JSON and one that is large."""

    def _repr_mimebundle_(self) -> dict[str, Any]:
        return {"text/x": "x", "text/y": object(), "text/z": "z" * (MAX_BYTES + 1)}


class AnswersToEveryName:
    """A value like a mock, which has every attribute."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: name


def test_a_value_is_sent_in_all_its_formats() -> None:
    data, metadata = mime_bundle(Rich())
    assert data == {TEXT: "Rich", "text/html": "<b>rich</b>", "image/png": "iVBORw=="}
    assert metadata == {"image/png": {"width": 3}}


def test_a_bundle_contains_only_what_can_be_sent() -> None:
    data, _metadata = mime_bundle(Bundled())
    assert data.keys() == {TEXT, "text/x"}


def test_a_class_and_a_value_with_every_attribute_are_text() -> None:
    assert mime_bundle(Rich)[0].keys() == {TEXT}
    assert mime_bundle(AnswersToEveryName())[0].keys() == {TEXT}


def test_long_text_is_limited_and_a_long_container_has_several_lines() -> None:
    assert len(mime_bundle("x" * 10**6)[0][TEXT]) < MAX_TEXT + 100
    assert "\n" in mime_bundle(list(range(100)))[0][TEXT]
