"""Splits the data of an event pipe into lines of at most the size of an event."""

from __future__ import annotations

from helpers.protocol.events import EventType, encode
from helpers.protocol.serialization import MAX_TEXT_BYTES

MAX_LINE_BYTES = 1 << 24
MAX_RESULT_BYTES = MAX_TEXT_BYTES + (1 << 20)  # its size is checked before it is sent
RESULT_START = encode(EventType.RESULT)[: len('{"event": "result"')]


class LineBuffer:
    """The part of a line that has arrived so far.

    The time to add data is proportional to the size of the data, however long the line is.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0
        self._max = MAX_LINE_BYTES

    def add(self, data: bytes) -> list[bytes]:
        """Adds data from the pipe, and returns the lines that it completes.

        A line that is longer than any event is returned as an empty line.
        """
        first, *others = data.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts, self._bytes, self._max = [], 0, MAX_LINE_BYTES
        self._keep(others[-1])
        return lines

    def _keep(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > self._max == MAX_LINE_BYTES and self._is_result():
            self._max = MAX_RESULT_BYTES
        if self._bytes <= self._max:
            self._parts.append(data)
        else:
            self._parts = []

    def _is_result(self) -> bool:
        return b"".join(self._parts).startswith(RESULT_START)
