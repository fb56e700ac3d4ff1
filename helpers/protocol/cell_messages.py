"""Messages between the notebook and the workers that run its cells, on a stream socket.

A message is a kind, fields in JSON, and buffers of bytes:

| kind     | from     | fields                      | buffers           |
|----------|----------|-----------------------------|-------------------|
| hello    | worker   | worker (its index)          |                   |
| run      | notebook | id, code, name (of a file)  |                   |
| push     | notebook | id, sources (of cells)      | a dict of values  |
| pull     | notebook | id, names                   |                   |
| complete | notebook | id, text                    |                   |
| stream   | worker   | stream, text                |                   |
| display  | worker   | data, metadata (MIME)       |                   |
| done     | worker   | id, error, names, …         | a dict of values  |

Every request is answered by one "done", after the output of the request. `error` has the fields of
an "error" event (`helpers.protocol.events`), or is None.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.protocol.values import Buffer

HEAD = struct.Struct("!II")  # bytes of JSON, number of buffers
SIZE = struct.Struct("!Q")
MAX_JSON_BYTES = 1 << 28
MAX_BUFFERS = 1 << 20


class MessageError(ValueError):
    """The data of a socket is no message."""


@dataclass(frozen=True)
class Message:
    """A message.

    Attributes:
      kind: see the table in this module.
      fields: values that JSON can represent.
      buffers: contiguous bytes.
    """

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    buffers: Sequence[Buffer] = ()

    def parts(self) -> list[memoryview]:
        """The bytes of the message, without copying the buffers."""
        text = json.dumps([self.kind, self.fields]).encode()
        views = [memoryview(buffer).cast("B") for buffer in self.buffers if len(buffer)]
        sizes = b"".join(SIZE.pack(memoryview(buffer).nbytes) for buffer in self.buffers)
        return [memoryview(HEAD.pack(len(text), len(self.buffers)) + sizes + text), *views]


class Decoder:
    """Decodes messages from a socket: receive into `free`, and pass the count to `advance`."""

    def __init__(self) -> None:
        self._steps = self._decode()
        self._filled = 0
        self._wanted: bytearray = bytearray()
        self._next_buffer()

    @property
    def free(self) -> memoryview:
        """The memory for the next bytes, which is never empty."""
        return memoryview(self._wanted)[self._filled :]

    def advance(self, count: int) -> Message | None:
        """Adds `count` bytes that were received into `free`, and returns a completed message.

        Raises:
          MessageError: the bytes are no message.
        """
        self._filled += count
        if self._filled < len(self._wanted):
            return None
        return self._next_buffer()

    def _next_buffer(self) -> Message | None:
        message = None
        step = next(self._steps)
        if isinstance(step, Message):
            message, step = step, next(self._steps)
        assert isinstance(step, bytearray)
        self._wanted, self._filled = step, 0
        return message

    def _decode(self) -> Generator[bytearray | Message, None, None]:
        while True:
            yield (head := bytearray(HEAD.size))
            length, count = HEAD.unpack(head)
            if length > MAX_JSON_BYTES or count > MAX_BUFFERS:
                raise MessageError(f"a message of {length} bytes with {count} buffers")
            yield (rest := bytearray(count * SIZE.size + length))
            sizes = [SIZE.unpack_from(rest, k * SIZE.size)[0] for k in range(count)]
            kind, fields = _parsed(rest[count * SIZE.size :])
            buffers = []
            for size in sizes:
                buffers.append(buffer := bytearray(size))
                if size:
                    yield buffer
            yield Message(kind, fields, buffers)


def _parsed(text: bytearray) -> tuple[str, dict[str, Any]]:
    try:
        kind, fields = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise MessageError(str(error)) from None
    if not isinstance(kind, str) or not isinstance(fields, dict):
        raise MessageError(str(text[:60]))
    return kind, fields
