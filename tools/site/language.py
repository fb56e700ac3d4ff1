"""Builds one language's pages in a separate process, because Sphinx uses global variables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.lessons.project import Project, ToolError
from tools.site import sources, tree

TAIL_LINES = 30  # of Sphinx's output in the error message


def start(project: Project, lang: str, site: Path) -> subprocess.Popen[str]:
    """Starts to build a language's tree. `wait` waits for its end."""
    return subprocess.Popen(
        [sys.executable, "-m", "tools.site.language", str(project.root), lang, str(site)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait(process: subprocess.Popen[str], lang: str) -> None:
    """Waits for a tree.

    Raises:
      ToolError: Sphinx failed or warned. The message contains its output.
    """
    said, _nothing = process.communicate()
    if process.returncode:
        lines = "\n".join(said.splitlines()[-TAIL_LINES:])
        raise ToolError(f"The pages in {lang} could not be made:\n{lines}")


def build(project: Project, lang: str, site: Path) -> int:
    """Builds a tree in a folder of `site`, and returns Sphinx's exit code.

    Warnings are errors.
    """
    from sphinx.application import Sphinx

    from tools.site.settings import settings

    folder = site.with_name(f"{site.name}-sources") / lang
    pages = tree.tree(project, lang)
    ids = sources.write(pages, folder, site)
    app = Sphinx(
        srcdir=folder,
        confdir=None,
        outdir=site / lang,
        doctreedir=folder.with_name(f"{lang}-doctrees"),
        buildername="html",
        confoverrides=settings(pages, ids),
        status=None,
        freshenv=True,
        warningiserror=True,
    )
    app.build(force_all=True)
    return app.statuscode


if __name__ == "__main__":
    root, code, target = sys.argv[1:]
    sys.exit(build(Project.load(Path(root)), code, Path(target)))
