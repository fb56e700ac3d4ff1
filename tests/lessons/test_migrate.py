"""Checkpoints of an Estimator, read into Keras models."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from helpers import LocalCluster, input_fn, model_fn
from helpers.course.model import NETWORKS, make_network
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.estimator_checkpoint import load_estimator_weights
from tests.support.faults import needs_keras_3


def save(folder: Path, **variables: list[int]) -> str:
    """A checkpoint as sessions write it, with variables of these shapes and random values."""
    random = np.random.default_rng(1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, shape in variables.items():
            value = random.random(shape, np.float32)
            tf.compat.v1.get_variable(name, initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        saver = tf.compat.v1.train.Saver()
        path: str = saver.save(session, str(folder / "model.ckpt"), global_step=7)
    return path


def two_layers() -> tf.keras.Model:
    """Has dense/kernel [3, 4], dense_1/kernel [4, 2] and two biases, with arbitrary values."""
    dense = tf.keras.layers.Dense
    model = tf.keras.Sequential([dense(4), dense(2)])
    model.build([None, 3])
    return model


TWO_LAYERS = {
    "dense/kernel": [3, 4],
    "dense/bias": [4],
    "dense_1/kernel": [4, 2],
    "dense_1/bias": [2],
}


def scoped(scope: str) -> dict[str, list[int]]:
    return {f"{scope}/{name}": shape for name, shape in TWO_LAYERS.items()}


@pytest.mark.parametrize("network", NETWORKS)
def test_the_model_predicts_what_the_estimator_predicts(network: str, tmp_path: Path) -> None:
    params = {"network": network, "seed": 1}
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), params=params)
    estimator.train(input_fn, steps=3)
    images = np.random.default_rng(1).random((4, 28, 28, 1), np.float32)
    expected = list(estimator.predict(lambda: tf.data.Dataset.from_tensors(images)))
    make_network(name=network).build([None, 28, 28, 1])  # so that the names of the next one differ
    model = make_network(name=network)
    model.build([None, 28, 28, 1])
    left = load_estimator_weights(model, tmp_path)
    found = tf.nn.softmax(model(images)).numpy()
    assert np.allclose(found, [row["probabilities"] for row in expected], atol=1e-6)
    assert "global_step" in left
    assert all(name == "global_step" or "momentum" in name or "SGD" in name for name in left)


def test_the_tenth_layer_comes_after_the_second(tmp_path: Path) -> None:
    layers = {f"dense_{k}/kernel" if k else "dense/kernel": [1, 1] for k in range(12)}
    path = save(tmp_path, **layers)
    dense = tf.keras.layers.Dense
    model = tf.keras.Sequential([dense(1, use_bias=False) for _ in range(12)])
    model.build([None, 1])
    load_estimator_weights(model, tmp_path)
    reader = tf.train.load_checkpoint(path)
    expected = [reader.get_tensor(name) for name in layers]
    assert np.array_equal(model.get_weights(), expected)


def test_a_checkpoint_is_named_by_its_own_path_too(tmp_path: Path) -> None:
    path = save(tmp_path, **TWO_LAYERS, global_step=[])
    model = two_layers()
    assert load_estimator_weights(model, path) == ["global_step"]
    expected = tf.train.load_checkpoint(path).get_tensor("dense_1/kernel")
    assert np.array_equal(model.get_weights()[2], expected)


def test_of_two_networks_alike_the_scope_chooses(tmp_path: Path) -> None:
    path = save(tmp_path, **scoped("actor"), **scoped("critic"))
    model = two_layers()
    with pytest.raises(ConfigError, match=r"scopes: 'actor', 'critic'\. Pass one as scope="):
        load_estimator_weights(model, tmp_path)
    left = load_estimator_weights(model, tmp_path, scope="critic")
    assert left == sorted(scoped("actor"))
    expected = tf.train.load_checkpoint(path).get_tensor("critic/dense/kernel")
    assert np.array_equal(model.get_weights()[0], expected)


def test_of_two_networks_the_one_whose_shapes_fit_is_taken(tmp_path: Path) -> None:
    other = {**scoped("other"), "other/dense/kernel": [9, 4]}
    save(tmp_path, **scoped("mine"), **other)
    assert load_estimator_weights(two_layers(), tmp_path) == sorted(other)


def test_a_shape_that_does_not_fit_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    save(tmp_path, **{**TWO_LAYERS, "dense_1/kernel": [4, 5]})
    model = two_layers()
    before = model.get_weights()
    with pytest.raises(ConfigError, match=r"dense_1/kernel in .* has the shape \[4, 5\].*\[4, 2\]"):
        load_estimator_weights(model, tmp_path)
    assert all(map(np.array_equal, before, model.get_weights()))


MORE = {**TWO_LAYERS, "dense_2/kernel": [2, 2], "dense_2/bias": [2]}
LESS = {"dense/kernel": [3, 4], "dense/kernel/momentum": [3, 4]}


@pytest.mark.parametrize(
    ("variables", "meant"),
    [
        (MORE, ": dense/bias, dense/kernel, dense_1/bias, .*, dense_2/kernel"),
        (LESS, ": dense/kernel"),
        ({"global_step": []}, ", and no possible matches"),
    ],
)
def test_layers_too_few_or_too_many_are_an_error_that_names_what_is_there(
    variables: dict[str, list[int]], meant: str, tmp_path: Path
) -> None:
    save(tmp_path, **variables)
    with pytest.raises(ConfigError, match=rf"as many variables like dense.*{meant}\. Build"):
        load_estimator_weights(two_layers(), tmp_path)


def test_a_folder_without_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path} contains no checkpoint"):
        load_estimator_weights(two_layers(), tmp_path)


def test_a_model_that_is_not_built_is_an_error(tmp_path: Path) -> None:
    save(tmp_path, **TWO_LAYERS)
    model = tf.keras.Sequential([tf.keras.layers.Dense(4)])
    with pytest.raises(ConfigError, match="has no weights yet"):
        load_estimator_weights(model, tmp_path)


def read_in_keras_3(folder: str) -> dict[str, list[int]]:
    """The shapes of a Keras 3 model's weights, one of which is recognized by its value."""
    model = make_network()
    model.build([None, 28, 28, 1])
    load_estimator_weights(model, folder)
    return {weight.path: weight.numpy().ravel()[:3].tolist() for weight in model.weights}


@pytest.mark.keras_3
@needs_keras_3
def test_a_model_of_keras_3_gets_the_weights_too(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), params={"seed": 1})
    estimator.train(input_fn, steps=3)
    with LocalCluster(1) as cluster:
        [found] = cluster.run(functools.partial(read_in_keras_3, str(tmp_path)), keras=3)
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert len(found) == 6
    for path, values in found.items():
        assert values == reader.get_tensor(path).ravel()[:3].tolist(), path
