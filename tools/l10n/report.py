"""How a check says what it found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One problem to fix.

    Attributes:
      file: where to fix it, from the root of the repository.
      what: what is wrong.
      todo: what to do about it.
      place: the cell, or what else leads there.
      message: the English text it is about.
      advisory: worth a look, but not an error.
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
