"""The tasks of lesson 11: the same losses, an old checkpoint, `max_steps`, a signature."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.course.criteria import (
    Criterion,
    Exercise,
    expect,
    join_numbers,
    same_shape_and_close,
)
from helpers.course.exercises.legacy_estimator import (
    CLASSES,
    estimator_losses,
    examples,
    write_checkpoint,
)
from helpers.i18n import _, gettext_noop, number

Case = Mapping[str, Any]
UNITS = 8  # units of the served model


def _losses(answer: Callable[..., Any], case: Case) -> list[float]:
    """The loss of each step of two real workers that run the answer."""

    def run() -> list[float]:
        from helpers.estimator import tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        model, data = answer(strategy, examples(), case["batch_size"])
        model.distribute_reduction_method = "first"  # see lesson 11
        losses: list[float] = []
        callback = tf.keras.callbacks.LambdaCallback(
            on_train_batch_begin=lambda batch, logs: model.reset_metrics(),
            on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"])),
        )
        model.fit(data, steps_per_epoch=case["steps"], verbose=0, callbacks=[callback])
        return losses

    with LocalCluster(workers=2) as cluster:
        return list(cluster.run(run, timeout=60)[0])


def _begins_alike(losses: list[float], case: Case) -> None:
    hint = _("Lesson 11 has a table of causes, by the step at which two programs diverge.")
    _judge_losses(losses, case, 1, hint)


def _goes_on_alike(losses: list[float], case: Case) -> None:
    hint = _(
        "Before this step, all losses are the same. What in the old program depends on the step?"
    )
    _judge_losses(losses, case, case["steps"], hint)


def _judge_losses(losses: list[float], case: Case, steps: int, hint: str) -> None:
    expect(
        len(losses) >= steps,
        expected=labels.steps(steps),
        found=labels.steps(len(losses)),
        hint=_("The Estimator repeats its data until the last step."),
    )
    wanted = estimator_losses(case["batch_size"], case["steps"])
    for step, (right, found) in enumerate(zip(wanted[:steps], losses[:steps], strict=True), 1):
        expect(
            abs(found - right) < 1e-4,
            expected=_("a loss of {loss} at step {step}, as with the Estimator").format(
                loss=number(right, ".5f"), step=step
            ),
            found=number(found, ".5f"),
            hint=hint,
        )


def _restore(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The predictions and the next step of a Keras model after the answer restored a checkpoint."""
    from helpers.estimator import tf

    layers, units = tf.keras.layers, case["sizes"]["units"]
    hidden = [layers.Dense(units, "relu", name="first"), layers.BatchNormalization(name="norm")]
    model = tf.keras.Sequential([*hidden, layers.Dense(CLASSES, name="last")])
    model.build([None, case["sizes"]["features"]])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1, 0.9))
    with tempfile.TemporaryDirectory() as folder:
        answer(model, write_checkpoint(_saved(**case["sizes"]), folder))
    return {
        "predictions": model(_features(case).astype("float32"), training=False).numpy(),
        "step": int(model.optimizer.iterations),
    }


def _features(case: Case) -> Any:
    """The features of five examples."""
    return np.random.default_rng(2).normal(size=[5, case["sizes"]["features"]])


def _saved(features: int, units: int, step: int) -> dict[str, Any]:
    """The values of an Estimator's checkpoint, by name."""
    shapes = {
        "first/weights": [features, units],
        "first/biases": [units],
        "norm/gamma": [units],
        "norm/beta": [units],
        "norm/moving_mean": [units],
        "norm/moving_variance": [units],
        "last/weights": [units, CLASSES],
        "last/biases": [CLASSES],
    }
    shapes |= {f"{name}/Momentum": shape for name, shape in shapes.items() if "moving" not in name}
    random = np.random.default_rng(step)
    values = {f"tower/{name}": random.uniform(0.5, 2, shape) for name, shape in shapes.items()}
    return {**values, "global_step": np.int64(step)}


def _predict(saved: Mapping[str, Any], features: Any) -> Any:
    """The predictions of the Estimator."""
    value = {name.removeprefix("tower/"): array for name, array in saved.items()}
    hidden = np.maximum(0, features @ value["first/weights"] + value["first/biases"])
    scale = value["norm/gamma"] / np.sqrt(value["norm/moving_variance"] + 1e-3)
    normed = (hidden - value["norm/moving_mean"]) * scale + value["norm/beta"]
    return normed @ value["last/weights"] + value["last/biases"]


def _predicts_alike(seen: dict[str, Any], case: Case) -> None:
    found, right = seen["predictions"], _predict(_saved(**case["sizes"]), _features(case))
    expect(
        same_shape_and_close(found, right, rtol=1e-3, atol=1e-3),
        expected=_("the logits of the Estimator, such as {values} for the first example").format(
            values=join_numbers(right[0])
        ),
        found=join_numbers(found[0]),
        hint=_("Which weights does the model have? Assign each one its value, by name."),
    )


def _goes_on(seen: dict[str, Any], case: Case) -> None:
    expect(
        seen["step"] == case["sizes"]["step"],
        expected=_("the learning rate of step {step}").format(step=case["sizes"]["step"]),
        found=_("the learning rate of step {step}").format(step=seen["step"]),
        hint=_(
            "The checkpoint contains one more value that training needs. "
            "Which variable counts steps in Keras?"
        ),
    )


def _count_steps(answer: Callable[..., Any], case: Case) -> list[int]:
    """The total number of training steps of a model after each call of the answer."""
    from helpers.estimator import tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1, "linear", False, "zeros")])
    model.build([None, 1])
    # The gradient and the learning rate are 1, so the weight counts the steps.
    model.compile(tf.keras.optimizers.legacy.SGD(1.0), lambda labels, outputs: outputs)
    data = tf.data.Dataset.from_tensors((tf.ones([4, 1]), tf.ones([4, 1])))
    steps = []
    for max_steps in case["max_steps"]:
        answer(model, data.repeat(case["batches"]), max_steps)
        steps.append(round(-float(model.weights[0][0, 0])))
    return steps


def _trained_to(place: slice, hint: str) -> Callable[[list[int], Case], None]:
    def check(found: list[int], case: Case) -> None:
        wanted = [max(case["max_steps"][: k + 1]) for k in range(len(case["max_steps"]))]
        calls = case["max_steps"][place]
        template = _("{steps} as the total numbers of steps, after calls with max_steps {calls}")
        expect(
            found[place] == wanted[place],
            expected=template.format(steps=wanted[place], calls=calls),
            found=found[place],
            hint=_(hint),
        )

    return check


def _serve(answer: Callable[..., Any], case: Case) -> dict[str, Any]:
    """The signatures that a client finds in the answer's export, and the responses."""
    from helpers.estimator import tf

    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(UNITS, "relu"),
            tf.keras.layers.Dropout(0.5),
            tf.keras.layers.Dense(CLASSES),
        ]
    )
    model.build([None, case["pixels"]])
    model.set_weights(_weights(case))
    with tempfile.TemporaryDirectory() as folder:
        answer(model, folder)
        signatures = tf.saved_model.load(folder).signatures
        if "serving_default" not in signatures:
            return {"names": sorted(signatures)}
        serve = signatures["serving_default"]
        seen = {
            "names": sorted(signatures),
            "inputs": _specs(serve.structured_input_signature[1]),
            "outputs": _specs(serve.structured_outputs),
        }
        if _keeps_signature(seen, case):
            answers = [serve(pixels=tf.constant(pixels)) for pixels in _batches(case)]
            seen["found"] = [{k: v.numpy() for k, v in one.items()} for one in answers]
    return seen


def _weights(case: Case) -> list[Any]:
    """The weights of the served model: kernel and bias of its two layers."""
    random = np.random.default_rng(case["pixels"])
    shapes = ([case["pixels"], UNITS], [UNITS], [UNITS, CLASSES], [CLASSES])
    return [random.normal(size=shape).astype("float32") for shape in shapes]


def _batches(case: Case) -> list[Any]:
    """The requests of a client."""
    random = np.random.default_rng(3)
    return [random.integers(0, 256, [size, case["pixels"]], "uint8") for size in (1, 5)]


def _specs(specs: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"{spec.dtype.name} {spec.shape}" for name, spec in sorted(specs.items())}


def _old_answer(pixels: Any, case: Case) -> dict[str, Any]:
    """The responses of the old export."""
    kernel, bias, last_kernel, last_bias = _weights(case)
    logits = np.maximum(0, pixels / 255 @ kernel + bias) @ last_kernel + last_bias
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return {"class": logits.argmax(1), "score": odds.max(1) / odds.sum(1)}


def _old_signature(case: Case) -> dict[str, dict[str, str]]:
    return {
        "inputs": {"pixels": f"uint8 (None, {case['pixels']})"},
        "outputs": {"class": "int64 (None,)", "score": "float32 (None,)"},
    }


def _keeps_signature(seen: Mapping[str, Any], case: Case) -> bool:
    return {k: seen.get(k) for k in ("inputs", "outputs")} == _old_signature(case)


def _is_found(seen: dict[str, Any], case: Case) -> None:
    expect(
        "serving_default" in seen["names"],
        expected="serving_default",
        found=seen["names"],
        hint=_("A client calls a signature by its name."),
    )
    expect(
        _keeps_signature(seen, case),
        expected=_old_signature(case),
        found={k: seen[k] for k in ("inputs", "outputs")},
        hint=_(
            "A function defines the names, types and shapes of a signature. Lesson 11 saves one."
        ),
    )


def _answers_alike(seen: dict[str, Any], case: Case) -> None:
    for pixels, found in zip(_batches(case), seen["found"], strict=True):
        for name, right in _old_answer(pixels, case).items():
            expect(
                same_shape_and_close(found[name], right, atol=1e-5),
                expected=f"{name}={join_numbers(right)}",
                found=f"{name}={join_numbers(found[name])}",
                hint=_(
                    "What did the old export do with the pixels before the model received them?"
                ),
            )


EXERCISES = {
    "migrated": Exercise(
        _losses,
        (
            Criterion(
                2, gettext_noop("The first step has the same loss as the Estimator."), _begins_alike
            ),
            Criterion(1, gettext_noop("So do the steps after it."), _goes_on_alike),
        ),
        {"batch_size": 8, "steps": 12},
    ),
    "restored": Exercise(
        _restore,
        (
            Criterion(
                2,
                gettext_noop("The model makes the same predictions as the Estimator."),
                _predicts_alike,
            ),
            Criterion(1, gettext_noop("Training resumes at the right step."), _goes_on),
        ),
        {"sizes": {"features": 6, "units": 6, "step": 1200}},
    ),
    "train_to": Exercise(
        _count_steps,
        (
            Criterion(
                1,
                gettext_noop("It trains up to max_steps, whatever the length of the data."),
                _trained_to(
                    slice(0, 1),
                    gettext_noop("How many batches does fit use, and how many are there?"),
                ),
            ),
            Criterion(
                1,
                gettext_noop("It counts the steps of earlier calls."),
                _trained_to(
                    slice(0, None),
                    gettext_noop(
                        "max_steps is a target, not a number of steps to add. "
                        "At which step does training start?"
                    ),
                ),
            ),
        ),
        {"batches": 7, "max_steps": [20, 33, 30]},
    ),
    "served": Exercise(
        _serve,
        (
            Criterion(1, gettext_noop("A client finds the same signature as before."), _is_found),
            Criterion(1, gettext_noop("A client gets the same answers as before."), _answers_alike),
        ),
        {"pixels": 4},
    ),
}
