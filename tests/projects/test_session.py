"""The program of a process: it imports the module, calls it, and describes its errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.course.projects import worker
from helpers.course.projects.relay import listening_socket
from helpers.course.projects.worker import Session

MODULE = """
class Doubler:
    def all_reduce(self, array):
        return 2 * array

    def in_place(self, array):
        array += 1
        return [1]

    def leave(self, array):
        raise SystemExit(3)


def connect(rank, listener, addresses, timeout):
    assert (rank, addresses, timeout) == (1, [("127.0.0.1", 5), ("127.0.0.1", 6)], 2.0)
    return Doubler()
"""


def opened(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Session, Any]:
    monkeypatch.setattr(worker, "FOLDER", folder)
    path = folder / "a_student.py"
    path.write_text(code, "utf-8")
    session = Session(listening_socket())
    addresses = [["127.0.0.1", 5], ["127.0.0.1", 6]]
    return session, session.open(str(path), "ring_all_reduce", 1, addresses, 2.0)[0]


def test_a_method_is_called_with_the_stored_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, header = opened(tmp_path, MODULE, monkeypatch)
    assert len(header["seconds"]) == 1
    session.put([np.arange(3.0)])
    header, _none = session.call("all_reduce", repeat=4)
    assert len(header["seconds"]) == 4
    assert not header["changed"]
    [result] = session.fetch()[1]
    assert result.tolist() == [0, 2, 4]


def test_a_changed_argument_and_another_result_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _header = opened(tmp_path, MODULE, monkeypatch)
    session.put([np.arange(3.0)])
    assert session.call("in_place", repeat=1)[0]["changed"]
    assert session.fetch() == ({"other": "list [1]"}, [])


@pytest.mark.parametrize(
    ("code", "kind", "found"),
    [
        ("def connect(\n", "SyntaxError", ("was never closed", 1)),
        ("import nowhere_at_all\n", "ModuleNotFoundError", ("No module named", 1)),
        ("", "AttributeError", ("has no attribute 'connect'", 0)),
        ("def connect(*a):\n    b = 1\n    return b[0]\n", "TypeError", ("subscriptable", 3)),
        ("def connect(*a):\n    raise NotImplementedError\n", "NotImplementedError", ("", 2)),
    ],
)
def test_an_error_names_the_students_line(
    code: str,
    kind: str,
    found: tuple[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _session, header = opened(tmp_path, code, monkeypatch)
    assert header["type"] == kind
    assert header["error"].startswith(kind)
    text, line = found
    assert text in header["error"]
    assert (header["file"], header["line"]) == ("a_student.py" if line else "", line)


def test_a_missing_method_and_an_exit_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _header = opened(tmp_path, MODULE, monkeypatch)
    session.put([np.zeros(1)])
    assert "the object has no method reduce_all()" in session.call("reduce_all", 1)[0]["error"]
    assert session.call("leave", 1)[0]["type"] == "SystemExit"
    assert session.fetch()[0] == {"other": "NoneType None"}
