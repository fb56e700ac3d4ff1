"""Exercises one capability of Estimator and writes the numbers that it computed.

    python -m benchmarks.capabilities NAME FOLDER

FOLDER is for checkpoints. The numbers are written there too, to one file for each task of
`TF_CONFIG`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.capabilities.model import (
    FEATURES,
    LABELS,
    WEIGHTS,
    Losses,
    input_fn,
    model_fn,
    network,
    serving_input_fn,
)
from helpers.estimator import tf

STEPS = 20


def one_worker(folder: str) -> list[float]:
    """Returns the loss of every step of `Estimator.train` and an evaluation."""
    losses = Losses()
    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(input_fn, hooks=[losses], max_steps=STEPS)
    return [*losses.values, *_evaluation(estimator)]


def two_workers(folder: str) -> list[float]:
    """Returns the loss of every step of `train_and_evaluate` under MultiWorkerMirroredStrategy."""
    losses = Losses()
    _train_and_evaluate(folder, [losses])
    return losses.values


def chief_and_evaluator(folder: str) -> list[float]:
    """Runs a chief, a worker and an evaluator. Returns the losses of training or evaluation."""
    tf.compat.v1.disable_eager_execution()  # in eager mode TensorFlow cannot copy the strategy
    losses = Losses()
    results = _Results()
    _train_and_evaluate(folder, [losses], [results])
    return losses.values or results.last


def predict(folder: str) -> list[float]:
    """Returns the predictions for the first batches."""
    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(input_fn, max_steps=STEPS)
    return [float(found["y"][0]) for found in estimator.predict(input_fn)]


def canned_estimators(folder: str) -> Iterator[float]:
    """Trains a baseline, a linear and a deep model, the last one from fixed initial weights."""
    columns = [tf.feature_column.numeric_column("x", shape=8)]
    warm = tf.estimator.WarmStartSettings(_dnn_checkpoint(f"{folder}/start"), ".*[kb].*")
    sgd = tf.keras.optimizers.legacy.SGD(0.05)
    models = {
        "baseline": tf.estimator.BaselineRegressor(f"{folder}/baseline"),
        "linear": tf.estimator.LinearRegressor(columns, f"{folder}/linear"),
        "dnn": tf.estimator.DNNRegressor(
            [16], columns, f"{folder}/dnn", optimizer=sgd, warm_start_from=warm
        ),
    }
    for model in models.values():
        model.train(_named_input_fn, max_steps=STEPS)
        yield float(model.evaluate(_named_input_fn, steps=8)["average_loss"])


def model_to_estimator(folder: str) -> list[float]:
    """Converts a compiled Keras model to an Estimator."""
    model = network()
    model.compile(tf.keras.optimizers.legacy.SGD(0.05, momentum=0.9), "mse")
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=folder)
    estimator.train(input_fn, max_steps=STEPS)
    return _evaluation(estimator)


def export_and_reload(folder: str) -> list[float]:
    """Returns the outputs of a SavedModel that TensorFlow alone has loaded again."""
    estimator = tf.estimator.Estimator(model_fn, folder)
    estimator.train(input_fn, max_steps=STEPS)
    path = estimator.export_saved_model(f"{folder}/export", serving_input_fn)
    serve = tf.saved_model.load(path.decode()).signatures["serving_default"]
    return [float(y) for y in serve(features=tf.constant(FEATURES))["y"].numpy()[:, 0]]


def resume(folder: str) -> list[float]:
    """Stops training after half of the steps and resumes from the checkpoint."""
    losses = Losses()
    for steps in (STEPS // 2, STEPS):
        estimator = tf.estimator.Estimator(model_fn, folder)
        estimator.train(input_fn, hooks=[losses], max_steps=steps)
    return [*losses.values, *_evaluation(estimator)]


CAPABILITIES: dict[str, Callable[[str], Any]] = {
    function.__name__: function
    for function in (
        one_worker,
        two_workers,
        chief_and_evaluator,
        predict,
        canned_estimators,
        model_to_estimator,
        export_and_reload,
        resume,
    )
}


class _Results(tf.estimator.Exporter):
    """Keeps the last result of the evaluator."""

    name = "results"
    last: list[float]

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> None:
        """Called by Estimator after each evaluation."""
        self.last = [float(eval_result[name]) for name in ("loss", "error", "global_step")]


def _train_and_evaluate(folder: str, hooks: list[Any], exporters: Any = None) -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    config = tf.estimator.RunConfig(folder, train_distribute=strategy)
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, config=config),
        tf.estimator.TrainSpec(input_fn, max_steps=STEPS, hooks=hooks),
        tf.estimator.EvalSpec(
            lambda: input_fn("eval"), exporters=exporters, start_delay_secs=0, throttle_secs=0
        ),
    )


def _evaluation(estimator: Any) -> list[float]:
    return [float(estimator.evaluate(lambda: input_fn("eval"))["loss"])]


def _named_input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"x": FEATURES}, LABELS)).batch(32).repeat()


def _dnn_checkpoint(folder: str) -> str:
    """Writes a checkpoint with the fixed weights, under the variable names of DNNRegressor."""
    os.makedirs(folder)
    layers = {"hiddenlayer_0": WEIGHTS[0], "logits": WEIGHTS[1]}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for layer, kernel in layers.items():
            tf.compat.v1.get_variable(f"dnn/{layer}/kernel", initializer=kernel)
            bias = np.zeros(kernel.shape[1], np.float32)
            tf.compat.v1.get_variable(f"dnn/{layer}/bias", initializer=bias)
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, f"{folder}/weights")


def main() -> None:
    """The command line."""
    name, folder = sys.argv[1:]
    tf.get_logger().setLevel("ERROR")
    numbers = list(CAPABILITIES[name](f"{folder}/model"))
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "alone", "index": 0})
    Path(folder, f"{task['type']}-{task['index']}.json").write_text(json.dumps(numbers))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # TensorFlow's threads may wait for peers that have already exited
