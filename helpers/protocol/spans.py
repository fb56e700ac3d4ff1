"""The operations of training steps, as a worker sends them to the notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Span = Sequence[Any]
"""One operation or one step, as a list, so that a worker can return it to the notebook.

Its items are the category, the name (the type of an operation, or the number of a step), the start
and the end in microseconds since the Unix epoch on the clock of that worker, and an identity. For
a collective, the identity is its keys, which are the same in all workers. For a step, it is the
clock, which all processes of a machine share. For other operations it is empty."""

STEP = "step"
INPUT = "input"
COMPUTE = "compute"
ALL_REDUCE = "all-reduce"
