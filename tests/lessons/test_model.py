"""The two networks, under Estimator and under Keras."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import LocalCluster, input_fn, model_fn
from helpers.course.model import NETWORKS, PRECISIONS, make_network
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.params import DEFAULT_PARAMS
from tests.support.faults import needs_keras_3

IMAGES = np.random.default_rng(1).random((4, 28, 28, 1), np.float32)


def test_the_cnn_is_the_network_of_the_first_lesson_to_the_last_bit() -> None:
    tf.keras.utils.set_random_seed(1)
    found = make_network()(IMAGES).numpy()
    tf.keras.utils.set_random_seed(1)
    expected = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(32, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    assert found.tobytes() == expected(IMAGES).numpy().tobytes()


@pytest.mark.parametrize(("name", "weights"), [("cnn", 347_146), ("resnet", 77_418)])
def test_a_network_has_the_weights_that_its_description_says(name: str, weights: int) -> None:
    network = make_network(name=name)
    network.build([None, 28, 28, 1])
    assert network.count_params() == weights
    assert f"{weights:,}" in (make_network.__doc__ or "")


def test_the_names_are_known_and_others_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"network='vgg' is unknown\. Choose one of cnn, resnet"):
        make_network(name="vgg")
    with pytest.raises(ConfigError, match="precision='int8' is unknown"):
        make_network(precision="int8")


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_and_logits_are_float32_in_any_precision(name: str, precision: str) -> None:
    network = make_network(name=name, precision=precision)
    assert network(IMAGES).dtype == tf.float32
    assert {variable.dtype for variable in network.trainable_variables} == {tf.float32}
    computes = {layer.compute_dtype for layer in network.layers[:-1]}
    assert computes == {precision.removeprefix("mixed_")}


def test_the_resnet_takes_images_of_any_size_and_begins_without_its_branches() -> None:
    network = make_network(classes=3, name="resnet")
    assert network(np.zeros((2, 32, 20, 3), np.float32)).shape == (2, 3)
    block = network.layers[1]
    x = tf.nn.relu(network.layers[0](np.ones((2, 32, 20, 3), np.float32)))
    assert np.array_equal(block(x), x)


@needs_keras_3
def test_the_same_weights_give_the_same_logits_under_keras_3() -> None:
    given = {}
    for name in NETWORKS:
        network = make_network(name=name)
        network.build([None, 28, 28, 1])
        rng = np.random.default_rng(2)
        weights = [rng.normal(0, 0.1, value.shape) for value in network.get_weights()]
        network.set_weights(weights)
        given[name] = (weights, network(IMAGES).numpy())

    def logits(name: str) -> Any:
        import keras

        from helpers.course.model import make_network

        network = make_network(name=name)
        network.build([None, 28, 28, 1])
        network.set_weights(given[name][0])
        return keras.__version__, network(IMAGES).numpy()

    with LocalCluster(workers=1) as cluster:
        [found] = cluster.run(lambda: {name: logits(name) for name in NETWORKS}, keras=3)
    for name, (version, values) in found.items():
        assert version.startswith("3.")
        assert np.allclose(values, given[name][1], atol=1e-5)


@pytest.mark.training
def test_the_resnet_learns_under_estimator_on_two_workers() -> None:
    params = {"network": "resnet", "learning_rate": 0.1}
    with LocalCluster(workers=2, collective="RING") as cluster:
        result = cluster.train(model_fn, input_fn, steps=200, params=params, progress=False)
    assert result.accuracy is not None
    assert result.accuracy > 0.8


@pytest.mark.training
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_resnet_learns_under_keras_fit(precision: str) -> None:
    tf.keras.utils.set_random_seed(1)
    network = make_network(name="resnet", precision=precision)
    network.compile(
        tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    network.fit(input_fn("train", {"seed": 1}).take(200), verbose=0)
    _loss, accuracy = network.evaluate(input_fn("eval", {"batch_size": 1000}), verbose=0)
    assert accuracy > 0.8


def one_step(params: Mapping[str, Any], folder: Path) -> Any:
    """The weights of an Estimator after one step."""
    tf.keras.utils.set_random_seed(1)
    config = tf.estimator.RunConfig(str(folder), tf_random_seed=1)
    estimator = tf.estimator.Estimator(model_fn, params=dict(params), config=config)

    def batch() -> Any:
        size = DEFAULT_PARAMS["batch_size"]
        images = tf.constant(np.resize(IMAGES, [size, 28, 28, 1]))
        return tf.data.Dataset.from_tensors((images, tf.range(size, dtype=tf.int64) % 10))

    estimator.train(batch, steps=1)
    last = [name for name in estimator.get_variable_names() if name.endswith("/bias")][-1]
    return estimator.get_variable_value(last)


def test_what_params_leave_out_is_what_a_cluster_would_give(tmp_path: Path) -> None:
    bare = one_step({}, tmp_path / "bare")
    assert bare.any()
    assert bare.tobytes() == one_step(DEFAULT_PARAMS, tmp_path / "given").tobytes()
    [size] = {len(labels) for _images, labels in input_fn("train").take(1).as_numpy_iterator()}
    assert size == DEFAULT_PARAMS["batch_size"]
