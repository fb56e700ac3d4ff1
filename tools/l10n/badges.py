"""The links below the title of a notebook or page: open in Colab, view the source, download.

If `[tool.lessons] repository` in pyproject.toml is empty, there are no links and no traces of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from helpers.i18n import gettext_noop
from tools.lessons import notebook
from tools.lessons.notebook import Json
from tools.lessons.project import HOST, Project

Translate = Callable[[str], str]

# i18n: a link at the head of a notebook
COLAB = gettext_noop("Open in Colab")
# i18n: a link at the head of a notebook
BINDER = gettext_noop("Open in Binder")
# i18n: a link at the head of a notebook
CODESPACES = gettext_noop("Open in Codespaces")
# i18n: a link at the head of a notebook
SOURCE_CODE = gettext_noop("View source")
# i18n: a link at the head of a notebook
DOWNLOAD = gettext_noop("Download")
MARK = "<!-- badges -->"  # ends the line of badges on a page


def markdown(project: Project, domain: str, lang: str, _: Translate) -> str:
    """The Markdown of a notebook's badges, whose labels `_` translates."""
    path = f"notebooks/{lang}/{domain}.ipynb"
    name = project.repository.removeprefix(HOST)
    raw = f"https://raw.githubusercontent.com/{name}/{project.tag}/{path}"
    view = f"{project.repository}/blob/{project.tag}/{path}"
    return _links(project, path, [(SOURCE_CODE, view), (DOWNLOAD, raw)], _)


def of_course(project: Project, lang: str, _: Translate) -> str:
    """The badges of the whole course for its pages in a language, or "" without an address."""
    lessons = [domain for domain in project.notebooks_in(lang) if "/" not in domain]
    if not (project.repository and lessons):
        return ""
    view = f"{project.repository}/tree/{project.tag}/notebooks/{lang}"
    archive = f"{project.repository}/archive/refs/tags/{project.tag}.zip"
    others = [(SOURCE_CODE, view), (DOWNLOAD, archive)]
    return _links(project, f"notebooks/{lang}/{lessons[0]}.ipynb", others, _)


def on_page(text: str, project: Project, lang: str, _: Translate) -> str:
    """A Markdown page with the course's badges, if any, below its title.

    They replace existing badges.
    """
    blocks = without(text).split("\n\n")
    if badges := of_course(project, lang, _):
        blocks.insert(1, f"{badges} {MARK}")
    return "\n\n".join(blocks)


def without(text: str) -> str:
    """A page without its line of badges, if it has one."""
    return "\n\n".join(block for block in text.split("\n\n") if not block.endswith(MARK))


def place(project: Project, result: Json) -> None:
    """Adds a cell for badges below a notebook's title, or removes it."""
    cells = result["cells"]
    if not project.repository:
        cells[:] = [cell for cell in cells if notebook.BADGES_TAG not in notebook.tags(cell)]
    elif not any(notebook.BADGES_TAG in notebook.tags(cell) for cell in cells):
        metadata = {"tags": [notebook.BADGES_TAG]}
        cell = {"cell_type": "markdown", "id": "badges", "metadata": metadata, "source": []}
        cells.insert(1, cell)


def _links(project: Project, path: str, others: Sequence[tuple[str, str]], _: Translate) -> str:
    """Links that open the notebook at `path`, followed by `others` (labels and addresses)."""
    name = project.repository.removeprefix(HOST)
    opened = [
        (COLAB, f"https://colab.research.google.com/github/{name}/blob/{project.tag}/{path}"),
        (BINDER, f"https://mybinder.org/v2/gh/{name}/{project.tag}?labpath={path}"),
        (CODESPACES, f"https://codespaces.new/{name}?quickstart=1"),
    ]
    return " · ".join(f"[{_(label)}]({address})" for label, address in [*opened, *others])
