"""The contenders that are measured, and the comparisons that matter."""

from __future__ import annotations

from dataclasses import dataclass

OURS, READY, NO_STACKS, PUBLISHED, KERAS, KERAS_OURS, DDP, CEILING = (
    "this package",
    "this package, Run pressed",
    "this package without stacks",
    "published tutorial",
    "Keras fit",
    "Keras fit in LocalCluster",
    "PyTorch DDP",
    "ceiling",
)
Key = tuple[str, int, int]
"""Name, workers and batch size, which make two runs comparable."""


@dataclass(frozen=True)
class Contender:
    """One line of the comparison.

    Attributes:
      name: the name in tables.
      module: the program in `contenders`.
      workers: how many train together.
      batch_size: examples per worker and step.
      processes: how many the benchmark itself starts.
      fixed_epochs: the length of its training run, if it cannot be set.
      needs_torch: whether it runs in the interpreter that has PyTorch.
      ready: whether its clock starts when its workers are ready.
      stacks: whether its workers can report their stacks.
    """

    name: str
    module: str
    workers: int
    batch_size: int
    processes: int
    fixed_epochs: int | None = None
    needs_torch: bool = False
    ready: bool = False
    stacks: bool = True

    def __str__(self) -> str:
        return label((self.name, self.workers, self.batch_size))


def label(key: Key) -> str:
    """Returns the name of a contender in messages."""
    name, workers, batch_size = key
    return f"{name}, {workers} worker{'s' if workers > 1 else ''}, batch {batch_size}"


def ours(workers: int, batch_size: int) -> Contender:
    """This package. `LocalCluster` starts its workers itself."""
    return Contender(OURS, "ours", workers, batch_size, processes=1)


def ready(workers: int) -> Contender:
    """This package in a notebook that has run its first cells, measured from the press of Run."""
    return Contender(READY, "ours", workers, 64, processes=1, ready=True)


def without_stacks(workers: int) -> Contender:
    """This package without the signal handler and the thread that report stacks."""
    return Contender(NO_STACKS, "ours", workers, 64, processes=1, stacks=False)


def published(workers: int) -> Contender:
    """The published tutorial, which trains for one epoch at batch 64."""
    return Contender(PUBLISHED, "published", workers, 64, workers, fixed_epochs=1)


def keras(workers: int) -> Contender:
    """Keras `fit` under the same strategy."""
    return Contender(KERAS, "keras_fit", workers, 64, workers)


def keras_ours(workers: int) -> Contender:
    """Keras `fit` with this package's threads and input."""
    return Contender(KERAS_OURS, "keras_ours", workers, 64, processes=1)


def ddp(workers: int) -> Contender:
    """PyTorch."""
    return Contender(DDP, "torch_ddp", workers, 64, workers, needs_torch=True)


def ceiling(batch_size: int) -> Contender:
    """Two processes that never communicate. Six epochs take some seconds."""
    return Contender(CEILING, "ceiling", 2, batch_size, processes=2, fixed_epochs=6)


SHORT = (published(2), ours(2, 64), ceiling(64), ceiling(256))
FULL = (  # compared contenders run one after the other, because the machine's speed changes
    ours(1, 64),
    ready(1),
    published(1),
    keras(1),
    ddp(1),
    published(2),
    keras(2),
    keras_ours(2),
    ddp(2),
    without_stacks(2),
    ours(2, 64),
    ready(2),
    ceiling(64),
    ours(2, 256),
    ceiling(256),
    ours(4, 64),
    ready(4),
    ours(1, 256),
    ours(4, 256),
)

COMPARISONS: tuple[tuple[Key, Key, float | None], ...] = (
    ((OURS, 2, 64), (PUBLISHED, 2, 64), 1.7),
    ((OURS, 2, 64), (KERAS, 2, 64), None),
    ((KERAS_OURS, 2, 64), (KERAS, 2, 64), 1.5),
    ((OURS, 2, 64), (DDP, 2, 64), 2.0),
    ((OURS, 2, 64), (NO_STACKS, 2, 64), None),
    ((OURS, 2, 64), (CEILING, 2, 64), 0.65),
    ((OURS, 2, 256), (CEILING, 2, 256), 0.85),
)
"""Two contenders, and the lowest ratio that the project requires."""
GOAL_ACCURACY = 0.97
GOAL_MEMORY = 700  # MB of one worker
