"""Shows a folder of files on 127.0.0.1."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

COMPRESSED_TYPES = (".css", ".html", ".js", ".json", ".mjs", ".svg")


class QuietHandler(SimpleHTTPRequestHandler):
    """A handler that does not log requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Called for each request."""


class CompressingHandler(QuietHandler):
    """A handler that compresses texts, as hosts of static sites do."""

    def send_head(self) -> Any:
        """Called for each request."""
        path = Path(self.translate_path(self.path))
        if path.suffix not in COMPRESSED_TYPES or not path.is_file():
            return super().send_head()
        content = gzip.compress(path.read_bytes())
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return BytesIO(content)


def server(
    folder: Path, port: int = 0, handler: type[QuietHandler] = QuietHandler
) -> ThreadingHTTPServer:
    """A server on a loopback port, by default a free one. It is not started yet."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(handler, directory=str(folder)))


def address(serving: ThreadingHTTPServer) -> str:
    """The address of a server."""
    return f"http://127.0.0.1:{serving.server_address[1]}"


@contextmanager
def serving(folder: Path, handler: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """Serves a folder in a thread, and yields the address."""
    with server(folder, handler=handler) as one:
        thread = Thread(target=one.serve_forever, daemon=True)
        thread.start()
        try:
            yield address(one)
        finally:
            one.shutdown()
            thread.join()
