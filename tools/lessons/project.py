"""Where the notebooks and the catalogues are, and what pyproject.toml says of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SOURCE = "en"
HELPERS = "helpers"  # the domain of the messages in helpers
EXERCISES = "exercises"  # the folder of notebooks that wait for their reader


class LocalisationError(Exception):
    """Something the builder cannot work with; the message says what and what to do."""


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
      LocalisationError: if it is not UTF-8.
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise LocalisationError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}. Restore it from git, "
            "or save it as UTF-8."
        ) from None


@dataclass(frozen=True)
class Project:
    """A repository of lessons.

    A domain is a catalogue's name: ``helpers``, or a notebook's path under notebooks/en
    without its suffix, as ``01_train_on_two_workers`` or ``exercises/01_sharding``.

    Attributes:
      root: its folder.
      released: languages that must be complete.
      repository: the URL that the notebooks' badges point to; empty for no badges.
      site: the URL at which the site of tools/site is published; empty where it is not.
    """

    root: Path
    released: tuple[str, ...] = ()
    repository: str = ""
    site: str = ""

    @classmethod
    def load(cls, root: Path) -> Project:
        """Reads [tool.lessons] of `root`/pyproject.toml."""
        path = root / "pyproject.toml"
        if not path.is_file():
            raise LocalisationError(
                f"{path} does not exist. Run this from the root of the repository."
            )
        table: dict[str, Any] = tomllib.loads(path.read_text("utf-8")).get("tool", {})
        lessons = table.get("lessons", {})
        addresses = (lessons.get(name, "").rstrip("/") for name in ("repository", "site"))
        return cls(root, tuple(lessons.get("released", ())), *addresses)

    @property
    def languages(self) -> list[str]:
        """The languages that have catalogues, English not among them."""
        return sorted(path.parent.name for path in self.root.glob("locales/*/LC_MESSAGES"))

    @property
    def notebooks(self) -> list[str]:
        """The domains of the English notebooks, in the order of the lessons."""
        return sorted({*self.notebooks_in(SOURCE), *self.exercises})

    @property
    def exercises(self) -> list[str]:
        """The domains of the exercises that have a solution, from which they are cut."""
        paths = (self.root / "notebooks" / "solutions").glob("*.ipynb")
        return sorted(f"{EXERCISES}/{path.stem}" for path in paths)

    def notebooks_in(self, lang: str) -> list[str]:
        """The domains of the notebooks that are in one language's folder."""
        folder = self.root / "notebooks" / lang
        paths = [path.relative_to(folder) for path in folder.rglob("*.ipynb")]
        return sorted(
            p.with_suffix("").as_posix() for p in paths if ".ipynb_checkpoints" not in p.parts
        )

    def notebook(self, domain: str, lang: str = SOURCE) -> Path:
        """Where a notebook stands in one language."""
        return self.root / "notebooks" / lang / f"{domain}.ipynb"

    def solution(self, domain: str) -> Path | None:
        """Where an exercise's solution stands, if `domain` is an exercise."""
        folder, _slash, name = domain.rpartition("/")
        if folder != EXERCISES:
            return None
        return self.root / "notebooks" / "solutions" / f"{name}.ipynb"

    def catalogue(self, domain: str, lang: str) -> Path:
        """Where the translation of a domain stands."""
        return self.root / "locales" / lang / "LC_MESSAGES" / f"{domain}.po"

    def catalogues_in(self, lang: str) -> list[Path]:
        """The catalogues a language has."""
        return sorted((self.root / "locales" / lang / "LC_MESSAGES").rglob("*.po"))

    def compiled_helpers(self, lang: str) -> Path:
        """Where the installed package reads its messages in one language."""
        return self.root / "helpers" / "locale" / lang / "LC_MESSAGES" / f"{HELPERS}.mo"

    def short(self, path: Path) -> str:
        """A path as people type it, from the root of the repository."""
        return path.relative_to(self.root).as_posix()
