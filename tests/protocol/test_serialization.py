"""Serialization of the metrics of an evaluation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from helpers.protocol.serialization import ARRAY, MIN_PACKED_SIZE, from_json, plain_metric

KINDS = ["?", "i1", "u8", "f2", "f4", "f8", ">i4"]


def travelled(value: Any) -> Any:
    return from_json(json.loads(json.dumps(plain_metric(value))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (3,), (MIN_PACKED_SIZE,), (MIN_PACKED_SIZE // 2, 4), (2, 0)])
def test_an_array_arrives_as_a_list_of_the_same_numbers(kind: str, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 2, shape).astype(kind) + np.zeros(shape, kind)
    assert travelled(array) == array.tolist()


def test_every_second_number_of_an_array_arrives_too() -> None:
    array = np.arange(4 * MIN_PACKED_SIZE, dtype="float32").reshape(-1, 4)[:, ::2]
    assert travelled(array) == array.tolist()


def test_a_large_array_travels_as_its_bytes() -> None:
    array = np.random.default_rng(1).random(100_000)
    sent = len(json.dumps(plain_metric(array)))
    assert sent < 1.4 * array.nbytes < len(json.dumps(array.tolist()))


@pytest.mark.parametrize(
    "packed", [1, [], ["<f8"], ["O", [1], "AAAAAAAAAAA="], ["<f8", [2], "AAAA"], ["<f8", [1], 7]]
)
def test_what_only_looks_like_an_array_stays_as_it_is(packed: Any) -> None:
    assert from_json({"x": {ARRAY: packed}}) == {"x": {ARRAY: packed}}


def test_text_and_bytes_arrive() -> None:
    assert travelled(b"\0x") == b"\0x"
    assert travelled(np.array([b"a", b"b"], object)) == [b"a", b"b"]
    assert travelled(np.float32(0.5)) == 0.5


@pytest.mark.parametrize("value", [[object()], np.array([object()])])
def test_another_metric_is_rejected(value: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        plain_metric(value)
