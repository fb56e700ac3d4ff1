"""Splits the data of an event pipe into lines of at most the size of an event."""

from __future__ import annotations

MAX_LINE_BYTES = 1 << 24


class LineBuffer:
    """The part of a line that has arrived so far.

    The time to add data is proportional to the size of the data, however long the line is.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0

    def add(self, data: bytes) -> list[bytes]:
        """Adds data from the pipe, and returns the lines that it completes.

        A line that is longer than any event is returned as an empty line.
        """
        first, *others = data.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts, self._bytes = [], 0
        self._keep(others[-1])
        return lines

    def _keep(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes <= MAX_LINE_BYTES:
            self._parts.append(data)
        else:
            self._parts = []
