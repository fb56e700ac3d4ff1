"""The data that each worker reads from files under TensorFlow's auto-shard policies.

The rules are from tensorflow/core/grappler/optimizers/data/auto_shard.cc and from experiments with
TensorFlow 2.21. The tests compare them with `tf.data` itself.

OFF: each worker reads everything. FILE: worker w of N opens the files w, w + N, …, and TensorFlow
raises InvalidArgumentError if there are fewer files than workers. DATA: each worker opens and reads
everything, and keeps its part. AUTO is FILE for a dataset that reads any number of files, and DATA
for any other dataset.
"""

from __future__ import annotations

from typing import NamedTuple

from helpers.errors import check_count, unknown_choice

POLICIES = "OFF", "FILE", "DATA"


class Files(NamedTuple):
    """A dataset whose examples are numbered from 0, file by file."""

    files: int
    per_file: int

    @property
    def examples(self) -> int:
        """The number of examples."""
        return self.files * self.per_file

    def of(self, file: int) -> list[int]:
        """The examples in a file."""
        return list(range(file * self.per_file, (file + 1) * self.per_file))


class Reading(NamedTuple):
    """The data that one worker reads in an epoch.

    Attributes:
      files: the files it opens.
      examples: the examples it reads and decodes.
      steps: the examples it trains on, step by step.
    """

    files: list[int]
    examples: list[int]
    steps: list[list[int]]

    @property
    def trained(self) -> list[int]:
        """The examples it trains on, in order."""
        return [example for step in self.steps for example in step]


def readings(
    dataset: Files, workers: int, batch: int, policy: str, batched: bool
) -> list[Reading] | None:
    """The data that each worker reads, or None if TensorFlow raises an error.

    Args:
      batch: the number of examples per step of one worker.
      policy: one of POLICIES.
      batched: whether the dataset is batched before it is sharded. `fit` and
        `experimental_distribute_dataset` receive such a dataset, with global batches of `batch` ×
        `workers`, and split each batch. Otherwise it is sharded example by example, and each worker
        batches its own examples.

    Raises:
      ConfigError: a number is below 1, or there is no such policy.
    """
    counts = {"files": dataset.files, "per_file": dataset.per_file}
    for name, value in {**counts, "workers": workers, "batch": batch}.items():
        check_count(name, value)
    if policy not in POLICIES:
        raise unknown_choice("policy", policy, POLICIES)
    if policy == "FILE":
        return _by_file(dataset, workers, batch) if dataset.files >= workers else None
    files, examples = list(range(dataset.files)), list(range(dataset.examples))
    if policy == "OFF":
        return [Reading(files, examples, _batches(examples, batch))] * workers
    split = _split_batches if batched else _split_examples
    return [Reading(files, examples, split(examples, workers, batch, w)) for w in range(workers)]


def _by_file(dataset: Files, workers: int, batch: int) -> list[Reading]:
    found = []
    for worker in range(workers):
        files = list(range(worker, dataset.files, workers))
        examples = [example for file in files for example in dataset.of(file)]
        found.append(Reading(files, examples, _batches(examples, batch)))
    return found


def _batches(examples: list[int], batch: int) -> list[list[int]]:
    return [examples[k : k + batch] for k in range(0, len(examples), batch)]


def _split_examples(examples: list[int], workers: int, batch: int, worker: int) -> list[list[int]]:
    return _batches(examples[worker::workers], batch)


def _split_batches(examples: list[int], workers: int, batch: int, worker: int) -> list[list[int]]:
    """The worker's part of each global batch, which may be empty in the last, smaller one."""
    found = []
    for whole in _batches(examples, batch * workers):
        part = -(-len(whole) // workers)  # rounded up
        found.append(whole[worker * part : (worker + 1) * part])
    return found
