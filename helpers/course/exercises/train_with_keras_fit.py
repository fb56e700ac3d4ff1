"""The tasks of lesson 3: full batches, a learning rate, the data of workers, resuming."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.course.criteria import (
    Criterion,
    Exercise,
    expect,
    expect_each_once,
    expect_equal_sizes,
)
from helpers.i18n import _, gettext_noop, ngettext, number
from helpers.strategies import MIRRORED

Case = Mapping[str, Any]
EPOCHS = 5  # the epochs of the task `resumed`
Parts = list[list[int]]  # the examples of one worker or replica in each step


def _share_batches(answer: Callable[..., Any], case: Case) -> dict[int, Parts]:
    """The number of examples per replica in each step, by the number of replicas."""
    examples, per_replica, replicas = case["examples"], case["per_replica"], case["replicas"]

    def share() -> list[Parts]:
        from helpers.either_keras import tf
        from helpers.worker.devices import make_strategy

        devices = make_strategy(MIRRORED, replicas=max(replicas)).extended.worker_devices
        found = []
        for count in replicas:
            strategy = tf.distribute.MirroredStrategy(devices[:count])
            dataset = answer(tf.data.Dataset.range(examples), per_replica, strategy)
            batches = strategy.experimental_distribute_dataset(dataset)
            parts = [strategy.experimental_local_results(batch) for batch in batches]
            found.append([[int(tf.size(part)) for part in step] for step in parts])
        return found

    with LocalCluster(workers=1) as cluster:
        [found] = cluster.run(share, timeout=60)
    return dict(zip(replicas, found, strict=True))


def _first_step(seen: dict[int, Parts], case: Case) -> None:
    for replicas in case["replicas"]:
        hint = _("`fit` splits each batch of the dataset between the replicas.")
        _judge_shares(seen[replicas][:1], [case["per_replica"]] * replicas, hint)


def _every_step(seen: dict[int, Parts], case: Case) -> None:
    for replicas in case["replicas"]:
        steps = seen[replicas]
        hint = _("Which batch of a dataset may be smaller than the others?")
        _judge_shares(steps, [case["per_replica"]] * replicas, hint)
        full = case["examples"] // (case["per_replica"] * replicas)
        expect(
            len(steps) == full,
            expected=_("{steps} ({replicas})").format(
                steps=labels.steps(full), replicas=labels.replicas(replicas)
            ),
            found=labels.steps(len(steps)),
            hint=_("Drop only the examples that do not fill a batch."),
        )


def _judge_shares(steps: Parts, wanted: list[int], hint: str) -> None:
    for step, shares in enumerate(steps or [[]], start=1):
        expect(
            shares == wanted,
            expected=_("{shares}, the examples of each replica in a step").format(shares=wanted),
            found=_("{shares} in step {step}").format(shares=shares, step=step),
            hint=hint,
        )


def _call_each(answer: Callable[..., Any], case: Case) -> list[Any]:
    return [answer(**numbers) for numbers in case["numbers"]]


def _rate(found: list[Any], case: Case) -> None:
    for pair, numbers in zip(found, case["numbers"], strict=True):
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        expected, hint = _("a learning rate and a number of steps"), _("Return two numbers.")
        expect(is_pair, expected=expected, found=repr(pair), hint=hint)
        global_batch = numbers["per_replica"] * numbers["workers"]
        wanted = numbers["rate"] * global_batch / numbers["batch"]
        expect(
            abs(pair[0] - wanted) < 1e-6 * wanted,
            expected=_("learning rate {rate}, with {numbers}").format(
                rate=number(wanted, ".4g"), numbers=dict(numbers)
            ),
            found=number(pair[0], ".4g"),
            hint=_("For which batch was the rate good, and how large is the global batch now?"),
        )


def _steps(found: list[Any], case: Case) -> None:
    for pair, numbers in zip(found, case["numbers"], strict=True):
        wanted = numbers["examples"] // (numbers["per_replica"] * numbers["workers"])
        expect(
            pair[1] == wanted,
            expected=ngettext(
                "{count} step, with {numbers}", "{count} steps, with {numbers}", wanted
            ).format(count=wanted, numbers=dict(numbers)),
            found=repr(pair[1]),
            hint=_("How many examples does the whole group train on in one step?"),
        )


def _read_files(answer: Callable[..., Any], case: Case) -> list[Parts]:
    """The examples of each of two real workers in each step, from files of these lengths."""
    lengths, global_batch = case["lengths"], case["global_batch"]

    with tempfile.TemporaryDirectory() as folder, LocalCluster(workers=2) as cluster:
        paths, numbers = [], iter(range(sum(lengths)))
        for place, length in enumerate(lengths):
            paths.append(str(Path(folder) / f"part-{place}.txt"))
            Path(paths[-1]).write_text("".join(f"{next(numbers)}\n" for _line in range(length)))

        def read() -> Parts:
            from helpers.either_keras import tf

            strategy = tf.distribute.MultiWorkerMirroredStrategy()
            with strategy.scope():
                dataset = answer(list(paths), global_batch)
            batches = strategy.experimental_distribute_dataset(dataset)
            parts = [strategy.experimental_local_results(batch)[0] for batch in batches]
            return [[int(text) for text in part.numpy()] for part in parts]

        return cluster.run(read, timeout=60)


def _read_once(seen: list[Parts], case: Case) -> None:
    first, second = seen
    expect_each_once(
        chain(*first, *second),
        sum(case["lengths"]),
        seen,
        _("What shards the data here: your code, TensorFlow, both, or neither?"),
    )


def _read_evenly(seen: list[Parts], case: Case) -> None:
    for step, parts in enumerate(zip_longest(*seen, fillvalue=()), start=1):
        hint = _("The lesson compares the data that workers read under each auto-shard policy.")
        expect_equal_sizes(parts, step, seen, hint)


class _Stopped(Exception):
    """Simulates the loss of a worker."""


def _resume(answer: Callable[..., Any], case: Case) -> list[list[list[int]]]:
    """The epochs that each worker begins before it is stopped, and after a restart."""
    return [_epochs(answer, worker, case["stop_before"]) for worker in case["workers"]]


def _epochs(answer: Callable[..., Any], worker: int, stop_before: int) -> list[list[int]]:
    """The epochs that one worker begins in its first run, and in its second."""
    import keras
    import numpy as np

    from helpers.either_keras import tf

    runs: list[list[int]] = []

    class RecordEpochs(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if len(runs) == 1 and epoch == stop_before:
                raise _Stopped
            runs[-1].append(epoch)

    x = np.arange(8, dtype=np.float32).reshape(-1, 1)
    dataset = tf.data.Dataset.from_tensor_slices((x, x)).batch(4)
    with tempfile.TemporaryDirectory() as folder:
        for _run in range(2):
            runs.append([])
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            model.compile(keras.optimizers.SGD(0.01), loss="mse")
            try:
                answer(model, dataset, [RecordEpochs()], folder, worker)
            except _Stopped:
                continue
    return runs


def _resumes(place: int) -> Callable[[list[list[list[int]]], Case], None]:
    def check(seen: list[list[list[int]]], case: Case) -> None:
        before, after = [*range(case["stop_before"])], [*range(case["stop_before"], EPOCHS)]
        first, second = seen[place]
        expect(
            (first, second) == (before, after),
            expected=_("epochs {first} before the stop, {second} after it").format(
                first=before, second=after
            ),
            found=_("epochs {first} before the stop, {second} after it, in worker {number}").format(
                number=case["workers"][place], first=first, second=second
            ),
            hint=_("Which workers save, and where does a restarted one look for the backup?"),
        )

    return check


EXERCISES = {
    "full_batches": Exercise(
        _share_batches,
        (
            Criterion(1, gettext_noop("Each replica gets its number of examples."), _first_step),
            Criterion(1, gettext_noop("This also holds in the last step."), _every_step),
        ),
        {"examples": 31, "per_replica": 4, "replicas": [2, 3]},
    ),
    "rate_and_steps": Exercise(
        _call_each,
        (
            Criterion(1, gettext_noop("The learning rate suits the global batch."), _rate),
            Criterion(1, gettext_noop("The steps make one epoch."), _steps),
        ),
        {
            "numbers": [
                {
                    "rate": 0.025,
                    "batch": 64,
                    "per_replica": 32,
                    "workers": 8,
                    "examples": 60_000,
                },
                {"rate": 0.1, "batch": 128, "per_replica": 128, "workers": 1, "examples": 50_000},
            ]
        },
    ),
    "every_once": Exercise(
        _read_files,
        (
            Criterion(2, gettext_noop("Two workers together read every number once."), _read_once),
            Criterion(1, gettext_noop("Neither worker starves."), _read_evenly),
        ),
        {"lengths": [10, 3], "global_batch": 4},
    ),
    "resumed": Exercise(
        _resume,
        (
            Criterion(2, gettext_noop("Worker 0 resumes in the epoch it was in."), _resumes(0)),
            Criterion(1, gettext_noop("Worker 1 does, too."), _resumes(1)),
        ),
        {"workers": [0, 1], "stop_before": 3},
    ),
}
