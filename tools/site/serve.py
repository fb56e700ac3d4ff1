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
    """A handler that does not log requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Called for each request."""


def server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server on a loopback port, by default a free one. It is not started yet."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(QuietHandler, directory=str(folder)))


def address(serving: ThreadingHTTPServer) -> str:
    """The address of a server."""
    return f"http://127.0.0.1:{serving.server_address[1]}"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serves a folder in a thread, and yields the address."""
    with server(folder) as one:
        thread = Thread(target=one.serve_forever, daemon=True)
        thread.start()
        try:
            yield address(one)
        finally:
            one.shutdown()
            thread.join()
