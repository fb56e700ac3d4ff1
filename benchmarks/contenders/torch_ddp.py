"""PyTorch DistributedDataParallel over gloo: our network, batch and learning rate.

The data is in memory as one tensor, already decoded. This spares PyTorch the input pipeline that
the TensorFlow programs have to run.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import distributed, nn

from benchmarks.contenders.report import Arguments, Report, StepClock, own_peaks

WARM_UP_STEPS = 100  # as in helpers.course.model.learning_rate


def make_network() -> nn.Module:
    """Images [batch, 1, 28, 28] to logits [batch, 10], with 347,146 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(5408, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def load(args: Arguments, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images, uint8 [examples, 1, 28, 28], and labels, int64 [examples]."""
    assert args.mnist is not None
    with np.load(args.mnist) as arrays:
        images = torch.from_numpy(arrays[f"{split}_images"]).permute(0, 3, 1, 2).contiguous()
        return images, torch.from_numpy(arrays[f"{split}_labels"])


def batches(args: Arguments) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields shuffled batches of this worker's shard, forever."""
    images, labels = (part[args.rank :: args.workers] for part in load(args, "train"))
    random = torch.Generator().manual_seed(args.rank)
    while True:
        order = torch.randperm(len(images), generator=random)
        for chosen in order.split(args.batch_size)[: args.steps_per_epoch]:
            yield images[chosen].float().div_(255), labels[chosen]


def train(args: Arguments, network: nn.Module, clock: StepClock) -> None:
    """Trains the network on all workers."""
    model: Any = network
    if args.workers > 1:
        model = nn.parallel.DistributedDataParallel(network)
    base = args.learning_rate * args.global_batch / 64
    optimizer = torch.optim.SGD(model.parameters(), lr=base, momentum=args.momentum)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / WARM_UP_STEPS)
    )
    loss_of = nn.CrossEntropyLoss()
    for images, labels in itertools.islice(batches(args), args.steps):
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(images), labels).backward()
        optimizer.step()
        schedule.step()
        clock.tick()


def evaluate(args: Arguments, network: nn.Module) -> float:
    """Accuracy on the test split."""
    images, labels = load(args, "test")
    hits = 0
    with torch.no_grad():
        for part, truth in zip(images.split(1000), labels.split(1000), strict=True):
            guesses = network(part.float().div_(255)).argmax(1)
            hits += int((guesses == truth).sum())
    return hits / len(labels)


def main() -> None:
    """Trains. Rank 0 then evaluates and reports."""
    args = Arguments.parse()
    torch.set_num_threads(max(1, torch.get_num_threads() // args.workers))
    torch.manual_seed(0)
    if args.workers > 1:
        distributed.init_process_group("gloo", rank=args.rank, world_size=args.workers)
    network, clock = make_network(), StepClock()
    train(args, network, clock)
    report = Report(peaks=own_peaks())
    if args.rank == 0:
        accuracy = evaluate(args, network)
        report = Report(args.global_batch, clock.marks, own_peaks(), accuracy, time.time())
    report.save(args.folder, args.rank)
    if args.workers > 1:
        distributed.barrier()  # if a peer left first, this process would abort
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
