"""The locations of the notebooks and the catalogs, and their settings in pyproject.toml."""

from __future__ import annotations

import re
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
EXERCISES, PROJECTS = "exercises", "projects"  # the folders of notebooks that need answers
SOLUTIONS = {EXERCISES: "solutions", PROJECTS: "solutions/projects"}  # their solutions
DOCUMENTS = "docs"  # the folder of the pages, and of their catalogs
ROOT_DOCUMENTS = ("README", "CONTRIBUTING", "SECURITY")  # in the root, by convention
HOST = "https://github.com/"  # the host from which Colab opens notebooks
GITHUB = re.compile(rf"({re.escape(HOST)}[A-Za-z0-9-]+/[A-Za-z0-9._-]+?)(?:\.git)?/?")


class ToolError(Exception):
    """An error that stops the builder. The message states the problem and the fix."""


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
      ToolError: it is not UTF-8.
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}. Restore it from git, "
            "or save it as UTF-8."
        ) from None


@dataclass(frozen=True)
class Project:
    """A repository of lessons.

    A domain is the name of a catalog. It is ``helpers``, or a notebook's path under notebooks/en
    without its suffix, such as ``01_train_on_two_workers``, ``exercises/01_sharding`` or
    ``projects/01_ring``, or a document, such as ``docs/README``.

    Attributes:
      root: the folder of the repository.
      released: the languages that must be complete.
      repository: the address "https://github.com/OWNER/NAME", or "" if there is none yet. Badges
        link to it, and notebooks install the package from it.
      version: the version of the package. The tag of a release is "v" and the version.
    """

    root: Path
    released: tuple[str, ...] = ()
    repository: str = ""
    version: str = ""

    @classmethod
    def load(cls, root: Path) -> Project:
        """Reads [tool.lessons] and the version from `root`/pyproject.toml.

        Raises:
          ToolError: there is no such file, or the repository is not on GitHub.
        """
        path = root / "pyproject.toml"
        if not path.is_file():
            raise ToolError(f"{path} does not exist. Run this from the root of the repository.")
        table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        lessons = table.get("tool", {}).get("lessons", {})
        repository = _address(lessons.get("repository", ""))
        version = table.get("project", {}).get("version", "")
        return cls(root, tuple(lessons.get("released", ())), repository, version)

    @property
    def site(self) -> str:
        """The address at which GitHub publishes the site of the repository, or "" without one."""
        owner, _slash, name = self.repository.removeprefix(HOST).partition("/")
        host = f"{owner.lower()}.github.io"
        if name.lower() == host:  # the owner's own site, which is at the root
            return f"https://{host}"
        return f"https://{host}/{name}" if name else ""

    @property
    def tag(self) -> str:
        """The tag of the release, which badges open and notebooks install."""
        return f"v{self.version}"

    @property
    def languages(self) -> list[str]:
        """The languages that have catalogs, without English."""
        return sorted(path.parent.name for path in self.root.glob("locales/*/LC_MESSAGES"))

    @property
    def notebooks(self) -> list[str]:
        """The domains of the English notebooks, in the order of the lessons."""
        return sorted({*self.notebooks_in(SOURCE), *self.assignments})

    @property
    def assignments(self) -> list[str]:
        """The domains of all notebooks that are generated from a solution."""
        return [*self.exercises, *self.projects]

    @property
    def exercises(self) -> list[str]:
        """The domains of the exercises, of which each lesson has one."""
        return self._solved(EXERCISES)

    @property
    def projects(self) -> list[str]:
        """The domains of the projects."""
        return self._solved(PROJECTS)

    def _solved(self, folder: str) -> list[str]:
        paths = (self.root / "notebooks" / SOLUTIONS[folder]).glob("*.ipynb")
        return sorted(f"{folder}/{path.stem}" for path in paths)

    def notebooks_in(self, lang: str) -> list[str]:
        """The domains of the notebooks that are in one language's folder."""
        folder = self.root / "notebooks" / lang
        paths = [path.relative_to(folder) for path in folder.rglob("*.ipynb")]
        return sorted(
            p.with_suffix("").as_posix() for p in paths if ".ipynb_checkpoints" not in p.parts
        )

    def notebook(self, domain: str, lang: str = SOURCE) -> Path:
        """The path of a notebook in a language."""
        return self.root / "notebooks" / lang / f"{domain}.ipynb"

    def solution(self, domain: str) -> Path | None:
        """The path of an assignment's solution, or None if `domain` is not an assignment."""
        folder, _slash, name = domain.rpartition("/")
        if folder not in SOLUTIONS:
            return None
        return self.root / "notebooks" / SOLUTIONS[folder] / f"{name}.ipynb"

    @property
    def documents(self) -> list[str]:
        """The domains of the documents, the README first."""
        top = [name for name in ROOT_DOCUMENTS if (self.root / f"{name}.md").is_file()]
        pages = sorted(path.stem for path in (self.root / DOCUMENTS).glob("*.md"))
        return [f"{DOCUMENTS}/{name}" for name in [*top, *pages]]

    def document(self, domain: str, lang: str = SOURCE) -> Path:
        """The path of a document in a language."""
        name = domain.removeprefix(f"{DOCUMENTS}/")
        if lang != SOURCE:
            return self.root / DOCUMENTS / lang / f"{name}.md"
        return self.root / ("" if name in ROOT_DOCUMENTS else DOCUMENTS) / f"{name}.md"

    def catalog(self, domain: str, lang: str) -> Path:
        """The path of the translation of a domain."""
        return self.root / "locales" / lang / "LC_MESSAGES" / f"{domain}.po"

    def catalogs_in(self, lang: str) -> list[Path]:
        """The catalogs of a language."""
        return sorted((self.root / "locales" / lang / "LC_MESSAGES").rglob("*.po"))

    def compiled_helpers(self, lang: str) -> Path:
        """The path from which the installed package reads its messages in a language."""
        return self.root / "helpers" / "locale" / lang / "LC_MESSAGES" / f"{HELPERS}.mo"

    def short(self, path: Path) -> str:
        """A path relative to the root of the repository."""
        return path.relative_to(self.root).as_posix()


def _address(repository: object) -> str:
    """A repository's address as the start of links, or "" for an empty one."""
    match = GITHUB.fullmatch(repository) if isinstance(repository, str) else None
    if repository != "" and match is None:
        raise ToolError(
            f"repository = {repository!r} in pyproject.toml is not an address that Colab can "
            'open. Write "https://github.com/OWNER/NAME", or "" if there is no repository yet.'
        )
    return match[1] if match else ""
