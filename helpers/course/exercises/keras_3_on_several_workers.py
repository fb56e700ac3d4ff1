"""The tasks of lesson 12: a port to Keras 3, the weight of an example, the worker that saves."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.compare import compare
from helpers.course.criteria import (
    CheckFailed,
    Criterion,
    Exercise,
    expect,
    join_numbers,
    same_shape_and_close,
)
from helpers.errors import ClusterError, ConfigError, UserCodeError
from helpers.i18n import _, gettext_noop, ngettext, number

if TYPE_CHECKING:
    from helpers.worker.context import WorkerContext

Case = Mapping[str, Any]
RATE = 0.05  # the learning rate of the task `ported`
DIVERGED = ("DivergedError", "DifferentWeightsError")  # of helpers.keras_3.agreement


def _examples(case: Case, workers: int) -> tuple[Any, Any]:
    """The inputs and targets of all steps of all workers, in order."""
    random = np.random.default_rng(case["seed"])
    inputs = random.normal(size=(case["steps"] * case["per_worker"] * workers, 3))
    targets = inputs @ [[1.0], [-2.0], [0.5]] + random.normal(size=(len(inputs), 1))
    return inputs.astype("float32"), targets.astype("float32")


def _train(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The results of one and of two real workers on the same global batches, with Keras 3.

    Returns: the replicas and the weights of each of two workers, and the sentence of
      `helpers.compare` on their difference from one worker, if any.
    """
    inputs, targets = _examples(case, workers=2)

    def train(context: WorkerContext) -> dict[str, Any]:
        model = answer(inputs, targets, 2 * case["per_worker"] // len(context.config.tasks))
        weights = np.concatenate([weight.ravel() for weight in model.get_weights()])
        return {"replicas": model.distribute_strategy.num_replicas_in_sync, "weights": weights}

    found = compare(train, workers=(1, 2), timeout=60)
    for run in found.runs:
        if run.error:
            place = {"task": "worker 0", "traceback": "", "exception_type": run.raised}
            raise UserCodeError(run.error, **place)
    returned = [record["returned"] for record in found.runs[1].records]
    return {
        "replicas": [one["replicas"] for one in returned],
        "weights": [one["weights"] for one in returned],
        "difference": "" if found.equal else found.sentences()[0],
    }


def _weights_of_one_worker(case: Case, workers: int = 2) -> Any:
    """The kernel and bias after one epoch of gradient descent on the global batches, from zeros."""
    inputs, targets = (array.astype("float64") for array in _examples(case, workers))
    inputs = np.hstack([inputs, np.ones([len(inputs), 1])])
    weights = np.zeros([inputs.shape[1], 1])
    batch = case["per_worker"] * workers
    for start in range(0, len(inputs), batch):
        x, y = inputs[start : start + batch], targets[start : start + batch]
        weights -= RATE * 2 / batch * x.T @ (x @ weights - y)
    return weights.ravel()


def _agree(seen: dict[str, Any], case: Case) -> None:
    expect(
        seen["replicas"] == [2, 2],
        expected=_("2 replicas in sync, in both workers"),
        found=seen["replicas"],
        hint=_("What makes the workers one group in the lesson's program?"),
    )


def _is_equal(seen: dict[str, Any], case: Case) -> None:
    wanted = _weights_of_one_worker(case)
    hint = _("How many examples does the whole group train on in one step, and in what order?")
    expect(
        not seen["difference"],
        expected=_("two workers that compute the same results as one worker"),
        found=seen["difference"],
        hint=hint,
    )
    expect(
        same_shape_and_close(seen["weights"], [wanted, wanted], atol=1e-4),
        expected=_("{weights}, the weights that one worker would get").format(
            weights=join_numbers(wanted)
        ),
        found=join_numbers(np.ravel(seen["weights"])),
        hint=hint,
    )


def _weigh(answer: Callable[..., Any], case: Case) -> list[float]:
    """The weight of an example of each worker, according to the answer."""
    return [float(share) for share in answer(case["global_batch"], case["workers"])]


@functools.cache
def _measure(workers: int, *, examples: int) -> list[float]:
    """The weight of each example in a custom training loop that follows the rule of Keras."""

    def gradient() -> list[float]:
        from helpers.either_keras import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        # Each example's output is a separate variable, whose gradient is the example's weight.
        data = tf.data.Dataset.from_tensor_slices(np.eye(examples, dtype="float32"))
        batches = strategy.experimental_distribute_dataset(data.batch(examples))
        with strategy.scope():
            weights = tf.Variable(tf.zeros([examples, 1]))

        def count(batch: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(batch @ weights)
            context = tf.distribute.get_replica_context()
            return context.all_reduce("MEAN", tape.gradient(loss, weights))

        [counted] = [strategy.run(tf.function(count), args=(batch,)) for batch in batches]
        return strategy.experimental_local_results(counted)[0].numpy().ravel().tolist()

    with LocalCluster(workers) as cluster:
        [shares, *_others] = cluster.run(gradient, timeout=60, keras=3)
    return list(shares)


def _sizes(case: Case) -> list[int]:
    """The number of examples per worker, where the first workers get the remainder."""
    part, left = divmod(case["global_batch"], case["workers"])
    return [part + (worker < left) for worker in range(case["workers"])]


def _adds_up(found: list[float], case: Case) -> None:
    sizes = _sizes(case)
    expect(
        len(found) == len(sizes),
        expected=ngettext(
            "a list of {count} number", "a list of {count} numbers", len(sizes)
        ).format(count=len(sizes)),
        found=found,
        hint=_("One number for each worker: the weight of one of its examples."),
    )
    total = sum(share * size for share, size in zip(found, sizes, strict=True))
    expect(
        abs(total - 1) < 1e-6,
        expected=ngettext(
            "1 as the sum over {count} example",
            "1 as the sum over all {count} examples",
            sum(sizes),
        ).format(count=sum(sizes)),
        found=number(total, ".4g"),
        hint=_("How many examples does each worker get if a batch is split as evenly as possible?"),
    )


def _is_real(found: list[float], case: Case) -> None:
    counted = _measure(case["workers"], examples=case["global_batch"])
    real = [counted[start] for start in np.cumsum([0, *_sizes(case)[:-1]])]
    expect(
        same_shape_and_close(found, real, atol=1e-6),
        expected=_("{shares}, their weights on real workers").format(shares=join_numbers(real)),
        found=join_numbers(found),
        hint=_("Each worker computes the mean over its part. What happens to these means next?"),
    )


def _finish(answer: Callable[..., Any], case: Case) -> list[dict[str, Any]]:
    """The loss that each of two real workers returns, and its number of saves."""
    with tempfile.TemporaryDirectory() as folder, LocalCluster(2, max_restarts=0) as cluster:
        path = str(Path(folder) / "model.keras")
        work = functools.partial(_finish_in_worker, answer, case["examples"], path)
        try:
            seen = cluster.run(work, timeout=case["seconds"], keras=3)
        except (ClusterError, ConfigError) as error:
            if isinstance(error, UserCodeError) and error.exception_type not in DIVERGED:
                raise
            raise CheckFailed(
                _("two workers that finish"),
                str(error).strip().splitlines()[-1],
                _("Which of the two calls needs the other worker?"),
            ) from error
        return [report | {"there": Path(path).exists()} for report in seen]


def _finish_in_worker(
    answer: Callable[..., Any], examples: int, path: str, context: WorkerContext
) -> dict[str, Any]:
    import keras

    from helpers.either_keras import tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        layers = [keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")]
        model = keras.Sequential(layers)
        model.compile("sgd", "mse")
    saved: list[Any] = []
    save = model.save

    def note(*args: Any, **kwargs: Any) -> None:
        saved.append(args)
        save(*args, **kwargs)

    model.save = note
    values = np.arange(examples, dtype="float32")[:, None] / examples
    data = tf.data.Dataset.from_tensor_slices((values, 2 * values)).batch(examples)
    loss = answer(model, data, path, context.config.task == context.config.chief)
    return {"loss": None if loss is None else float(loss), "saved": len(saved)}


def _both_know(seen: list[dict[str, Any]], case: Case) -> None:
    values = np.arange(case["examples"]) / case["examples"]
    wanted = float((values**2).mean())
    losses = [report["loss"] for report in seen]
    expect(
        len(losses) == 2 and all(loss is not None and abs(loss - wanted) < 1e-5 for loss in losses),
        expected=_("a loss of {loss} in both workers").format(loss=number(wanted, ".4f")),
        found=losses if None in losses else join_numbers(losses),
        hint=_("evaluate returns the mean over all workers. Which of them have to call it?"),
    )


def _one_saves(seen: list[dict[str, Any]], case: Case) -> None:
    expect(
        seen[0]["there"] and [report["saved"] for report in seen] == [1, 0],
        expected=_("saved once by worker 0, and not by worker 1"),
        found=_("saved {first} by worker 0, and {second} by worker 1").format(
            first=labels.times(seen[0]["saved"]), second=labels.times(seen[1]["saved"])
        ),
        hint=_("Two workers that write to the same file corrupt it."),
    )


EXERCISES = {
    "ported": Exercise(
        _train,
        (
            Criterion(1, gettext_noop("It trains two workers as one group."), _agree),
            Criterion(
                2, gettext_noop("They get the weights that one worker would get."), _is_equal
            ),
        ),
        {"seed": 1, "steps": 6, "per_worker": 4},
    ),
    "shares": Exercise(
        _weigh,
        (
            Criterion(1, gettext_noop("The weights of the examples add up to 1."), _adds_up),
            Criterion(1, gettext_noop("Each counts as much as on real workers."), _is_real),
        ),
        {"global_batch": 8, "workers": 3},
    ),
    "finished": Exercise(
        _finish,
        (
            Criterion(2, gettext_noop("Both workers finish and return the loss."), _both_know),
            Criterion(1, gettext_noop("Only the chief saves."), _one_saves),
        ),
        {"examples": 12, "seconds": 30},
    ),
}
