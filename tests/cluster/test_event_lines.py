"""Lines from an event pipe: complete, in linear time, and limited in length."""

from __future__ import annotations

import pytest

from helpers.cluster.event_lines import MAX_LINE_BYTES, LineBuffer
from helpers.protocol.events import encode

CHUNK = 1 << 16


def add_all(data: bytes, chunk: int = CHUNK) -> list[bytes]:
    buffer = LineBuffer()
    parts = (data[k : k + chunk] for k in range(0, len(data), chunk))
    return [line for part in parts for line in buffer.add(part)]


@pytest.mark.parametrize("chunk", [1, 2, 7, 100, CHUNK])
def test_lines_arrive_whole_however_they_are_cut(chunk: int) -> None:
    lines = [b"a", b"", b"bcd" * 20, encode("heartbeat").strip(), b""]
    assert add_all(b"\n".join(lines) + b"\n", chunk) == lines


def test_a_line_longer_than_any_event_is_dropped_and_the_next_one_arrives() -> None:
    endless = b"x" * 3 * MAX_LINE_BYTES
    assert add_all(endless + b"\nnext\n") == [b"", b"next"]
    buffer = LineBuffer()
    for _time in range(2 * MAX_LINE_BYTES // CHUNK):
        buffer.add(b"x" * CHUNK)
    assert not buffer._parts
