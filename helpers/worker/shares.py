"""The share of a worker in each global batch, independent of the number of workers.

The data keeps the shards of the largest group, one for each of its workers. A smaller group divides
the same batches of all shards among fewer workers: worker k of K reads the part of the global batch
from k/K to (k+1)/K. So each step trains on the same examples, whatever the size of the group, and
the position in the data is a number of batches.

This is the data-parallel part of VirtualFlow (Or, Zhang and Freedman, 2022, "VirtualFlow:
Decoupling Deep Learning Models from the Underlying Hardware", https://arxiv.org/abs/2009.09523),
whose virtual nodes are the shards here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

from helpers.either_keras import tf

ReadShard = Callable[[Any], Any]
"""Returns the dataset, or the tensors, of the shard that a `tf.distribute.InputContext` describes.
"""


PREFETCHED = 2  # batches, so that they are cut while a step runs


class Part(NamedTuple):
    """The part of a shard's batches that a worker reads, such as from 0 to 1/3 of its rows."""

    shard: int
    begin: Fraction
    end: Fraction

    def bounds(self, rows: Any) -> tuple[Any, Any]:
        """The first row, and the row after the last one, of a batch with `rows` rows.

        Args:
          rows: an integer, or an integer tensor.
        """
        begin = rows * self.begin.numerator // self.begin.denominator
        return begin, rows * self.end.numerator // self.end.denominator


def parts_of(worker: int, workers: int, shards: int) -> list[Part]:
    """The parts of the shards that a worker reads. All workers together read all shards."""
    first, last = Fraction(worker * shards, workers), Fraction((worker + 1) * shards, workers)
    return [
        Part(shard, max(first - shard, Fraction(0)), min(last - shard, Fraction(1)))
        for shard in range(math.floor(first), math.ceil(last))
    ]


def weight_of(worker: int, workers: int, shards: int, batch_size: int) -> Fraction:
    """The number of rows of a worker, relative to the mean over the workers.

    Args:
      batch_size: the rows of a batch of each shard.
    """
    bounds = [part.bounds(batch_size) for part in parts_of(worker, workers, shards)]
    return Fraction(sum(end - begin for begin, end in bounds) * workers, batch_size * shards)


def share(read: ReadShard, context: Any, shards: int) -> Any:
    """The dataset, or the tensors, of a worker: its rows of each global batch.

    Args:
      read: called for each shard that the worker needs, with an `InputContext` of that shard.
      context: the `InputContext` of this worker.
      shards: the number of workers of the largest group.
    """
    workers = context.num_input_pipelines
    if workers == shards:
        return read(context)
    parts = parts_of(context.input_pipeline_id, workers, shards)
    found = [read(tf.distribute.InputContext(shards, part.shard, shards)) for part in parts]

    def cut(*batches: Any) -> Any:
        return concat([rows_of(batch, part) for batch, part in zip(batches, parts, strict=True)])

    if all(isinstance(data, tf.data.Dataset) for data in found):
        return tf.data.Dataset.zip(tuple(found)).map(cut).prefetch(PREFETCHED)
    return cut(*found)


def take_turns(read: ReadShard, context: Any, shards: int, batches_done: int) -> Any:
    """The batches of a worker, which takes every K-th batch of all shards if there are K workers.

    Args:
      read: called for each shard, with its `InputContext`. The dataset must not end.
      context: the `InputContext` of this worker.
      shards: the number of workers of the largest group.
      batches_done: the number of batches that all workers have read together.
    """
    found = [read(tf.distribute.InputContext(shards, shard, shards)) for shard in range(shards)]
    order = tf.data.Dataset.range(shards).repeat()
    batches = tf.data.Dataset.choose_from_datasets(found, order, stop_on_empty_dataset=True)
    workers, index = context.num_input_pipelines, context.input_pipeline_id
    return batches.skip(batches_done).shard(workers, index).prefetch(PREFETCHED)


def rows_of(batch: Any, part: Part) -> Any:
    """A part of the rows of all tensors of a batch. Scalars remain as they are."""
    if part.begin == 0 and part.end == 1:
        return batch

    def cut(tensor: Any) -> Any:
        if tensor.shape.rank == 0:
            return tensor
        if isinstance(tensor, tf.SparseTensor):
            begin, end = part.bounds(tensor.dense_shape[0])
            rest = tensor.dense_shape[1:]
            start = tf.concat([[begin], tf.zeros_like(rest)], 0)
            return tf.sparse.slice(tensor, start, tf.concat([[end - begin], rest], 0))
        begin, end = part.bounds(_rows(tensor))
        return tensor[begin:end]

    return tf.nest.map_structure(cut, batch)


def concat(batches: list[Any]) -> Any:
    """Concatenates the rows of several batches that have the same structure."""

    def join(*tensors: Any) -> Any:
        first = tensors[0]
        if len(tensors) == 1 or first.shape.rank == 0:
            return first
        if isinstance(first, tf.SparseTensor):
            return tf.sparse.concat(0, list(tensors), expand_nonconcat_dims=True)
        return tf.concat(tensors, 0)

    return tf.nest.map_structure(join, *batches)


def _rows(tensor: Any) -> Any:
    if isinstance(tensor, tf.RaggedTensor):
        return tensor.nrows()
    static = tensor.shape[0]
    return tf.shape(tensor)[0] if static is None else static
