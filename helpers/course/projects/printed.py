"""What the processes of a project print during a check, in a file next to the module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from helpers.i18n import _, ngettext

MAX_CHARACTERS = 4000  # of each process, the last ones
Run = Callable[[Path, Any], dict[str, Any]]
_groups: ContextVar[list[Sequence[str]] | None] = ContextVar("_groups", default=None)


def output_file(name: str) -> Path:
    """The file with what the module of a project printed in its last check."""
    return Path(f"{name}-output.txt")


def keep_output(run: Run) -> Run:
    """A run of a project that writes the file. If nothing was printed, there is no file."""

    @functools.wraps(run)
    def kept(module: Path, case: Any) -> dict[str, Any]:
        path = module.with_name(output_file(module.stem).name)
        path.unlink(missing_ok=True)
        token = _groups.set([])
        try:
            return run(module, case)
        finally:
            groups = _groups.get() or []
            _groups.reset(token)
            texts = [_describe(place, group) for place, group in enumerate(groups, 1) if any(group)]
            if texts:
                path.write_text("\n".join(texts), "utf-8")

    return kept


def add(outputs: Sequence[str]) -> None:
    """Adds the output of each process of a group that has ended."""
    groups = _groups.get()
    if groups is not None:
        groups.append([text[-MAX_CHARACTERS:] for text in outputs])


def _describe(place: int, outputs: Sequence[str]) -> str:
    """The output of a group. Groups run in the order of the goals."""
    heading = ngettext(
        "Group {place}: {count} process", "Group {place}: {count} processes", len(outputs)
    )
    lines = [heading.format(place=place, count=len(outputs))]
    for rank, text in enumerate(outputs):
        if text:
            lines += [_("process {rank} printed:").format(rank=rank), text]
    return "\n".join([*lines, ""])
