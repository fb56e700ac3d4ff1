"""The results of functions: what arrives in the notebook, and what cannot be sent."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.errors import ConfigError
from helpers.protocol import results, values
from helpers.protocol.results import MAX_PLAIN_SIZE, is_plain

TASK = "worker 1"


@dataclass
class Report:
    """What a function may return."""

    name: str
    losses: Any


class EagerTensor:
    """A stand-in for TensorFlow's class of this name."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def numpy(self) -> Any:
        return self._array


class MirroredStrategy:
    """A stand-in for a strategy."""


class ListWrapper(list[Any]):
    """A stand-in for a list that is an attribute of a model."""


for stand_in in (EagerTensor, MirroredStrategy, ListWrapper):
    stand_in.__module__ = "tensorflow.python.stand_in"


def sent(value: Any, folder: Path) -> Any:
    """The value as the notebook gets it. The event passes through JSON."""
    attempt = folder / "attempt-2"
    attempt.mkdir()
    fields = json.loads(json.dumps(results.fields(value, attempt, TASK)))
    try:
        return results.read({"task": TASK, "attempt": 2, **fields}, folder)
    finally:
        assert not list(attempt.iterdir())


PLAIN = [None, True, 3, -0.5, "x", [1, [2.5, None]], {"a": [1], "b": {"c": "д"}}, math.inf]


@pytest.mark.parametrize("value", PLAIN)
def test_a_plain_value_stays_in_the_event(value: Any, tmp_path: Path) -> None:
    assert results.fields(value, tmp_path, TASK) == {"value": value, "is_pickled": False}
    assert not list(tmp_path.iterdir())


OTHERS = [
    (1, "two"),
    {1: "one", (2, 3): None},
    {1, 2},
    b"\0\xff",
    1 + 2j,
    1 << 20_000,
    np.float32(0.1),
    np.int64(7),
    [np.bool_(True)],
    Path("a"),
    Report("x", [0.5]),
    "x" * (MAX_PLAIN_SIZE + 1),
    [0.5] * (MAX_PLAIN_SIZE + 1),
    {str(k): k for k in range(MAX_PLAIN_SIZE)},
]


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
def test_any_other_value_arrives_with_its_type(value: Any, tmp_path: Path) -> None:
    assert not is_plain(value)
    found = sent(value, tmp_path)
    assert type(found) is type(value)
    assert found == value


@pytest.mark.parametrize("kind", ["?", "u1", "f2", "f4", ">i4", "c16", "U3", "M8[s]"])
@pytest.mark.parametrize("shape", [(), (3, 2), (2, 0), (2000,)])
def test_an_array_arrives_with_its_type_and_can_be_changed(
    kind: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    array = np.zeros(shape, kind)
    found = sent({"array": array, "part": array[..., ::2] if shape else array}, tmp_path)
    np.testing.assert_array_equal(found["array"], array)
    assert found["array"].dtype == array.dtype
    assert found["array"].flags.writeable


def test_a_list_that_contains_itself_arrives(tmp_path: Path) -> None:
    value: list[Any] = []
    value.append(value)
    found = sent(value, tmp_path)
    assert found[0] is found


def test_tensors_arrive_as_arrays_and_wrapped_lists_as_lists(tmp_path: Path) -> None:
    array = np.arange(3.0)
    found = sent([EagerTensor(array), EagerTensor(np.float32(2)), EagerTensor(b"x")], tmp_path)
    assert found[0].tolist() == [0.0, 1.0, 2.0]
    assert found[1:] == [np.float32(2), b"x"]
    tmp_path.joinpath("attempt-2").rmdir()
    assert type(sent(ListWrapper([1]), tmp_path)) is list


class Unpicklable:
    """An object whose methods fail."""

    def __reduce__(self) -> str:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"a": MirroredStrategy()}, "an object of type MirroredStrategy belongs to the process"),
        (threading.Lock(), "cannot pickle '_thread.lock' object"),
        ((number for number in range(3)), "cannot pickle 'generator' object"),
        (Unpicklable(), "The function returned <Unpicklable instance"),
    ],
)
def test_what_cannot_be_sent_is_rejected_with_an_alternative(
    value: Any, named: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="Return numbers, text, NumPy arrays") as caught:
        results.fields(value, tmp_path, TASK)
    assert named in str(caught.value)


def test_a_result_on_a_full_disk_is_rejected() -> None:
    with (
        pytest.raises(ConfigError, match="cannot be written: No space left"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(results, "_path", lambda _folder, _task: Path("/dev/full"))
        results.fields(b"x" * 100_000, Path(), TASK)


class Unreadable:
    """An object that this process cannot create again."""

    def __reduce__(self) -> Any:
        return int, ("x",)


def test_an_unreadable_result_names_its_task(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"The result of worker 1 cannot be read .*: invalid lit"):
        sent(Unreadable(), tmp_path)


def test_a_class_of_the_notebook_stays_as_it_is() -> None:
    @dataclass
    class Local:
        loss: float

        def where(self) -> str:
            return "worker"

    buffers = values.dump([Local, Local(0.5)])
    Local.where = lambda self: "notebook"  # type: ignore[method-assign]
    [kind, found] = values.load(buffers)
    assert kind is type(found) is Local
    assert found.where() == "notebook"
