"""Trains while machines are lost, preempted and returned at random, and counts every example.

    python -m benchmarks.elastic            # an Estimator and Keras 3
    python -m benchmarks.elastic --keras    # only Keras 3
    python -m benchmarks.elastic --quick    # 4 changes on one seed of an Estimator, no speeds

Each of 3 seeds makes 10 changes, with 2, 3 and 4 workers respectively. Each seed is trained
undisturbed, with the changes, and undisturbed by a fixed group of each smaller size with the same
global batch. Each step must train on the examples of the undisturbed run, and each epoch on every
example once. The final loss must differ from that of the undisturbed run by no more than the
undisturbed runs of the seeds differ from each other. A group that has shrunk must reach 0.9 of the
steps per second of the fixed group of its size. Otherwise, or if a run exceeds its time limit, the
exit code is 1.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import RESULTS
from benchmarks.machine import describe
from helpers import LocalCluster
from helpers.errors import StoppedError
from helpers.protocol.events import Event
from helpers.worker.context import WorkerContext

BATCH_SIZE = 64  # of each worker of the largest group
STEPS_PER_EPOCH = 50
SAVE = 25
LIMIT_SECONDS = 900.0  # per run, after which it counts as a hang
WARM_UP_SECONDS = 1.0  # of each attempt, not measured
MIN_STEPS_PER_SECOND = 0.9  # of a fixed group of the same size
Examples = dict[int, list[int]]


@dataclass(frozen=True)
class Change:
    """A change at `step` or later: "lose" or "preempt" a worker, or "return" the last one."""

    step: int
    kind: str
    worker: int = 0


@dataclass
class Run:
    """The result of one run.

    Attributes:
      sizes: the number of workers of each attempt.
      speeds: steps per second by the number of workers.
    """

    loss: float = float("nan")
    seconds: float = 0.0
    hung: bool = False
    changes_done: int = 0
    sizes: list[int] = field(default_factory=list)
    speeds: dict[int, float] = field(default_factory=dict)


@dataclass
class Outcome:
    """The result of one seed. `ratios` are relative to fixed groups, by the number of workers."""

    seed: int
    api: str
    workers: int
    changes: list[Change]
    undisturbed: Run
    disturbed: Run
    same_steps: bool
    each_once: bool
    ratios: dict[int, float]

    @property
    def passed(self) -> bool:
        """Whether nothing hung, all changes were made, all steps agree, and the speed suffices."""
        done = self.disturbed.changes_done == len(self.changes) and not self.disturbed.hung
        fast = all(ratio >= MIN_STEPS_PER_SECOND for ratio in self.ratios.values())
        return done and self.same_steps and self.each_once and fast


def plan(seed: int, count: int, workers: int, min_workers: int, steps: int) -> list[Change]:
    """Draws a valid sequence of changes, spread over the run."""
    random, present, changes = Random(seed), workers, []
    for number in range(count):
        step = int((number + random.uniform(0.3, 0.7)) * 0.9 * steps / count)
        shrinks = present == workers or (present > min_workers and random.random() < 0.5)
        kind = random.choice(["lose", "preempt"]) if shrinks else "return"
        changes.append(Change(step, kind, random.randrange(present)))
        present += -1 if shrinks else 1
    return changes


class Driver:
    """Makes the changes one after another, and measures the attempts."""

    def __init__(self, cluster: LocalCluster, changes: list[Change]) -> None:
        self._cluster, self._left = cluster, list(changes)
        self._gone: list[tuple[str, str]] = []  # kinds and tasks, the last one returns first
        self._size, self._is_pending = cluster.workers, False
        self._points: dict[int, list[tuple[float, int]]] = defaultdict(list)
        self.run = Run(sizes=[cluster.workers])

    def on_event(self, event: Event) -> None:
        """Processes one event, and may make the next change."""
        if event["event"] == "group_resized":
            self._size, self._is_pending = event["workers"], False
            self.run.changes_done += 1
        if event["event"] == "group_restart":
            self.run.sizes.append(self._size)
        if event["event"] == "group_resized":
            self.run.sizes[-1] = self._size
        if event["event"] == "step" and event["task"] == "worker 0":
            self._points[event["attempt"]].append((event["time"], event["step"]))
            if self._left and not self._is_pending and event["step"] >= self._left[0].step:
                self._is_pending = True
                self._make(self._left.pop(0))

    def _make(self, change: Change) -> None:
        task = f"worker {change.worker}"
        if change.kind == "return":
            kind, task = self._gone.pop()
            if kind == "lose":
                self._cluster.clear_fault("node_loss", task)
            else:
                self._cluster.resize(self._size + 1 + sum(k == "lose" for k, _t in self._gone))
            return
        self._gone.append((change.kind, task))
        self._cluster.inject_fault("node_loss" if change.kind == "lose" else "preempt", task)

    def finish(self) -> Run:
        """Computes the speeds."""
        measured: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for attempt, points in self._points.items():
            warm = [one for one in points if one[0] - points[0][0] > WARM_UP_SECONDS]
            if len(warm) > 1:
                total = measured[self.run.sizes[attempt]]
                total[0] += warm[-1][1] - warm[0][1]
                total[1] += warm[-1][0] - warm[0][0]
        self.run.speeds = {
            size: steps / seconds for size, (steps, seconds) in measured.items() if seconds > 1
        }
        return self.run


def counted_input_fn(mode: str, params: Mapping[str, Any], input_context: Any = None) -> Any:
    """Images with their numbers, shuffled in each epoch."""
    import tensorflow as tf

    from helpers.course.data import load

    images = load("train" if mode == "train" else "test").take(params["examples"]).enumerate()
    if mode == "train" and input_context:
        images = images.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    if mode == "train":
        images = images.cache().shuffle(params["examples"], seed=params["seed"])

    def scaled(number: Any, example: Any) -> Any:
        image, label = example
        return {"number": number, "image": tf.cast(image, tf.float32) / 255}, label

    batches = images.batch(params["batch_size"], drop_remainder=mode == "train").map(scaled)
    return batches.prefetch(2)


def counted_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """The lessons' network."""
    from helpers.course.model import model_fn
    from helpers.estimator import tf

    images = features["image"]
    if mode == "train" and tf.distribute.has_strategy():
        step = tf.compat.v1.train.get_or_create_global_step()
        images = noted(params["log"], step, features["number"], images)
    return model_fn(images, labels, mode, params)


def noted(log: str, step: Any, numbers: Any, images: Any) -> Any:
    """Writes the numbers of the examples to a file of this attempt, and returns the images."""
    import tensorflow as tf

    task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    attempt = Path(os.environ["TMPDIR"]).name.rpartition("-")[2]

    def write(step: Any, numbers: Any) -> Any:
        with open(f"{log}/{attempt}-{task}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps([int(step), numbers.tolist()]) + "\n")
        return step

    written = tf.numpy_function(write, [tf.cast(step, tf.int64), numbers], tf.int64)
    with tf.control_dependencies([written]):
        return tf.identity(images)


def fit(context: WorkerContext, params: Mapping[str, Any], epochs: int, backup: str) -> float:
    """Trains the lessons' network with Keras 3, and returns the loss on the test images."""
    import keras
    import tensorflow as tf

    from helpers.course.model import make_network
    from helpers.keras_callbacks import BackupAndRestore, StepReportCallback

    class Counted(keras.Model):
        """The network, which records the numbers of the examples."""

        def __init__(self) -> None:
            super().__init__()
            self.network = make_network()

        def call(self, inputs: Any, training: bool = False) -> Any:
            """The logits."""
            images = inputs["image"]
            if training:
                step = tf.convert_to_tensor(self.optimizer.iterations)
                images = noted(params["log"], step, inputs["number"], images)
            return self.network(images)

    keras.utils.set_random_seed(params["seed"])
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = Counted()
        model({"number": tf.zeros([1], tf.int64), "image": tf.zeros([1, 28, 28, 1])})
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss)
    global_batch = params["examples"] // STEPS_PER_EPOCH
    read = functools.partial(counted_input_fn, "train", params)
    model.fit(
        strategy.distribute_datasets_from_function(context.constant_global_batch(read)),
        epochs=epochs,
        verbose=0,
        callbacks=[
            BackupAndRestore(context, backup, SAVE),
            StepReportCallback(context, global_batch),
        ],
    )
    return float(model.evaluate(counted_input_fn("eval", params), verbose=0))


def train(
    api: str, seed: int, workers: int, epochs: int, folder: Path, **options: Any
) -> tuple[Run, Examples]:
    """Runs once.

    Args:
      options: of this run: `min_workers`, `changes`, and `batch_size` of each worker.
    """
    log = folder / "log"
    log.mkdir(parents=True)
    batch_size = options.get("batch_size", BATCH_SIZE)
    examples = options.get("examples", workers * BATCH_SIZE * STEPS_PER_EPOCH)
    params = {"batch_size": batch_size, "seed": seed, "log": str(log), "examples": examples}
    cluster = LocalCluster(
        workers, min_workers=options.get("min_workers"), collective="RING", max_restarts=1
    )
    driver = Driver(cluster, options.get("changes", []))
    limit = threading.Timer(LIMIT_SECONDS, cluster.stop)
    limit.start()
    began = time.monotonic()
    try:
        with cluster, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about each change of the size
            if api == "Estimator":
                result = cluster.train(
                    counted_model_fn,
                    counted_input_fn,
                    epochs=epochs,
                    params=params,
                    model_dir=folder / "model",
                    save_checkpoints_steps=SAVE,
                    on_event=driver.on_event,
                    progress=False,
                )
                driver.run.loss = result.evaluation["loss"]
            else:
                work = functools.partial(
                    fit, params=params, epochs=epochs, backup=str(folder / "backup")
                )
                driver.run.loss = cluster.run(work, keras=3, on_event=driver.on_event)[0]
    except StoppedError:
        driver.run.hung = True
    finally:
        limit.cancel()
    driver.run.seconds = time.monotonic() - began
    return driver.finish(), examples_of_steps(log)


def examples_of_steps(log: Path) -> Examples:
    """The sorted examples of each step, from the last attempt that trained it."""
    attempts: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for path in log.glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            step, numbers = json.loads(line)
            attempts[int(path.name.partition("-")[0])][step] += numbers
    steps: Examples = {}
    for _number, found in sorted(attempts.items()):
        steps |= {step: sorted(numbers) for step, numbers in found.items()}
    return steps


def each_once(steps: Examples, epochs: int, examples: int) -> bool:
    """Whether every epoch has each example once."""
    counts = [Counter[int]() for _epoch in range(epochs)]
    for step, numbers in steps.items():
        counts[step // STEPS_PER_EPOCH].update(numbers)
    return all(count == Counter(range(examples)) for count in counts)


def try_seed(api: str, seed: int, count: int, epochs: int, *, speeds: bool) -> Outcome:
    """Trains one seed without and with changes, and with fixed groups of the smaller sizes.

    Args:
      speeds: whether to run the fixed groups, for their speeds.
    """
    workers = 2 + (seed - 1) % 3
    min_workers = max(1, workers - 2)
    changes = plan(seed, count, workers, min_workers, epochs * STEPS_PER_EPOCH)
    examples = workers * BATCH_SIZE * STEPS_PER_EPOCH
    run = functools.partial(train, api, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        undisturbed, right = run(workers, epochs, folder / "calm")
        options = {"min_workers": min_workers, "changes": changes}
        disturbed, found = run(workers, epochs, folder / "wild", **options)
        ratios = {}
        for size in sorted(disturbed.speeds):
            if speeds and size < workers:
                share = {"batch_size": workers * BATCH_SIZE // size, "examples": examples}
                fixed, _steps = run(size, max(4, epochs // 3), folder / f"{size}", **share)
                ratios[size] = disturbed.speeds[size] / fixed.speeds[size]
    once = each_once(found, epochs, examples)
    same = found == right
    return Outcome(seed, api, workers, changes, undisturbed, disturbed, same, once, ratios)


def table(outcomes: list[Outcome]) -> str:
    """Formats the outcomes as Markdown, a row for each seed."""
    lines = [
        "| | seed | workers | changes | sizes | hung | steps with the same examples | each example "
        "once per epoch | loss, undisturbed | loss | steps/s while shrunk, relative to a fixed "
        "group |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        ratios = ", ".join(f"{size}: {ratio:.2f}" for size, ratio in sorted(o.ratios.items()))
        lines.append(
            f"| {o.api} | {o.seed} | {o.workers} | {o.disturbed.changes_done} of {len(o.changes)} "
            f"| {' '.join(map(str, o.disturbed.sizes))} | {'YES' if o.disturbed.hung else 'no'} "
            f"| {'all' if o.same_steps else 'NO'} | {'yes' if o.each_once else 'NO'} "
            f"| {o.undisturbed.loss:.6f} | {o.disturbed.loss:.6f} | {ratios or '—'} |"
        )
    return "\n".join(lines) + "\n"


def losses_agree(outcomes: list[Outcome]) -> bool:
    """Whether no change moved the loss by more than another seed does."""
    for api in {outcome.api for outcome in outcomes}:
        own = [outcome for outcome in outcomes if outcome.api == api]
        calm = [outcome.undisturbed.loss for outcome in own]
        spread = max(calm) - min(calm) if len(calm) > 1 else 0.05 * calm[0]
        if not all(abs(o.disturbed.loss - o.undisturbed.loss) <= spread for o in own):
            return False
    return True


def main() -> int:
    """Runs the seeds and writes elastic.json and elastic.md. Returns 0 if all passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--changes", type=int, default=10, help="number for each seed")
    parser.add_argument("--epochs", type=int, default=60, help=f"of {STEPS_PER_EPOCH} steps")
    parser.add_argument("--keras", action="store_true", help="only Keras 3")
    parser.add_argument("--quick", action="store_true", help="4 changes on one seed")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    apis = ["Keras 3"] if args.keras else ["Estimator", "Keras 3"]
    if args.quick:
        args.seeds, args.changes, args.epochs, apis = [2], 4, 20, apis[:1]
    outcomes = []
    for api in apis:
        for seed in args.seeds:
            speeds = not args.quick
            outcomes.append(try_seed(api, seed, args.changes, args.epochs, speeds=speeds))
            print(table(outcomes[-1:]), flush=True)
    report = {"machine": describe(None), "outcomes": [asdict(o) for o in outcomes]}
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "elastic.json").write_text(json.dumps(report, indent=2) + "\n")
    (args.output / "elastic.md").write_text(table(outcomes))
    return 0 if all(o.passed for o in outcomes) and losses_agree(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
