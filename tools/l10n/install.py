"""The first code cell of a notebook: it finds the course's package, or gets it.

It asks for our distribution, for a folder called `helpers` may be anybody's; a checkout of the
course on Python's path will do. It installs from the course's own repository, for a name on a
package index may be anybody's too. While there is no repository, it says what to do instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from helpers.i18n import gettext_noop
from tools.lessons.project import Project

DISTRIBUTION = "multiworker-lessons"
MISSING = gettext_noop(
    "This notebook needs the course's own package, which is not installed in this kernel. "
    "Type `make lab` in the course's folder, and open the notebook there."
)
FIND = f"""\
import sys
from importlib.metadata import distributions
from pathlib import Path

checkout = any(Path(folder, "notebooks/course.toml").exists() for folder in sys.path)
if not checkout and not any(distributions(name="{DISTRIBUTION}")):
"""
INSTALL = f"""\
    %pip freeze | grep -E "^(tensorflow|tf.keras|numpy|protobuf|ipywidgets)==" > /tmp/installed.txt
    %pip install -q -c /tmp/installed.txt "{DISTRIBUTION} @ {{address}}"
"""
TELL = """\
    raise ModuleNotFoundError(
        {message}
    )
"""


def cell(project: Project, _: Callable[[str], str]) -> str:
    """The code of the cell; `_` translates what it says where it cannot install."""
    if project.repository:
        then = INSTALL.format(address=f"git+{project.repository}@{project.tag}")
    else:
        then = TELL.format(message=json.dumps(_(MISSING), ensure_ascii=False))
    return (FIND + then).rstrip("\n")
