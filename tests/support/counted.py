"""Training that writes down which examples each worker trained on, and replays it in NumPy."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

EXAMPLES, LEARNING_RATE = 240, 0.1
SLOW, SLOW_SECONDS = "slow", 2.0
"""While a file of this name is in the folder of the log, each step lasts so long."""
Steps = dict[int, list[int]]
"""The examples of each global step, of all workers together."""


def target(example: Any) -> Any:
    """The label of example x = number / 240, which no weight fits exactly."""
    return example % 7


def numbers(shards: int, index: int, batch_size: int, seed: int) -> Any:
    """Shuffled batches of the numbers of examples in one shard."""
    import tensorflow as tf

    dataset = tf.data.Dataset.range(EXAMPLES).shard(shards, index)
    return dataset.shuffle(EXAMPLES, seed=seed).batch(batch_size, drop_remainder=True)


def counted_input_fn(mode: str, params: Mapping[str, Any], input_context: Any = None) -> Any:
    """Batches of ({"number", "x"}, y)."""
    import tensorflow as tf

    shards, index = 1, 0
    if mode == "train" and input_context:
        shards, index = input_context.num_input_pipelines, input_context.input_pipeline_id

    def example(number: Any) -> Any:
        x = tf.cast(number, tf.float32)[:, None] / EXAMPLES
        return {"number": number, "x": x}, tf.cast(target(number), tf.float32)[:, None]

    return numbers(shards, index, params["batch_size"], params["seed"]).map(example)


def counted_model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any]) -> Any:
    """One weight. The loss is a mean, or the share of a sum if params["sum"]."""
    from helpers.estimator import tf

    weight = tf.compat.v1.get_variable("w", [], initializer=tf.compat.v1.zeros_initializer())
    step = tf.compat.v1.train.get_or_create_global_step()
    x = features["x"]
    if tf.distribute.has_strategy():  # not where the package only tries the function
        written = tf.numpy_function(
            lambda *values: note(params["log"], *values), [step, features["number"]], tf.int64
        )
        with tf.control_dependencies([written]):  # so that the step is read before its update
            x = tf.identity(x)
    losses = tf.reduce_sum(tf.square(x * weight - labels), axis=1)
    if params["sum"]:
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        loss = tf.reduce_sum(losses) / (params["batch_size"] * replicas)
        optimizer = tf.keras.optimizers.legacy.SGD(LEARNING_RATE)
        optimizer.iterations = step
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=optimizer.get_updates(loss, [weight])[0]
        )
    loss = tf.reduce_mean(losses)
    plain = tf.compat.v1.train.GradientDescentOptimizer(LEARNING_RATE)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=plain.minimize(loss, step))


def counted_fit(
    folder: str, epochs: int, batch_size: int, context: Any, backup_every: int | str = "epoch"
) -> list[float]:
    """Trains the same weight with the worker's Keras, and returns it."""
    import tensorflow as tf

    from helpers.keras_callbacks import BackupAndRestore, StepReportCallback
    from helpers.system import keras_version

    class Counted(tf.keras.Model):
        """One weight, which notes the examples."""

        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

        def call(self, inputs: Any, training: bool = False) -> Any:
            """The prediction for inputs["x"], float32 [batch, 1]."""
            x = inputs["x"]
            if training:
                step = tf.convert_to_tensor(self.optimizer.iterations)
                values = [tf.cast(step, tf.int64), inputs["number"]]
                written = tf.numpy_function(
                    lambda *values: note(f"{folder}/log", *values), values, tf.int64
                )
                with tf.control_dependencies([written]):
                    x = tf.identity(x)
            return self.dense(x)

    def dataset(input_context: Any) -> Any:
        params = {"batch_size": batch_size, "seed": 1}
        data = counted_input_fn("train", params, input_context)
        return data.repeat() if per_epoch else data

    global_batch = batch_size * (context.shards or 1)
    # Keras 2 requires the number of steps, and then shares one iterator among all epochs.
    per_epoch = EXAMPLES // global_batch if keras_version.default() == 2 else None
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = Counted()
        model({"number": tf.zeros([1], tf.int64), "x": tf.zeros([1, 1])})
        model.compile(tf.keras.optimizers.SGD(LEARNING_RATE), "mse")
    backup = BackupAndRestore(context, f"{folder}/backup", backup_every)
    steps = StepReportCallback(context, global_batch)
    data = strategy.distribute_datasets_from_function(context.constant_global_batch(dataset))
    model.fit(data, epochs=epochs, steps_per_epoch=per_epoch, verbose=0, callbacks=[backup, steps])
    return [float(model.dense.kernel.numpy()[0, 0])]


def note(folder: str, step: int, examples: Any) -> Any:
    """Appends the examples of a step to the file of this worker's attempt."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    attempt = Path(os.environ["TMPDIR"]).name.rpartition("-")[2]
    with open(f"{folder}/{attempt}-{task}.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps([int(step), examples.tolist()]) + "\n")
    if Path(folder, SLOW).exists():
        time.sleep(SLOW_SECONDS)
    return step


def examples_of_steps(folder: Path) -> Steps:
    """The examples that count: of each step, those of the last attempt that trained it."""
    attempts: dict[int, Steps] = {}
    for path in folder.glob("*.jsonl"):
        steps = attempts.setdefault(int(path.name.partition("-")[0]), {})
        for line in path.read_text("utf-8").splitlines():
            step, examples = json.loads(line)
            steps.setdefault(step, []).extend(examples)
    return {step: found for _n, steps in sorted(attempts.items()) for step, found in steps.items()}


def assert_nothing_repeated(folder: Path) -> None:
    """No step was trained in two attempts."""
    attempts: dict[str, set[int]] = {}
    for path in folder.glob("*-0.jsonl"):
        lines = path.read_text("utf-8").splitlines()
        attempts[path.name] = {json.loads(line)[0] for line in lines}
    assert len(attempts) > 1
    assert sum(map(len, attempts.values())) == len(set().union(*attempts.values()))


def assert_counted_once(steps: Steps, epochs: int, global_batch: int) -> None:
    """Each step has the global batch, and each epoch every example exactly once."""
    per_epoch = EXAMPLES // global_batch
    wanted = {*range(epochs * per_epoch)}
    assert steps.keys() == wanted, f"missing {wanted - steps.keys()}, extra {steps.keys() - wanted}"
    assert {len(found) for found in steps.values()} == {global_batch}
    for epoch in range(epochs):
        begin = epoch * per_epoch
        read = [one for step in range(begin, begin + per_epoch) for one in steps[step]]
        assert sorted(read) == list(range(EXAMPLES))


def weight_after(steps: Steps) -> float:
    """The weight of one worker after gradient descent on the mean loss of each step."""
    weight = 0.0
    for _step, examples in sorted(steps.items()):
        weight -= LEARNING_RATE * _gradient(weight, examples)
    return weight


def _gradient(weight: float, examples: Sequence[int]) -> float:
    xs = [(example / EXAMPLES, target(example)) for example in examples]
    return sum(2 * x * (x * weight - y) for x, y in xs) / len(xs)
