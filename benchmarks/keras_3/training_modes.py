"""Ways to train other than a single `fit`, and checks of a trained model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.keras_3.trial import BATCH, EPOCHS, Trial

Trained = tuple[Any, Any]
"""A model, and its history."""


class Interruption(Exception):
    """Ends a `fit`, like a fault."""


class Interrupt(keras.callbacks.Callback):
    """Raises after the first epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Lets the first epoch pass."""
        if epoch == 1:
            raise Interruption


def interrupted(trial: Trial) -> Trained:
    """Ends after an epoch. Then another model resumes from the backup, each worker from its own."""
    folder = str(trial.folder / "backup")
    model = trial.make()
    try:
        trial.fit(model, callbacks=[keras.callbacks.BackupAndRestore(folder), Interrupt()])
    except Interruption:
        keras.utils.set_random_seed(2)
        model = trial.make()
    history = trial.fit(model, callbacks=[keras.callbacks.BackupAndRestore(folder)]).history
    assert len(history["loss"]) == EPOCHS - 1, history
    return model, history


def twice(trial: Trial) -> Trained:
    """Trains two models from the same seed, which must be equal."""
    model = trial.make()
    history = trial.fit(model).history
    keras.utils.set_random_seed(1)
    again = trial.make()
    trial.fit(again)
    assert_same(again.get_weights(), model.get_weights())
    return model, history


def fitted_twice(trial: Trial) -> Trained:
    """Continues with the same model."""
    model = trial.make()
    trial.fit(model, epochs=1)
    return model, trial.fit(model, initial_epoch=1).history


def loaded_in_scope(trial: Trial) -> Trained:
    """Trains an epoch, saves, loads in the scope, and continues with the loaded model."""
    model = trial.make()
    trial.fit(model, epochs=1)
    path = trial.folder / "model.keras"
    model.save(path)
    with trial.strategy.scope():
        model = keras.models.load_model(path)
    return model, trial.fit(model, initial_epoch=1).history


def batch_by_batch(trial: Trial) -> Trained:
    """Each worker passes its share of each batch to `train_on_batch`."""
    model = trial.make()
    inputs, targets = trial.case.columns()
    begin, end = (BATCH * worker // trial.workers for worker in (trial.index, trial.index + 1))
    losses = []
    for start in range(0, len(inputs), BATCH):
        part = slice(start + begin, start + end)
        losses.append(model.train_on_batch(inputs[part], targets[part], return_dict=True)["loss"])
    return model, {"steps": [len(losses)]}


def custom_loop(trial: Trial) -> Trained:
    """Uses `strategy.run` on a distributed dataset, `apply_gradients`, `compute_average_loss`."""
    model, strategy = trial.make(), trial.strategy

    def step(inputs: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            each = tf.reduce_mean(tf.square(targets - model(inputs, training=True)), axis=-1)
            loss = tf.nn.compute_average_loss(each, global_batch_size=BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def train(inputs: Any, targets: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(step, (inputs, targets)), axis=None)

    train = tf.function(train)

    losses = [
        float(train(*batch))
        for _epoch in range(EPOCHS)
        for batch in strategy.experimental_distribute_dataset(trial.data())
    ]
    return model, {"loss": losses}


def is_in_its_file(model: Any, trial: Trial) -> None:
    """Checks that ModelCheckpoint's file holds the last weights."""
    saved = keras.models.load_model(trial.folder / "model.keras")
    assert_same(saved.get_weights(), model.get_weights())


def wrote_events(_model: Any, trial: Trial) -> None:
    """Checks that there are event files for TensorBoard."""
    assert list(trial.folder.rglob("events.out.tfevents.*"))


def saves(model: Any, trial: Trial) -> None:
    """Every worker saves to its own file."""
    path = trial.folder / "saved.keras"
    model.save(path)
    assert_same(keras.models.load_model(path).get_weights(), model.get_weights())


def saves_on_the_chief(model: Any, trial: Trial) -> None:
    """Only the chief saves while the others continue, and all meet again in `evaluate`."""
    if trial.is_chief:
        saves(model, trial)
    model.evaluate(trial.data(), verbose=0)


def saves_weights(model: Any, trial: Trial) -> None:
    """A model outside the strategy, in the same process, can load the weights."""
    path = str(trial.folder / "saved.weights.h5")
    model.save_weights(path)
    other = trial.case.model()
    other.load_weights(path)
    assert_same(other.get_weights(), model.get_weights())


def exports(model: Any, trial: Trial) -> None:
    """Checks that the exported model returns the same as `predict`."""
    path = str(trial.folder / "exported")
    model.export(path, verbose=False)
    served = tf.saved_model.load(path)
    inputs = trial.case.columns()[0][:BATCH]
    expected = model.predict(trial.inputs(), verbose=0)[:BATCH]
    assert np.allclose(served.serve(inputs), expected, atol=1e-5)


def assert_same(some: Any, others: Any) -> None:
    """Asserts that lists of arrays are equal."""
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert np.array_equal(one, other), np.abs(one - other).max()
