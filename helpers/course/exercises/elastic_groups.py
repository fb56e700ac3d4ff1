"""The task of exercise 8 on elastic groups: the batches of a worker.

The rule is that of docs/FAULTS.md, "Groups that shrink and grow": each step trains on the same
examples, whatever the number of workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers import labels
from helpers.course.criteria import (
    Criterion,
    Exercise,
    describe_examples,
    expect,
    expect_equal_sizes,
)
from helpers.i18n import _, gettext_noop

Case = Mapping[str, Any]


def _read_batches(answer: Callable[..., Any], case: Case) -> dict[str, list[Any]]:
    """The examples of each worker in each remaining step, for each attempt of each group."""
    return {
        name: [_read(answer, group, *attempt) for attempt in group["attempts"]]
        for name, group in case["groups"].items()
    }


def _read(
    answer: Callable[..., Any], group: Case, workers: int, steps_done: int
) -> list[list[list[int]]]:
    import numpy as np

    from helpers.either_keras import tf

    examples, global_batch = group["examples"], group["global_batch"]

    def read(worker: int) -> list[list[int]]:
        data = tf.data.Dataset.range(examples)
        batches = answer(data, global_batch, worker, workers, steps_done)
        # An answer may repeat the data endlessly.
        return [np.ravel(batch).tolist() for batch in itertools.islice(batches, examples)]

    return [read(worker) for worker in range(workers)]


def _same_batches(name: str, hint: str) -> Callable[[dict[str, list[Any]], Case], None]:
    def check(seen: dict[str, list[Any]], case: Case) -> None:
        group = case["groups"][name]
        for (workers, steps_done), read in zip(group["attempts"], seen[name], strict=True):
            wanted = _global_batches(group)[steps_done:]
            found = itertools.zip_longest(*read, fillvalue=[])
            pairs = itertools.zip_longest(wanted, found)
            for step, (batch, parts) in enumerate(pairs, start=steps_done + 1):
                _judge_step(step, workers, batch or [], parts or [[]] * workers, hint)

    return check


def _global_batches(group: Case) -> list[list[int]]:
    examples, size = group["examples"], group["global_batch"]
    return [[*range(first, min(first + size, examples))] for first in range(0, examples, size)]


def _judge_step(
    step: int, workers: int, batch: list[int], parts: Sequence[list[int]], hint: str
) -> None:
    """Raises `CheckFailed` unless the workers read a global batch in nearly equal parts."""
    expect(
        len(parts) == workers and sorted(itertools.chain(*parts)) == batch,
        expected=_("examples {examples} in step {step}, read by {workers}").format(
            examples=batch, step=step, workers=labels.workers(workers)
        ),
        found=describe_examples(parts),
        hint=_(hint),
    )
    expect_equal_sizes(parts, step, parts, _(hint))


WORKER_BATCHES = Exercise(
    _read_batches,
    (
        Criterion(
            2,
            gettext_noop("Each step trains on the same examples, whatever the number of workers."),
            _same_batches(
                "even",
                gettext_noop(
                    "How many examples has the group trained on, and which part of a global "
                    "batch belongs to this worker?"
                ),
            ),
        ),
        Criterion(
            1,
            gettext_noop("This also holds if a batch cannot be divided evenly."),
            _same_batches(
                "uneven",
                gettext_noop(
                    "Which worker gets the remainder of a batch, and how large is the last batch?"
                ),
            ),
        ),
    ),
    {  # The attempts are pairs: the number of workers, and the steps done before.
        "groups": {
            "even": {
                "examples": 48,
                "global_batch": 12,
                "attempts": [[3, 0], [2, 1], [4, 3]],
            },
            "uneven": {
                "examples": 44,
                "global_batch": 10,
                "attempts": [[3, 0], [4, 2], [2, 4]],
            },
        }
    },
)
