"""Completes the names of workers in the cells that run there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from IPython.core import completer

from helpers.worker_cells.session import WorkerSession

CELL = re.compile(r"\s*%%(workers|chief)\b|\s*%pull\b")
TOKEN = re.compile(r"[\w.]+$")


def add_matcher(shell: Any, session: Callable[[], WorkerSession | None]) -> None:
    """Adds the names of the workers to the completions of a shell.

    IPython before 8.6 passes only the current line to its completers, so it gets no names there.

    Args:
      session: returns the workers that are used, or None.
    """
    if not hasattr(completer, "context_matcher"):
        return

    def match(context: Any) -> Any:
        names: list[str] = []
        found = TOKEN.search(context.line_with_cursor[: context.cursor_position])
        current = session()
        if found and current and CELL.match(context.full_text):
            names = [name.rpartition(".")[2] for name in current.complete(found[0])]
        fragment = found[0].rpartition(".")[2] if found else context.token
        kind = "attribute" if found and "." in found[0] else "variable"  # as IPython calls its own
        return {
            "completions": [completer.SimpleCompletion(text=name, type=kind) for name in names],
            "matched_fragment": fragment,
            "suppress": False,
        }

    identify = completer.context_matcher(identifier="helpers.worker_cells")
    shell.Completer.custom_matchers.append(identify(match))
