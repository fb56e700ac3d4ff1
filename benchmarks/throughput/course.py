"""Runs contenders and converts their reports to rows."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders.report import Arguments, Report
from benchmarks.throughput.launch import BenchmarkError, arguments, run, run_helper
from benchmarks.throughput.lineup import GOAL_ACCURACY, Contender
from benchmarks.throughput.measure import Row, first_epoch_throughput, throughput


@dataclass(frozen=True)
class Plan:
    """The length of the training runs, and the start of the measurement.

    Attributes:
      epochs: of a training run.
      limit: the global step at which to stop instead, if not None.
      from_step: the first step of the throughput measurement.
      torch_python: the interpreter that has PyTorch.
    """

    epochs: int
    limit: int | None
    from_step: int
    torch_python: str


@dataclass(frozen=True)
class Trial:
    """One training run of one contender.

    Attributes:
      launched: when its clock started, in seconds since the epoch.
    """

    args: Arguments
    launched: float
    reports: list[Report]

    @property
    def reached_goal(self) -> bool:
        """Whether it was evaluated and reached the goal."""
        return (self.reports[0].accuracy or 0.0) >= GOAL_ACCURACY

    @property
    def seconds(self) -> float:
        """Seconds from the start of its clock to the result of its evaluation."""
        return (self.reports[0].evaluated or 0.0) - self.launched

    @property
    def goal(self) -> tuple[float, int]:
        """Its seconds and its epochs."""
        return self.seconds, self.args.epochs


class Course:
    """Measures contenders, and remembers how many epochs each needs to reach the goal.

    Args:
      plan: how to measure.
      folder: for temporary files.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._mnist: Path | None = None
        self._epochs_needed: dict[Contender, int] = {}

    def measure(self, contender: Contender, repeat: int) -> Row:
        """Runs once to measure throughput, then to measure the time to the goal.

        Raises:
          BenchmarkError: a run failed, or was too short to measure.
        """
        trial = self._train(contender, contender.fixed_epochs or self._plan.epochs)
        reports, first = trial.reports, self._plan.from_step
        speed = throughput(reports, first)
        if speed is None:
            raise BenchmarkError(f"{contender}: too few steps after step {first} to measure.")
        seconds_to_goal, epochs_to_goal = self._goal(contender, trial)
        return Row(
            contender=contender.name,
            workers=contender.workers,
            batch_size=contender.batch_size,
            repeat=repeat,
            epochs=trial.args.epochs,
            steps=reports[0].marks[-1][0],
            examples_per_second=speed,
            first_epoch_examples_per_second=first_epoch_throughput(
                reports, first, trial.args.steps_per_epoch
            ),
            seconds_to_first_step=reports[0].marks[0][1] - trial.launched,
            seconds_to_result=trial.seconds if reports[0].evaluated else None,
            accuracy=reports[0].accuracy,
            seconds_to_goal=seconds_to_goal,
            epochs_to_goal=epochs_to_goal,
            peak_memory=max((peak for report in reports for peak in report.peaks), default=None),
        )

    def _goal(self, contender: Contender, trial: Trial) -> tuple[float, int] | tuple[None, None]:
        """Returns seconds and epochs of the shortest run that reaches the goal.

        `trial` is the longest run. Each length is a separate run, with its own start and one
        evaluation at its end, because evaluations in between would slow down the measured run.
        """
        if trial.reached_goal and not self._plan.limit:
            for epochs in range(self._epochs_needed.get(contender, 1), trial.args.epochs):
                shorter = self._train(contender, epochs)
                if shorter.reached_goal:
                    self._epochs_needed[contender] = epochs
                    return shorter.goal
            self._epochs_needed[contender] = trial.args.epochs
        return trial.goal if trial.reached_goal else (None, None)

    def _train(self, contender: Contender, epochs: int) -> Trial:
        plan = self._plan
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            args = arguments(
                Path(folder),
                contender.workers,
                contender.batch_size,
                epochs,
                limit=plan.limit,
                mnist=self._arrays() if contender.needs_torch else None,
                ready=contender.ready,
                stacks=contender.stacks,
            )
            python = plan.torch_python if contender.needs_torch else sys.executable
            launched = time.time()
            reports = run(python, contender, args)
            return Trial(args, reports[0].pressed or launched, reports)

    def _arrays(self) -> Path:
        """Returns MNIST for programs without TensorFlow, written once."""
        if self._mnist is None:
            path = self._folder / "mnist.npz"
            answer = run_helper(
                [sys.executable, "-m", "benchmarks.contenders.dump_mnist", str(path)]
            )
            if answer.returncode != 0:
                raise BenchmarkError(f"MNIST could not be written to {path}:\n{answer.stderr}")
            self._mnist = path
        return self._mnist
