"""`report("ring_all_reduce")`: measures a student's module, and draws the results."""

from __future__ import annotations

import importlib
from pathlib import Path

from helpers.course.charts.svg import Drawing
from helpers.errors import ConfigError
from helpers.i18n import _


def report(name: str) -> Drawing:
    """Measures the module of a project next to the notebook, and draws the results.

    Args:
      name: the name of the project, which is also the name of its module.

    Raises:
      ConfigError: the module does not exist, or does not work yet.
    """
    path = Path(f"{name}.py")
    if not path.is_file():
        message = _("There is no file {name} yet. Run the cell that starts with %%writefile.")
        raise ConfigError(message.format(name=path.name))
    return importlib.import_module(f"helpers.course.projects.{name}_report").measure(path)
