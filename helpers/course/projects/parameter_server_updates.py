"""Project 5: updates that can be recognized in the parameters which a pull returns.

Each push has its own column. Its update adds 1 to that column in every row of the parameters, so
the difference to the initial parameters shows for each row which pushes it contains. All numbers
are small integers, whose sums are exact in any order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.course.projects.group import Reply
from helpers.course.projects.observations import describe_mismatch

KINDS = "float32", "float64"


class Updates:
    """The initial parameters, and the update of each worker in each step.

    Args:
      workers: the number of workers, whose ranks start at 1.
      steps: the number of pushes of each worker.
      length: the minimum number of parameters.
    """

    def __init__(self, workers: int, steps: int, length: int, kind: str, seed: int) -> None:
        self.workers, self.steps = workers, steps
        self._columns = workers * steps
        rows = -(-length // self._columns)
        generator = np.random.default_rng([seed, workers, steps])
        self.initial = generator.integers(-99, 100, rows * self._columns).astype(kind)

    def update(self, rank: int, step: int, pulled: Any) -> Any:
        """The array that a worker pushes in a step."""
        found = np.zeros_like(self.initial)
        found.reshape(-1, self._columns)[:, (rank - 1) * self.steps + step] = 1
        return found

    def read(self, rank: int, step: int, found: Any) -> dict[str, Any]:
        """What parameters contain, as data.

        Returns:
          `problem`, which is empty, "array", "torn", "factor" or "gap", with the details for its
          message, and `steps` with the number of pushes of each worker.
        """
        if mismatch := describe_mismatch(found, self.initial.shape, self.initial.dtype):
            return {"problem": "array", "found": mismatch}
        counts = (found - self.initial).reshape(-1, self._columns)
        row = counts[0].reshape(self.workers, self.steps)
        return self._added_wrongly(counts) or self._torn(counts) or self._read_row(row)

    def _added_wrongly(self, counts: Any) -> dict[str, Any] | None:
        """A push that an element contains twice, or in part."""
        wrong = (counts != 0) & (counts != 1)
        if not wrong.any():
            return None
        row, column = divmod(int(np.argmax(wrong)), self._columns)
        rank, step = divmod(column, self.steps)
        factor = float(counts[row, column])
        return {"problem": "factor", "rank": rank + 1, "step": step, "factor": factor}

    def _torn(self, counts: Any) -> dict[str, Any] | None:
        """A push that a part of the parameters contains, and another part does not."""
        wrong = counts != counts[0]
        if not wrong.any():
            return None
        row, column = divmod(int(np.argmax(wrong)), self._columns)
        rank, step = divmod(column, self.steps)
        place = {"rank": rank + 1, "step": step}
        with_it, without = column, row * self._columns + column
        if counts[row, column]:
            with_it, without = without, with_it
        return {"problem": "torn", **place, "with": with_it, "without": without}

    def _read_row(self, counts: Any) -> dict[str, Any]:
        for rank, times in enumerate(counts, start=1):
            steps = int(times.sum())
            if not times[:steps].all():
                missing = int(np.argmin(times))
                return {"problem": "gap", "rank": rank, "step": missing, "later": steps}
        return {"problem": "", "steps": [int(times.sum()) for times in counts]}


class Descent:
    """A training loop whose result depends on every bit of the parameters and on their order.

    Each worker has a target, and its loss is half the squared distance to it. Every element is
    computed with one multiplication and one subtraction, which round in the same way everywhere.
    """

    def __init__(self, workers: int, steps: int, length: int, kind: str, seed: int) -> None:
        self.workers, self.steps = workers, steps
        generator = np.random.default_rng([seed, workers, steps])
        self.initial = generator.standard_normal(length).astype(kind)
        self._targets = generator.standard_normal((workers, length)).astype(kind)
        self._rate = np.array(0.3, kind)
        self._expected = [self.initial]
        for _step in range(steps):
            parameters = self._expected[-1]
            updates = [self.update(rank + 1, 0, parameters) for rank in range(workers)]
            for update in updates:
                parameters = parameters + update
            self._expected.append(parameters)

    def update(self, rank: int, step: int, pulled: Any) -> Any:
        """The array that a worker pushes: a step toward its target."""
        if isinstance(pulled, Reply) or pulled.shape != self.initial.shape:
            pulled = self.initial
        return self._rate * (self._targets[rank - 1] - pulled.astype(self.initial.dtype))

    def read(self, rank: int, step: int, found: Any) -> dict[str, Any]:
        """The first difference to the synchronous loop, as data with `problem`.

        Returns:
          `problem`, which is empty, "array", "value", or "bits" if the numbers are equal except for
          rounding, with the details for its message.
        """
        wanted = self._expected[step]
        if mismatch := describe_mismatch(found, wanted.shape, wanted.dtype):
            return {"problem": "array", "found": mismatch}
        wrong = found != wanted
        if not wrong.any():
            return {"problem": ""}
        place = int(np.argmax(wrong))
        rounding = 100 * np.finfo(wanted.dtype).eps
        close = np.allclose(found, wanted, rtol=rounding, atol=rounding)
        return {
            "problem": "bits" if close else "value",
            "element": place,
            "wanted": float(wanted[place]),
            "found": float(found[place]),
        }
