"""Where the variables of a graph lie, as a worker tells the notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from helpers.estimator import tf
from helpers.tf_config import Task


def bytes_by_task(local_task: Task, variables: Iterable[Any]) -> dict[str, int]:
    """How many bytes lie on each task, by its name.

    Args:
      local_task: the task of this process; a variable whose device names no task lies on it.
      variables: those of a graph. Of one that a strategy has copied, each copy counts; a copy that
        is also listed by itself counts once.
    """
    copies = {
        copy.name: copy
        for variable in variables
        for copy in getattr(variable, "values", None) or [variable]
    }
    found: Counter[str] = Counter()
    for copy in copies.values():
        device = tf.DeviceSpec.from_string(copy.device)
        named = device.job not in (None, "localhost") and device.task is not None
        task = f"{device.job} {device.task}" if named else str(local_task)
        found[task] += (copy.shape.num_elements() or 0) * copy.dtype.size
    return dict(found)
