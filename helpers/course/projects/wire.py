"""Messages between the kernel and the processes of a project: a JSON header, then NumPy arrays.

Nothing is pickled, because the other end runs a student's program.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

MAX_BYTES = 1 << 30  # of one message


def send(connection: Connection, header: Mapping[str, Any], arrays: Sequence[Any] = ()) -> None:
    """Sends a header and arrays.

    Raises:
      OSError: the other process has ended, or does not read.
      ValueError: an array contains Python objects.
    """
    packed = [_packed(array) for array in arrays]
    connection.send_bytes(json.dumps({**header, "arrays": len(packed)}).encode())
    for data in packed:
        connection.send_bytes(data)


def receive(connection: Connection) -> tuple[dict[str, Any], list[Any]]:
    """Receives a header and its arrays.

    Raises:
      EOFError, OSError: the other process has ended, or does not finish its message.
      ValueError: the message is invalid.
    """
    header = json.loads(connection.recv_bytes(MAX_BYTES))
    arrays = [
        np.load(io.BytesIO(connection.recv_bytes(MAX_BYTES)), allow_pickle=False)
        for _array in range(header.pop("arrays"))
    ]
    return header, arrays


def _packed(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
