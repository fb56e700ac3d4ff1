"""The first code cell of a notebook, which finds or installs the course's package.

It looks for the course's distribution, because a folder called `helpers` may belong to another
project. It also accepts a checkout of the course on Python's path. It installs from the course's
repository, because a name on a package index may also belong to another project. It does the same
if the installed release is not the notebook's. Without a repository, it prints an alternative.
Finally, it checks whether another file or folder of the same name would be imported instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from packaging.version import Version

from helpers.i18n import gettext_noop
from tools.lessons.project import Project

DISTRIBUTION = "multiworker-lessons"
MISSING = gettext_noop(
    "This notebook needs the course's package, which is not installed in this kernel. Run "
    "`make jupyterlab` in the course's folder, and open the notebook there."
)
FAILED = gettext_noop(
    "The course's package could not be installed; the output of pip above shows why. The "
    "installation needs Git and internet access."
)
HIDDEN = gettext_noop(
    "{path} hides the course's package, which has the same name. Rename that file or folder, "
    "restart the kernel and run this cell again."
)
FIND = """\
import sys
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

checkout = [folder for folder in sys.path if Path(folder, "notebooks/course.toml").exists()]
"""
COMPARE = """
found = find_spec("helpers")
if found and not (found.origin and Path(found.origin).with_name("course").is_dir()):
    path = found.origin or list(found.submodule_search_locations)[0]
    raise ImportError(
        {message}.format(path=path)
    )
"""
# IPython replaces {kept} by a file in a separate folder that no other user can write to.
INSTALL = f"""
def is_installed():
    return "{{version}}" in [each.version for each in distributions(name="{DISTRIBUTION}")]

if not checkout and not is_installed():
    import tempfile
    kept = tempfile.mkdtemp() + "/kept.txt"
    %pip freeze | grep -E "^(tensorflow|tf.keras|numpy|protobuf|ipywidgets)==" > "{{{{kept}}}}"
    %pip install -q -c "{{{{kept}}}}" "{DISTRIBUTION}[course] @ {{address}}"
    if not is_installed():
        raise ModuleNotFoundError(
            {{message}}
        )
"""
TELL = f"""\
if not checkout and not any(distributions(name="{DISTRIBUTION}")):
    raise ModuleNotFoundError(
        {{message}}
    )
"""


def cell(project: Project, _: Callable[[str], str]) -> str:
    """The code of the cell, with messages translated by `_`."""
    if project.repository:
        address = f"git+{project.repository}@{project.tag}"
        version = str(Version(project.version))  # in pip's notation
        then = INSTALL.format(address=address, version=version, message=_quoted(_(FAILED)))
    else:
        then = TELL.format(message=_quoted(_(MISSING)))
    compare = COMPARE.format(message=_quoted(_(HIDDEN)))
    return (FIND + then + compare).rstrip("\n")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
