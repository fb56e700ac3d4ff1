"""The files that each worker opens, and the examples that it reads and trains on, by policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from helpers import labels
from helpers.course.charts.plot import WIDTH, written
from helpers.course.charts.shards import COLORS
from helpers.course.charts.svg import Drawing, text
from helpers.course.simulations.autoshard import POLICIES, Files, Reading, readings
from helpers.course.simulations.controls import buttons, slider
from helpers.course.simulations.simulation import Simulation, View
from helpers.i18n import _, join_phrases, join_sentences, ngettext

LEFT = 150  # pixels for the names of the rows
GAP = 8  # pixels between two files
MAX_WIDTH = 34.0  # pixels of a cell
CELL, ROW = 22, 50  # pixels: the height of a cell, and of a worker
FIRST = 78  # the top pixel of the first worker's cells
TEXT_COLORS = "#ffffff", "#111111", "#111111", "#111111"  # legible on each of COLORS


def simulation() -> Simulation:
    """The data that each worker reads from files, by policy, files, workers and batch."""
    orders = {_("before sharding"): True, _("after it"): False}
    return Simulation(
        _("Data that each worker reads"),
        draw,
        {
            "policy": buttons(_("Auto-shard policy"), {policy: policy for policy in POLICIES}),
            "batched": buttons(_("Batches are created"), orders),
            "workers": slider(_("Workers"), range(1, 5), 2),
            "files": slider(_("Files"), range(1, 7), 4),
            "per_file": slider(_("Examples per file"), range(1, 6), 4),
            "batch": slider(_("Batch per worker, examples"), range(1, 5), 2),
        },
    )


def draw(
    *, policy: str, batched: bool, workers: int, files: int, per_file: int, batch: int
) -> View:
    """A row per worker with the examples that it reads and the steps that use them, and a text.

    Args:
      policy, batched, workers, batch: arguments of `readings`.
      files, per_file: fields of `Files`.
    """
    dataset = Files(files, per_file)
    found = readings(dataset, workers, batch, policy, batched)
    sentence = _sentence(dataset, workers, policy, found)
    words = [_refusal(dataset, w) for w in range(workers)] if found is None else map(_counts, found)
    body = "".join(_rows(dataset, found or [Reading([], [], [])] * workers, list(words)))
    return View(Drawing(WIDTH, FIRST + ROW * workers + 58, body, sentence), sentence)


def _sentence(dataset: Files, workers: int, policy: str, found: Sequence[Reading] | None) -> str:
    if found is None:
        message = ngettext(
            "TensorFlow raises an error, because it cannot split {files} among {workers} worker. "
            "AUTO fails in the same way, because it means FILE if the dataset reads files. Use "
            "more files, or DATA.",
            "TensorFlow raises an error, because it cannot split {files} among {workers} workers. "
            "AUTO fails in the same way, because it means FILE if the dataset reads files. Use "
            "more files, or DATA.",
            workers,
        )
        return message.format(files=labels.files(dataset.files), workers=workers)
    read = sum(len(one.examples) for one in found)
    opened = _("{policy}: together, the workers open {files} and read {examples}.").format(
        policy=policy,
        files=labels.files(sum(len(one.files) for one in found)),
        examples=labels.examples(read),
    )
    return join_sentences([opened, _duplicates(dataset, found, read), _evenness(found)])


def _duplicates(dataset: Files, found: Sequence[Reading], read: int) -> str:
    """The examples used for training more than once, and the number of discarded reads."""
    trained = sum(len(one.trained) for one in found)
    times, wasted = trained // dataset.examples, read - trained
    if trained > dataset.examples:
        message = ngettext(
            "The dataset has {examples}, and an epoch trains on each of them {times} time.",
            "The dataset has {examples}, and an epoch trains on each of them {times} times.",
            times,
        )
    elif read > trained:
        message = ngettext(
            "The dataset has {examples}. Each is trained on once, and {wasted} other read is "
            "discarded.",
            "The dataset has {examples}. Each is trained on once, and the other {wasted} reads are "
            "discarded.",
            wasted,
        )
    else:
        message = _("Each is read by one worker, and trained on once.")
    examples = labels.examples(dataset.examples)
    return message.format(examples=examples, times=times, wasted=wasted)


def _evenness(found: Sequence[Reading]) -> str:
    """The number of examples and steps of each worker."""
    counts = [len(one.trained) for one in found]
    steps = [sum(map(bool, one.steps)) for one in found]
    if min(counts) == max(counts):
        message = _("All workers get the same: {examples}, {steps}.")
        return message.format(examples=labels.examples(counts[0]), steps=labels.steps(steps[0]))
    message = _("The shards are uneven: one worker gets {most}, another {least}, and waits.")
    most, least = counts.index(max(counts)), counts.index(min(counts))
    return message.format(
        most=join_phrases([labels.examples(counts[most]), labels.steps(steps[most])]),
        least=join_phrases([labels.examples(counts[least]), labels.steps(steps[least])]),
    )


def _refusal(dataset: Files, worker: int) -> str:
    """The outcome for a worker if there are fewer files than workers."""
    return "InvalidArgumentError" if worker < dataset.files else _("no file, and no error")


def _counts(one: Reading) -> str:
    files = _("opens {files}").format(files=labels.files(len(one.files)))
    examples = _("reads {examples}").format(examples=labels.examples(len(one.examples)))
    trained = _("trains on {count}").format(count=len(one.trained))
    return join_phrases([files, examples, trained])


def _rows(dataset: Files, found: Sequence[Reading], words: Sequence[str]) -> Iterator[str]:
    """The rows of files and their opens, examples, workers, and the uses of each example."""
    width = (WIDTH - LEFT - 4 - GAP * (dataset.files - 1)) / dataset.examples
    width = min(width, MAX_WIDTH)
    places = {
        example: LEFT + example * width + file * GAP
        for file in range(dataset.files)
        for example in dataset.of(file)
    }
    opened = Counter(file for one in found for file in one.files)
    trained = Counter(example for one in found for example in one.trained)
    for level, name in ((14, _("file")), (36, _("times opened")), (64, _("example"))):
        yield text(0, level, name, opacity=0.8)
    for file in range(dataset.files):
        middle = (places[dataset.of(file)[0]] + places[dataset.of(file)[-1]] + width) / 2
        yield text(middle, 14, str(file), anchor="middle", weight=600)
        yield text(middle, 36, str(opened[file]), anchor="middle")
        left, wide = places[dataset.of(file)[0]], width * dataset.per_file
        yield f'<path d="M{left + 1:.1f} 48v-6H{left + wide - 2:.1f}v6" fill="none" {_EDGE}/>'
    last = FIRST + ROW * len(found)
    yield text(0, last + 10, _("times trained on"), opacity=0.8)
    for example, place in places.items():
        middle = place + width / 2
        yield text(middle, 64, str(example), anchor="middle", size=11, opacity=0.8)
        times = trained[example]
        weight = 400 if times == 1 else 700
        yield text(middle, last + 10, str(times), anchor="middle", size=11, weight=weight)
    for worker, one in enumerate(found):
        yield from _worker(worker, one, places, width)
        yield text(LEFT, FIRST + ROW * worker + CELL + 14, words[worker], size=11, opacity=0.8)
    yield from _key(last + 40)


_EDGE = 'stroke="currentColor" opacity="0.5"'


def _worker(worker: int, one: Reading, places: dict[int, float], width: float) -> Iterator[str]:
    """One worker's cells: filled with a step number, dashed, or a point."""
    top = FIRST + ROW * worker
    yield text(0, top + 15, _("worker {number}").format(number=worker), weight=600)
    steps = {example: k for k, step in enumerate(one.steps, 1) for example in step}
    read = set(one.examples)
    for example, place in places.items():
        if example in steps:
            yield _full(place, top, width, worker, str(steps[example]))
        elif example in read:
            yield _dashed(place, top, width, worker)
        else:
            yield f'<circle cx="{place + width / 2:.1f}" cy="{top + 11}" r="1.5" opacity="0.4"/>'


def _full(x: float, y: float, width: float, worker: int, step: str) -> str:
    color, ink = COLORS[worker], TEXT_COLORS[worker]
    return (
        f'<rect x="{x + 1:.1f}" y="{y}" width="{width - 2:.1f}" height="{CELL}" rx="3" '
        f'fill="{color}"/>'
    ) + written(x + width / 2, y + 15, step, ink, anchor="middle", size=11)


def _dashed(x: float, y: float, width: float, worker: int) -> str:
    return (
        f'<rect x="{x + 1.5:.1f}" y="{y + 0.5}" width="{width - 3:.1f}" height="{CELL - 1}" rx="3" '
        f'fill="{COLORS[worker]}" fill-opacity="0.1" stroke="{COLORS[worker]}" '
        'stroke-dasharray="3 2"/>'
    )


def _key(y: float) -> Iterator[str]:
    """The legend of the cells."""
    yield _full(0, y - 15, 24, 0, "1")
    yield text(32, y, _("trained on, in this step"))
    yield _dashed(250, y - 15, 24, 0)
    yield text(282, y, _("read and discarded"))
    yield f'<circle cx="{530}" cy="{y - 4}" r="1.5" opacity="0.6"/>'
    yield text(542, y, _("not read"))
