"""A result as a page: a title, the machine, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe, sentence


def page(title: str, columns: Sequence[str], rows: Sequence[str]) -> str:
    """Formats the page as Markdown. Each row is a line of the table."""
    head = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([f"# {title}", "", sentence(describe(None)), "", *head, *rows, ""])


def publish(text: str, output: Path, name: str) -> None:
    """Prints a page, and writes it to a folder."""
    output.mkdir(parents=True, exist_ok=True)
    (output / name).write_text(text, encoding="utf-8")
    print(text)
