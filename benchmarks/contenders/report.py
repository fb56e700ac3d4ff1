"""The shared code of all contenders: their arguments, their clock, and their report.

It uses only the standard library, because PyTorch may be in a separate environment.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

MARK_SECONDS = 0.1
POLL_INTERVAL = 0.01
PEERS_SECONDS = 60.0
TRAINING_EXAMPLES = 60_000

Mark = tuple[int, float]
"""A global step, and the time (seconds since the epoch) at which it ended."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of one process of a contender.

    Attributes:
      folder: for its report and checkpoints.
      rank: the number of this process in the contender, from 0.
      workers: how many train together.
      batch_size: examples per worker and step.
      epochs: passes over the training data, or
      limit: the global step to stop at, if not None.
      learning_rate: for a global batch of 64.
      momentum: of plain SGD.
      mnist: the dataset as NumPy arrays, for programs without TensorFlow.
      ready: whether the clock starts when the workers are ready, not at the program's launch.
      stacks: whether the workers can report their stacks, as usual.
    """

    folder: Path
    rank: int
    workers: int
    batch_size: int
    epochs: int
    limit: int | None
    learning_rate: float
    momentum: float
    mnist: Path | None
    ready: bool = False
    stacks: bool = True

    @property
    def global_batch(self) -> int:
        """Examples in one step of all workers."""
        return self.batch_size * self.workers

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in the shard of one worker."""
        return TRAINING_EXAMPLES // self.workers // self.batch_size

    @property
    def steps(self) -> int:
        """Global steps of the whole training run."""
        return self.limit or self.epochs * self.steps_per_epoch

    def to_argv(self) -> list[str]:
        """These arguments as a command line."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        flags = ["--ready"] * given.pop("ready") + ["--no-stacks"] * (not given.pop("stacks"))
        return [*flags, *(f"--{name}={value}" for name, value in given.items())]

    @classmethod
    def parse(cls, argv: Sequence[str] | None = None) -> Arguments:
        """The arguments of this process."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument("--rank", type=int, default=0)
        parser.add_argument("--workers", type=int, default=1)
        parser.add_argument("--batch_size", type=int, default=64)
        parser.add_argument("--epochs", type=int, default=1)
        parser.add_argument("--limit", type=int)
        parser.add_argument("--learning_rate", type=float, default=0.025)
        parser.add_argument("--momentum", type=float, default=0.9)
        parser.add_argument("--mnist", type=Path)
        parser.add_argument("--ready", action="store_true")
        parser.add_argument("--no-stacks", dest="stacks", action="store_false")
        return cls(**vars(parser.parse_args(argv)))


@dataclass
class Report:
    """The results of one process.

    Attributes:
      examples_per_step: the number of examples that one step of `marks` represents.
      marks: some ten per second, and the last step. Empty if another process reports for this one.
      peaks: the largest resident memory, in MB, of each process that trained.
      accuracy: on the test split, after training, or None if nothing was evaluated.
      evaluated: the time when it was known, in seconds since the epoch.
      pressed: the time when Run was pressed, if later than the launch of the program.
    """

    examples_per_step: int = 0
    marks: list[Mark] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    accuracy: float | None = None
    evaluated: float | None = None
    pressed: float | None = None

    def save(self, folder: Path, rank: int) -> None:
        """Writes the report to the file that `load` reads."""
        (folder / f"report-{rank}.json").write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def load(cls, folder: Path, rank: int) -> Report:
        """Reads the report of one process."""
        report = cls(**json.loads((folder / f"report-{rank}.json").read_text("utf-8")))
        report.marks = [(step, seconds) for step, seconds in report.marks]
        return report


class StepClock:
    """Records when steps end, as often as `LocalCluster` reports them."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._latest: Mark = (0, 0.0)

    def tick(self, steps: int = 1) -> None:
        """Call it after every step, or after every `steps` steps."""
        now = time.time()
        self._latest = self._latest[0] + steps, now
        if not self._marks or now - self._marks[-1][1] >= MARK_SECONDS:
            self._marks.append(self._latest)

    @property
    def marks(self) -> list[Mark]:
        """The recorded steps, always including the last one."""
        seen = self._marks[-1:] == [self._latest] or not self._latest[0]
        return self._marks if seen else [*self._marks, self._latest]


def peak_memory(pid: int | str = "self") -> float | None:
    """The largest resident memory of a process so far, in MB (10⁶ bytes).

    None if the process or /proc is not there.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(kibibytes[0]) * 1024 / 1e6 if kibibytes else None


def own_peaks() -> list[float]:
    """Returns this process's peak, in the form of `Report.peaks`."""
    peak = peak_memory()
    return [] if peak is None else [peak]


def wait_for_peers(args: Arguments) -> None:
    """Returns in all processes of the contender at about the same time.

    Raises:
      TimeoutError: one of them did not arrive.
    """
    (args.folder / f"ready-{args.rank}").touch()
    deadline = time.monotonic() + PEERS_SECONDS
    missing = [args.folder / f"ready-{rank}" for rank in range(args.workers)]
    while missing := [path for path in missing if not path.exists()]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{missing[0].name} did not arrive within {PEERS_SECONDS:g} s.")
        time.sleep(POLL_INTERVAL)
