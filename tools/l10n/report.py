"""The findings of checks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One problem to fix.

    Attributes:
      file: the file to fix, as a path from the root of the repository.
      what: the problem.
      todo: the instruction to fix it.
      place: the cell, or another location in the file.
      message: the English text concerned.
      advisory: whether it is only a note and not an error.
    """

    file: str
    what: str
    todo: str
    place: str = ""
    message: str = ""
    advisory: bool = False

    def __str__(self) -> str:
        where = f"{self.file}: {self.place}" if self.place else self.file
        quote = f"\n    {self.message[:100]!r}" if self.message else ""
        note = "note: " if self.advisory else ""
        return f"{where}: {note}{self.what}. {self.todo}{quote}"
