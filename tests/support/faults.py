"""Shared code of the fault tests: two training APIs, and a class that injects faults."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.errors import PackageError
from helpers.protocol.events import Event
from helpers.results.training_result import TrainingResult
from helpers.system.keras_version import check_keras_3
from tests.support.functions import PARAMS, keras_fit, tiny_input_fn, tiny_model_fn


def has_keras_3() -> bool:
    """Whether workers can have Keras 3 here."""
    try:
        check_keras_3()
    except PackageError:
        return False
    return True


FaultAction = Callable[[LocalCluster], Any]


@dataclass(frozen=True)
class TrainingApi:
    """A way to train the same model with one weight, to `steps`, saving every `save` steps."""

    name: str
    steps: int
    save: int
    fault_at: int

    def train(
        self, cluster: LocalCluster, folder: Path, on_event: Callable[[Event], None] | None = None
    ) -> TrainingResult:
        """Trains to the last step and asserts that every worker found the answer."""
        train = _train_estimator if self.name == "estimator" else _train_keras
        return train(self, cluster, folder, on_event or (lambda event: None))


ESTIMATOR = TrainingApi("estimator", steps=2000, save=100, fault_at=500)
KERAS = TrainingApi("keras", steps=600, save=100, fault_at=250)
KERAS_3 = TrainingApi("keras 3", steps=600, save=100, fault_at=250)
needs_keras_3 = pytest.mark.skipif(not has_keras_3(), reason="TensorFlow from 2.16 on has Keras 3")


def train_tiny(
    cluster: LocalCluster, steps: int, on_event: Callable[[Event], None] | None = None
) -> TrainingResult:
    """Trains with a checkpoint every 50 steps, and asserts nothing."""
    return cluster.train(
        tiny_model_fn,
        tiny_input_fn,
        steps=steps,
        params=PARAMS,
        save_checkpoints_steps=50,
        evaluate=None,
        progress=False,
        on_event=on_event,
    )


def _train_estimator(
    api: TrainingApi, cluster: LocalCluster, folder: Path, on_event: Callable[[Event], None]
) -> TrainingResult:
    result = cluster.train(
        tiny_model_fn,
        tiny_input_fn,
        steps=api.steps,
        params=PARAMS,
        model_dir=folder,
        save_checkpoints_steps=api.save,
        progress=False,
        on_event=on_event,
    )
    assert result.evaluations[-1].step == api.steps
    assert result.evaluation["error"] < 0.05
    return result


def _train_keras(
    api: TrainingApi, cluster: LocalCluster, folder: Path, on_event: Callable[[Event], None]
) -> TrainingResult:
    result = TrainingResult(cluster.workers, cluster.collective, str(folder), time.time())

    def note(event: Event) -> None:
        result.add(event)
        on_event(event)

    keras = 3 if api.name == KERAS_3.name else 2
    fit = functools.partial(
        keras_fit,
        backup_dir=str(folder),
        steps=api.steps,
        backup_every=api.save,
        own=keras == 3,  # with the callback of Keras 3, all workers write to one file
    )
    for value in cluster.run(fit, keras=keras, on_event=note):
        assert value["step"] == api.steps
        assert abs(value["weight"] - 2) < 0.05
    return result


def api_matrix(
    api: TrainingApi | None, workers: int, *, keras_3: bool = False
) -> pytest.MarkDecorator:
    """The training APIs on 2 and on 4 workers.

    The named one, if any, belongs to `make test`. The others belong to the lane `faults` on two
    workers, and to the slow tests on four. With `keras_3`, Keras 3 is included, for tests that
    depend on the API.
    """
    other = {2: [pytest.mark.faults], 4: [pytest.mark.slow]}
    return pytest.mark.parametrize(
        ("api", "workers"),
        [
            pytest.param(
                each,
                count,
                id=f"{each.name} on {count}",
                marks=[] if (each, count) == (api, workers) else other[count],
            )
            for each in (ESTIMATOR, KERAS)
            for count in (2, 4)
        ]
        + [
            pytest.param(
                *(KERAS_3, 2),
                id="keras 3 on 2",
                marks=[needs_keras_3, *([] if keras_3 else other[2])],
            )
        ],
    )


@dataclass
class FaultAtStep:
    """Calls a function once, at a known step, and records when training resumed."""

    cluster: LocalCluster
    step: int
    action: FaultAction
    done_at: float | None = None
    known_at: float | None = None
    back_at: float | None = None
    restarts: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        if event["event"] == "step" and event["step"] >= self.step and self.done_at is None:
            self.done_at = time.time()
            self.action(self.cluster)
        if event["event"] == "group_restart":
            self.known_at = self.known_at or event["time"]
            self.restarts.append(event)
        if event["event"] == "step" and event["attempt"] > 0 and self.back_at is None:
            self.back_at = event["time"]

    @property
    def detection(self) -> float:
        """Seconds from the action to the decision to restart."""
        assert self.done_at and self.known_at
        return self.known_at - self.done_at

    @property
    def recovery(self) -> float:
        """Seconds from that decision to the next step."""
        assert self.known_at and self.back_at
        return self.back_at - self.known_at


def kill(task: str) -> FaultAction:
    """Ends a task, like the kernel does if memory runs out."""
    return lambda cluster: cluster.inject_fault("kill", task)


def freeze(task: str) -> FaultAction:
    """Stops a task, so that only SIGCONT or SIGKILL have an effect."""
    return lambda cluster: cluster.inject_fault("pause", task)


def assert_resumed_near(api: TrainingApi, result: TrainingResult) -> None:
    """Each attempt began at most one checkpoint before the last step of the previous ones."""
    steps = {
        attempt: [
            point.step
            for points in result.history.values()
            for point in points
            if point.attempt == attempt
        ]
        for attempt in range(len(result.restarts) + 1)
    }
    for attempt in range(1, len(steps)):
        before = max((max(steps[earlier], default=0) for earlier in range(attempt)), default=0)
        if steps[attempt]:  # a step that ran while a checkpoint was written counts too
            assert before - min(steps[attempt]) < api.save + 50


def print_latencies(saboteur: FaultAtStep) -> None:
    """Prints the two times of a fault, which `pytest -rP` shows."""
    print(f"detected after {saboteur.detection:.2f} s, next step {saboteur.recovery:.1f} s later")
