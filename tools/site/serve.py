"""Shows a folder of files on 127.0.0.1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any


class QuietHandler(SimpleHTTPRequestHandler):
    """Says nothing of each request."""

    def log_message(self, format: str, *args: Any) -> None:
        """Called for each request."""


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on a port of loopback, a free one by default; it has still to be set to work."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(QuietHandler, directory=str(folder)))


def address(serving: ThreadingHTTPServer) -> str:
    """Where a server answers."""
    return f"http://127.0.0.1:{serving.server_address[1]}"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serves a folder in a thread; gives the address."""
    with server(folder) as one:
        thread = Thread(target=one.serve_forever, daemon=True)
        thread.start()
        try:
            yield address(one)
        finally:
            one.shutdown()
            thread.join()
