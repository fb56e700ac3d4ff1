"""`run(…, keras=3)`: each process has its own Keras."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from helpers import LocalCluster
from helpers.errors import ConfigError, PackageError, UserCodeError
from helpers.protocol import payload
from helpers.protocol.job import FunctionJob
from helpers.worker.context import WorkerContext
from tests.support.faults import has_keras_3, needs_keras_3, train_tiny
from tests.support.functions import keras_fit


def package() -> str:
    """The package of a worker's Keras."""
    import tensorflow as tf

    return str(tf.keras.Model.__module__.partition(".")[0])


def asks_for_estimator() -> None:
    """Requests an API that a worker with Keras 3 does not have."""
    from helpers.estimator import tf

    tf.estimator.RunConfig()


def reads_mnist() -> list[int]:
    """The lessons' data, in a worker with Keras 3."""
    from helpers import input_fn

    images, _labels = next(iter(input_fn("eval", {"batch_size": 4})))
    return list(next(iter(images.values())).shape if isinstance(images, dict) else images.shape)


@needs_keras_3
def test_one_cluster_trains_with_each_keras_in_turn(tmp_path: Path) -> None:
    fit = functools.partial(keras_fit, steps=100, backup_every=50, own=True)
    with LocalCluster(2) as cluster:
        assert cluster.run(package, keras=3) == ["keras", "keras"]
        three = cluster.run(functools.partial(fit, backup_dir=str(tmp_path / "3")), keras=3)
        assert train_tiny(cluster, 20).steps == 20
        assert cluster.run(package) == ["tf_keras", "tf_keras"]
        two = cluster.run(functools.partial(fit, backup_dir=str(tmp_path / "2")))
    assert three[0]["step"] == two[0]["step"] == 100
    assert three[0]["weight"] == pytest.approx(two[0]["weight"], abs=1e-6)


@needs_keras_3
@pytest.mark.keras_3
def test_a_worker_with_keras_3_reads_the_lessons_data() -> None:
    with LocalCluster(1) as cluster:
        [shape] = cluster.run(reads_mnist, keras=3)
    assert shape[0] == 4


@needs_keras_3
def test_estimator_in_a_worker_with_keras_3_is_refused_in_a_sentence() -> None:
    with (
        LocalCluster(1) as cluster,
        pytest.raises(PackageError, match=r"tf\.estimator\.RunConfig is not available"),
    ):
        cluster.run(asks_for_estimator, keras=3)


@needs_keras_3
def test_backups_go_on_where_they_ended_and_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    fit = functools.partial(keras_fit, backup_dir=str(tmp_path), backup_every=50, own=True)
    with LocalCluster(2) as cluster:
        cluster.run(functools.partial(fit, steps=150), keras=3)
        kept = sorted(path.name.split("-")[3] for path in tmp_path.iterdir())
        assert kept == ["100", "150"]
        [last] = tmp_path.glob("*-step-150-*")
        last.write_bytes(last.read_bytes()[:-100])
        with pytest.warns(UserWarning, match=r"Damaged checkpoints were skipped .* step 100"):
            values = cluster.run(functools.partial(fit, steps=200), keras=3)
        assert [value["epochs"] for value in values] == [[2, 3]] * 2
        assert values[0]["step"] == 200
        for path in tmp_path.iterdir():
            path.write_bytes(b"")
        with pytest.raises(ConfigError, match=r"No checkpoint in .* can be read"):
            cluster.run(functools.partial(fit, steps=250), keras=3)


@pytest.mark.skipif(has_keras_3(), reason="there is a Keras 3")
def test_without_keras_3_the_error_says_which_tensorflow_has_it() -> None:
    with LocalCluster(1) as cluster, pytest.raises(PackageError, match=r"tensorflow>=2\.16"):
        cluster.run(package, keras=3)


def test_another_keras_is_unknown() -> None:
    with LocalCluster(1) as cluster, pytest.raises(ConfigError, match="keras=4 is unknown"):
        cluster.run(package, keras=4)


def test_a_payload_says_which_keras_it_needs(tmp_path: Path) -> None:
    for keras in (2, 3):
        FunctionJob(package, keras=keras).save(tmp_path / "payload")
        assert payload.read(tmp_path / "payload").keras == keras


def evaluates_on_the_chief(context: WorkerContext) -> None:
    """Calls `evaluate` under a condition that holds on one worker, while the other returns."""
    import keras
    import numpy as np
    import tensorflow as tf

    x = np.ones([8, 2], "float32")
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(x, x[:, :1], batch_size=4, verbose=0)
    if context.config.task == context.config.chief:
        model.evaluate(x, x[:, :1], verbose=0)


@needs_keras_3
@pytest.mark.keras_3
def test_a_call_on_one_worker_names_the_worker_whose_function_has_returned() -> None:
    expected = r"worker 0: evaluate of .*; worker 1: its function has returned"
    with LocalCluster(2) as cluster, pytest.raises(UserCodeError, match=expected):
        cluster.run(evaluates_on_the_chief, keras=3, timeout=60)
