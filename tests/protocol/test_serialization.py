"""Serialization of the values that functions return."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from helpers.errors import ConfigError
from helpers.protocol import serialization
from helpers.protocol.serialization import ARRAY, MIN_PACKED_SIZE, from_json, to_json

KINDS = ["?", "i1", "u8", "f2", "f4", "f8", ">i4"]


def travelled(value: Any) -> Any:
    return from_json(json.loads(json.dumps(to_json(value))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (3,), (MIN_PACKED_SIZE,), (MIN_PACKED_SIZE // 2, 4), (2, 0)])
def test_an_array_arrives_as_a_list_of_the_same_numbers(kind: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 2, shape).astype(kind) + np.zeros(shape, kind)
    value = {"a": [array, 1], "text": "x", "none": None}
    assert travelled(value) == {"a": [array.tolist(), 1], "text": "x", "none": None}


def test_every_second_number_of_an_array_arrives_too() -> None:
    array = np.arange(4 * MIN_PACKED_SIZE, dtype="float32").reshape(-1, 4)[:, ::2]
    assert travelled(array) == array.tolist()


def test_a_large_array_travels_as_its_bytes() -> None:
    array = np.random.default_rng(1).random(100_000)
    assert len(json.dumps(to_json(array))) < 1.4 * array.nbytes < len(json.dumps(array.tolist()))


@pytest.mark.parametrize(
    "packed", [1, [], ["<f8"], ["O", [1], "AAAAAAAAAAA="], ["<f8", [2], "AAAA"], ["<f8", [1], 7]]
)
def test_what_only_looks_like_an_array_stays_as_it_is(packed: Any) -> None:
    assert from_json({"x": {ARRAY: packed}}) == {"x": {ARRAY: packed}}


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array([object()]), 1 + 2j])
def test_what_cannot_travel_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be sent"):
        to_json(value)


@pytest.mark.parametrize("value", ["x" * 4_000_001, [[0.5] * 100_001] * 2])
def test_what_is_too_large_is_refused(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert serialization.MAX_RESULT_BYTES == 400_000_000
    monkeypatch.setattr(serialization, "MAX_RESULT_BYTES", 4_000_000)
    with pytest.raises(ConfigError, match="about 4 MB, and at most 4 MB"):
        to_json(value)
