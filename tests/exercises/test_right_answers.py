"""Answers of different form that are right."""

from __future__ import annotations

import pytest

from helpers.course.check import check, find_task

RIGHT = {
    "add_up": {
        "reduces once": """
def add_up(numbers, all_reduce):
    return all_reduce(sum(number for number in numbers if number >= 0))
""",
        "adds zero for a damaged example": """
def add_up(numbers, all_reduce):
    total = 0.0
    for number in numbers:
        total += all_reduce(max(number, 0.0))
    return total
""",
        "replaces damaged examples first": """
def add_up(numbers, all_reduce):
    kept = [0 if number < 0 else number for number in numbers]
    return sum(map(all_reduce, kept))
""",
        "ignores what a damaged example contributed": """
def add_up(numbers, all_reduce):
    total = 0.0
    for number in numbers:
        everything = all_reduce(number)
        total += everything - all_reduce(number if number < 0 else 0.0)
    return total
""",
    },
    "worker_batches": {
        "slices each batch": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    def part(batch):
        rows = tf.shape(batch)[0]
        return batch[worker * rows // workers : (worker + 1) * rows // workers]

    return data.batch(global_batch).skip(steps_done).map(part)
""",
        "takes every K-th example of a batch": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    batches = data.skip(steps_done * global_batch).batch(global_batch)
    return batches.map(lambda batch: batch[worker::workers])
""",
        "shards each window": """
def worker_batches(data, global_batch, worker, workers, steps_done):
    windows = data.window(global_batch).skip(steps_done)
    return windows.flat_map(lambda window: window.shard(workers, worker).batch(global_batch))
""",
    },
}
ANSWERS = [(task, name) for task, answers in RIGHT.items() for name in answers]


@pytest.mark.answers
@pytest.mark.parametrize(("task", "name"), ANSWERS)
def test_a_right_answer_of_another_form_earns_all_points(task: str, name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from helpers.either_keras import tf\n{RIGHT[task][name]}", namespace)
    assert check(task, namespace) == find_task(task).points
