"""Messages of worker cells, which arrive in parts of any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.protocol import values
from helpers.protocol.cell_messages import HEAD, Decoder, Message, MessageError


def decoded(data: bytes, sizes: list[int]) -> list[Message]:
    """Passes data to a decoder in parts of these sizes, and then of one byte."""
    decoder, found, place = Decoder(), [], 0
    parts = iter(sizes)
    while place < len(data):
        free = decoder.free
        count = min(len(free), len(data) - place, next(parts, 1))
        free[:count] = data[place : place + count]
        place += count
        if message := decoder.advance(count):
            found.append(message)
    return found


@given(
    st.lists(
        st.builds(
            Message,
            st.text(),
            st.dictionaries(st.text(), st.integers() | st.text()),
            st.lists(st.binary()),
        ),
        max_size=4,
    ),
    st.lists(st.integers(1, 50)),
)
def test_messages_arrive_in_parts_of_any_size(messages: list[Message], sizes: list[int]) -> None:
    data = b"".join(bytes(part) for message in messages for part in message.parts())
    assert decoded(data, sizes) == messages


@pytest.mark.parametrize(
    "data", [HEAD.pack(2**32 - 1, 0), HEAD.pack(0, 2**31), HEAD.pack(2, 0) + b"[]", b"\0" * 99]
)
def test_data_that_is_no_message_is_rejected(data: bytes) -> None:
    with pytest.raises(MessageError):
        decoded(data, [])


def test_the_data_of_an_array_is_no_part_of_the_pickle() -> None:
    array = np.arange(100_000.0)
    pickle, *others = values.dump({"a": array, "b": [array.T, "text"]})
    assert len(pickle) < 2000
    assert sum(len(buffer) for buffer in others) <= 2 * array.nbytes
    loaded = values.load([pickle, *map(bytearray, others)])
    assert np.array_equal(loaded["b"][0], array)
    loaded["a"][0] = 1  # it can be written to
