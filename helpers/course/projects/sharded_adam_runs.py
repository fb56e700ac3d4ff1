"""Project 3, the runs: what the student's optimizer does in each situation, as plain data.

The runs happen in the student's kernel. `sharded_adam` judges them, in grading in another process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from helpers.course.projects.group import ProcessGroup, Reply
from helpers.course.projects.observations import (
    all_returned,
    find_difference,
    from_data,
    raise_if_empty,
    subtract,
    to_data,
    until_failure,
)
from helpers.course.projects.printed import keep_output
from helpers.course.projects.sharded_adam_expected import (
    KIND,
    Settings,
    Shapes,
    allowed_difference,
    flat,
    frequent_mistakes,
    make_gradients,
    make_parameters,
    unsharded_adam,
)
from helpers.course.projects.switch import Switch

NAME = "sharded_adam"
HANG = 15.0  # seconds after which a call counts as one that never returns
PAIR = [(40, 25)]  # the shapes of the first stage
RESET_ERROR = 1 << 20  # bytes by which memory may grow right after its peak was reset
Case = Mapping[str, Any]


@keep_output
def run(module: Path, case: Case) -> dict[str, Any]:
    """Runs the module in every situation. If two processes fail, the others are omitted."""
    pair = observe_steps(module, case, 2, PAIR, 1)
    for call in pair["calls"]:
        raise_if_empty(module, from_data(call["replies"]))
    if not works(pair):
        return {"pair": [pair]}

    def observe(stage: str, steps: int) -> list[dict[str, Any]]:
        def observe_group(group: tuple[int, Shapes]) -> dict[str, Any]:
            workers, shapes = group
            return observe_steps(module, case, workers, shapes, steps)

        return until_failure(observe_group, case[stage], works)

    return {
        "pair": [pair],
        "weights": observe("weights", 10),
        "lengths": observe("lengths", 3),
        "traffic": observe("traffic", 2),
        "memory": [observe_memory(module, case, *group) for group in case["memory"]],
        "checkpoints": [observe_checkpoint(module, case, *groups) for groups in case["restore"]],
    }


class Training:
    """A group of processes that trains, and the unsharded Adam that it is compared with.

    Attributes:
      session: the observations so far, as plain data.
      parameters: those of process 0 at the last comparison.
    """

    def __init__(self, module: Path, case: Case, workers: int, shapes: Shapes) -> None:
        self._case, self._workers, self._shapes = case, workers, shapes
        self._settings = Settings(*case["settings"])
        self._start = flat(make_parameters(shapes, case["seed"]))
        self._gradients: list[list[Any]] = []  # of each step: those of all processes, flat
        self._restored = -1
        self.parameters: Any = None
        self._stack = ExitStack()
        self.group = ProcessGroup(module, NAME, workers, relayed=False)
        self.session: dict[str, Any] = {
            "workers": workers, "shapes": [list(shape) for shape in shapes],
            "calls": [], "sent": [], "difference": None,
        }  # fmt: skip

    def __enter__(self) -> Training:
        with ExitStack() as stack:
            stack.enter_context(self.group)
            self._switch = stack.enter_context(
                Switch([member.address for member in self.group.members])
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def open(self) -> bool:
        """Imports the module in every process."""
        return self._record("import", self.group.open(HANG))

    def create(self, parameters: Sequence[Any] | None = None) -> bool:
        """Creates the optimizers, by default for the initial parameters."""
        parameters = parameters or make_parameters(self._shapes, self._case["seed"])
        settings = np.array(self._settings)
        self.group.put([[settings, *parameters]] * self._workers)
        return self.call("create_optimizer")

    def put_gradients(self) -> None:
        """Sends each process its gradients of the next step."""
        seed, turn = self._case["seed"], len(self._gradients)
        gradients = make_gradients(self._shapes, seed, turn, self._workers)
        self.group.put(gradients)
        self._gradients.append([flat(arrays) for arrays in gradients])

    def steps(self, count: int) -> bool:
        """Makes some steps, up to the first failure."""
        for _step in range(count):
            self.put_gradients()
            before = list(self._switch.sent)
            if not self.call("step"):
                return False
            self.session["sent"].append(subtract(self._switch.sent, before))
        return True

    def call(self, method: str) -> bool:
        """Calls a method in every process, and returns whether all of them returned."""
        return self._record(method, self.group.call(method, HANG))

    def compare(self) -> None:
        """Compares the parameters of all processes with the unsharded Adam."""
        self.group.call("read", HANG)
        results = self.group.fetch()
        self.parameters = results[0]
        self.session["difference"] = self._difference(results)

    def resume(self, saved: Training, folder: Path) -> bool:
        """Creates the optimizers for the parameters of another group, and loads their state."""
        self._start, self._gradients = saved._start, list(saved._gradients)
        self._restored = len(saved._gradients)
        self.session["saved_by"] = saved.session["workers"]
        parameters, first = [], saved.parameters
        for shape in self._shapes:
            count = int(np.prod(shape))
            parameters.append(first[:count].reshape(shape))
            first = first[count:]
        if not self.create(parameters):
            return False
        self.group.put([[np.array(str(folder))]] * self._workers)
        return self.call("load")

    def _record(self, method: str, replies: list[Reply]) -> bool:
        self.session["calls"].append({"method": method, "replies": to_data(replies)})
        return all_returned(replies)

    def _difference(self, results: Sequence[Any]) -> dict[str, Any] | None:
        """The first difference from the unsharded Adam, with the mistake that explains it."""
        mean = [sum(step) / len(step) for step in self._gradients]
        wanted = unsharded_adam(self._start, mean, self._settings)
        allowed = allowed_difference(wanted, len(mean), self._settings)
        found = find_difference(results, wanted, allowed, KIND)
        if found and found["problem"] == "value":
            place = found["element"]
            if all((result == self._start.astype(KIND)).all() for result in results):
                return {**found, "mistake": "copies"}
            if not np.isfinite(found["found"]):
                return {**found, "mistake": "not finite"}
            mistakes = frequent_mistakes(
                self._start, self._gradients, self._settings, place, self._restored
            )
            for name, value in mistakes:
                if abs(value - found["found"]) <= allowed[place]:
                    return {**found, "mistake": name}
        return found


def observe_steps(
    module: Path, case: Case, workers: int, shapes: Shapes, steps: int
) -> dict[str, Any]:
    """Makes some steps from the initial parameters, and compares the result."""
    with Training(module, case, workers, shapes) as training:
        if training.open() and training.create() and training.steps(steps):
            training.compare()
        return training.session


def observe_memory(module: Path, case: Case, workers: int, shapes: Shapes) -> dict[str, Any]:
    """Measures the memory of each process between two steps, and its peak in the second one."""
    with Training(module, case, workers, shapes) as training:
        if training.open():
            training.group.put([()] * workers)
            base = training.group.reset_peaks()
            if training.create() and training.steps(1):
                training.put_gradients()
                held = training.group.reset_peaks()
                resets = _are_close(training.group.peaks(), held)
                if training.call("step"):
                    peaks = training.group.peaks() if resets else [None] * workers
                    memory = {"held": _growth(held, base), "peak": _growth(peaks, base)}
                    training.session["memory"] = memory
                    training.compare()
        return training.session


def observe_checkpoint(
    module: Path, case: Case, workers: int, others: int, shapes: Shapes
) -> dict[str, Any]:
    """Saves the state of one group, and restores it with another number of processes.

    Then the largest file is deleted, and the state is restored again.
    """
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as name:
        folder = Path(name)
        with Training(module, case, workers, shapes) as training:
            found: dict[str, Any] = {"saved": training.session}
            if not (training.open() and training.create() and training.steps(3)):
                return found
            training.compare()
            training.group.put([[np.array(name)]] * workers)
            if training.session["difference"] or not training.call("save"):
                return found
        files = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        found |= {"files": len(files), "bytes": sum(files.values())}
        with Training(module, case, others, shapes) as resumed:
            found["restored"] = resumed.session
            if resumed.open() and resumed.resume(training, folder):
                resumed.compare()  # `load` must not change the parameters
                if works(resumed.session) and resumed.steps(3):
                    resumed.compare()
        if files and works(found["restored"]):
            max(sorted(files, reverse=True), key=lambda path: files[path]).unlink()
            with Training(module, case, others, shapes) as broken:
                found["broken"] = broken.session
                if broken.open():
                    broken.resume(training, folder)
    return found


def works(session: Mapping[str, Any]) -> bool:
    """Whether all calls returned, and the parameters are right."""
    returned = (all_returned(from_data(call["replies"])) for call in session["calls"])
    return not session["difference"] and all(returned)


def _are_close(peaks: Sequence[int | None], held: Sequence[int | None]) -> bool:
    """Whether the peaks were reset, which not every system permits."""
    return all(
        peak is not None and rest is not None and peak - rest < RESET_ERROR
        for peak, rest in zip(peaks, held, strict=True)
    )


def _growth(now: Sequence[int | None], base: Sequence[int | None]) -> list[int | None]:
    return [
        one - rest if one is not None and rest is not None else None
        for one, rest in zip(now, base, strict=True)
    ]
