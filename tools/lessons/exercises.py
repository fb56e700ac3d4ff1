"""Exercises and projects, which are generated from the solutions in notebooks/solutions.

nbgrader generates them: it replaces solutions by stubs, removes hidden tests and locks graded
cells. It also adds the checksums by which it later recognizes empty answers.
"""

from __future__ import annotations

import functools
import json

from tools.lessons import notebook
from tools.lessons.project import Project, ToolError, read_text


def source_text(project: Project, domain: str) -> str:
    """The expected text of a notebook's English file."""
    solution = project.solution(domain)
    if solution is not None and solution.exists():
        return strip_solution(read_text(solution), project.short(solution))
    return read_text(project.notebook(domain))


@functools.cache
def strip_solution(solution: str, name: str) -> str:
    """The text of an exercise, which is its solution's notebook without the answers.

    Args:
      name: the name in the error message.

    Raises:
      ToolError: nbgrader is missing, or rejects the notebook.
    """
    notebook.parse(solution, name)
    try:
        import nbformat
        from nbgrader import preprocessors as nbgrader
    except ImportError:
        raise ToolError(
            "Exercises are generated from solutions by nbgrader, which is not installed. "
            'Run: pip install -e ".[test]"'
        ) from None
    steps = (
        nbgrader.LockCells,
        nbgrader.ClearSolutions,
        nbgrader.ClearOutput,
        nbgrader.CheckCellMetadata,
        nbgrader.ClearHiddenTests,
        nbgrader.ComputeChecksums,
    )
    exercise = nbformat.reads(solution, as_version=4)
    try:
        for step in steps:
            exercise, _resources = step().preprocess(exercise, {"unique_key": name})
    except Exception as error:  # RuntimeError, ValidationError, SchemaTooOldError, …
        raise ToolError(
            f"{name} cannot be converted to an exercise: {error}. Fix the cell's tags or its "
            "BEGIN and END lines."
        ) from error
    return notebook.dumps(json.loads(nbformat.writes(exercise)))
