"""The links at the head of a notebook: open it in Colab, view its source, download it."""

from __future__ import annotations

import re
from collections.abc import Callable

from helpers.i18n import gettext_noop
from tools.lessons.project import LocalisationError, Project

GITHUB = re.compile(r"https://github\.com/([^/]+)/([^/]+?)(?:\.git)?/?")
BRANCH = "main"


LABELS = (  # i18n: a link at the head of a notebook
    gettext_noop("Open in Colab"),
    gettext_noop("View source"),
    gettext_noop("Download"),
)


def markdown(project: Project, domain: str, lang: str, _: Callable[[str], str]) -> str:
    """The Markdown of a notebook's badges; `_` translates their labels.

    Raises:
      LocalisationError: if the repository is not on GitHub, where Colab finds notebooks.
    """
    match = GITHUB.fullmatch(project.repository)
    if match is None:
        raise LocalisationError(
            f"repository = {project.repository!r} in pyproject.toml is no address that Colab can "
            'open. Write "https://github.com/OWNER/NAME", or "" for notebooks without badges.'
        )
    path = f"{match[1]}/{match[2]}/blob/{BRANCH}/notebooks/{lang}/{domain}.ipynb"
    addresses = (
        f"https://colab.research.google.com/github/{path}",
        f"https://github.com/{path}",
        f"https://raw.githubusercontent.com/{path.replace('/blob/', '/')}",
    )
    return " · ".join(f"[{_(label)}]({url})" for label, url in zip(LABELS, addresses, strict=True))
