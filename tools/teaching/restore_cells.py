"""Restores graded cells that a student copied, split or deleted."""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import OverwriteCells
from nbgrader.utils import is_grade


class RestoreCells(OverwriteCells):
    """nbgrader's OverwriteCells, for notebooks in which it finds no names.

    In JupyterLab, a copied or split cell keeps its metadata. DeduplicateIds keeps the last cell
    with a name, and clears the metadata of the others. nbgrader 0.9.6 then looks up their names and
    fails. It also fails if the cell before a deleted cell was deleted.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Restores cells like nbgrader, but treats cells without names as the student's own."""
        _forget_nameless(nb)
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        """Restores a cell like nbgrader, but removes a graded cell's name from other cells."""
        source = self.gradebook.find_notebook(self.notebook_id, self.assignment_id)
        if not is_grade(cell) and _name(cell) in {graded.name for graded in source.grade_cells}:
            del cell.metadata["nbgrader"]
        return super().preprocess_cell(cell, resources, cell_index)

    def add_missing_grade_cells(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Adds each missing cell after its nearest existing predecessor, or at the end."""
        _forget_nameless(nb)  # cells whose names were not in the gradebook
        source = self.gradebook.find_notebook(self.notebook_id, self.assignment_id)
        names = [cell.name for cell in source.source_cells]
        solutions = {cell.name for cell in source.solution_cells}
        graded = {cell.name: cell for cell in source.grade_cells}
        for place, name in enumerate(names):
            present = {_name(cell): index for index, cell in enumerate(nb.cells)}
            if name not in graded or name in present:
                continue
            self.log.warning("Missing grade cell %s encountered, adding to notebook", name)
            cell = self.missing_cell_transform(
                source.source_cells[place], graded[name].max_score, is_solution=name in solutions
            )
            before = [present[one] for one in names[:place] if one in present]
            nb.cells.insert(max(before) + 1 if before else len(nb.cells), cell)
        return nb, resources


def _forget_nameless(nb: Any) -> None:
    for cell in nb.cells:
        if "nbgrader" in cell.metadata and _name(cell) is None:
            del cell.metadata["nbgrader"]


def _name(cell: Any) -> str | None:
    """The name of an nbgrader cell, or None for other cells."""
    return cell.metadata.get("nbgrader", {}).get("grade_id") or None
