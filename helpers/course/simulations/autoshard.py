"""What each worker reads of a dataset of files under TensorFlow's auto-shard policies.

By tensorflow/core/grappler/optimizers/data/auto_shard.cc and by trying it, under TensorFlow 2.21;
the tests compare with `tf.data` itself.

OFF: each worker reads everything. FILE: worker w of N opens the files w, w + N, …; with fewer files
than workers TensorFlow raises InvalidArgumentError. DATA: each worker opens and reads everything,
and keeps its part. AUTO is FILE for a dataset that reads files, however few they are, and DATA for
any other.
"""

from __future__ import annotations

from typing import NamedTuple

from helpers.errors import check_count, unknown_choice

POLICIES = "OFF", "FILE", "DATA"


class Files(NamedTuple):
    """A dataset: its examples are numbered from 0, file by file."""

    files: int
    per_file: int

    @property
    def examples(self) -> int:
        """How many there are."""
        return self.files * self.per_file

    def of(self, file: int) -> list[int]:
        """The examples in a file."""
        return list(range(file * self.per_file, (file + 1) * self.per_file))


class Reading(NamedTuple):
    """What one worker does in an epoch.

    Attributes:
      files: those it opens.
      examples: those it reads and decodes.
      steps: those it trains on, step by step.
    """

    files: list[int]
    examples: list[int]
    steps: list[list[int]]

    @property
    def trained(self) -> list[int]:
        """The examples it trains on, in their order."""
        return [example for step in self.steps for example in step]


def readings(
    dataset: Files, workers: int, batch: int, policy: str, batched: bool
) -> list[Reading] | None:
    """What each worker reads; None where TensorFlow refuses.

    Args:
      batch: examples in a step of one worker.
      batched: whether the dataset is in batches before it is sharded, as one that `fit` or
        `experimental_distribute_dataset` gets: in global batches of `batch` × `workers`, each of
        which they split. Otherwise it is sharded example by example, and each worker batches what
        it has got.

    Raises:
      ConfigError: a number below 1, or no policy of that name.
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
    """The worker's part of each global batch; of the last, smaller one it may be empty."""
    found = []
    for whole in _batches(examples, batch * workers):
        part = -(-len(whole) // workers)  # rounded up
        found.append(whole[worker * part : (worker + 1) * part])
    return found
