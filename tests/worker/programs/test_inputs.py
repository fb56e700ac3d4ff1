"""Allowed results of input_fn, and objects that functions may and may not use from outside."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.cluster.local import LocalCluster
from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.system.machine import free_memory
from tests.worker.programs.models import batches, loss_of, plain_model_fn, spec

v1 = tf.compat.v1
ONES = np.ones([5, 1], "float32")


def sparse() -> Any:
    return tf.SparseTensor([[0, 0], [1, 0]], [1.0, 2.0], [5, 1]), tf.ones([5, 1])


def sparse_dataset() -> Any:
    data = tf.data.Dataset.from_tensors(sparse()[0])
    return data.map(lambda one: (one, tf.ones([5, 1]))).repeat(10)


def without_labels() -> Any:
    return tf.ones([5, 1]), None


def without_labels_dataset() -> Any:
    return tf.data.Dataset.from_tensors((tf.ones([5, 1]), None)).repeat(10)


def arrays() -> Any:
    return {"x": ONES}, ONES


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    features = features["x"] if isinstance(features, dict) else features
    if isinstance(features, tf.SparseTensor):
        features = tf.sparse.to_dense(features)
    return plain_model_fn(features, features if labels is None else labels, mode)


@pytest.mark.programs
@pytest.mark.parametrize(
    "input_fn", [sparse, sparse_dataset, without_labels, without_labels_dataset, arrays]
)
def test_what_estimator_takes_is_taken(input_fn: Callable[..., Any], cluster: LocalCluster) -> None:
    result = cluster.train(model_fn, input_fn, steps=5, progress=False)
    assert result.steps == result.evaluations[-1].step == 5 and not result.restarts


def test_arrays_are_taken_as_one_batch(cluster: LocalCluster) -> None:
    result = cluster.train(model_fn, arrays, steps=5, progress=False)
    assert (result.steps, result.global_batch) == (5, 10)


def embedding_model_fn(features: Any, labels: Any, mode: str) -> Any:
    table = v1.get_variable("table", [20, 4], initializer=v1.ones_initializer())
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, features))
    step = v1.train.get_or_create_global_step()
    optimizer = v1.train.GradientDescentOptimizer(1.0)
    return spec(mode, loss, optimizer.minimize(loss, step))


def ids(input_context: Any) -> Any:
    """Worker 0 has the ids 0, then 0 and 1, and so on. Worker 1 has two more, and each id twice."""
    more, times = 2 * input_context.input_pipeline_id, 1 + input_context.input_pipeline_id
    data = tf.data.Dataset.range(1, 6)
    return data.map(lambda n: (tf.tile(tf.range(n + more), [times]), tf.ones([1])))


def test_the_ids_of_an_embedding_may_vary_in_number(cluster: LocalCluster, tmp_path: Path) -> None:
    result = cluster.train(
        embedding_model_fn, ids, epochs=1, evaluate=None, model_dir=tmp_path, progress=False
    )
    assert result.steps == 5 and not result.restarts
    expected = np.ones([20, 4])
    for n in range(1, 6):
        expected[:n] -= 0.5  # Estimator divides the loss by the number of replicas
        expected[: n + 2] -= 2 * 0.5
    np.testing.assert_allclose(tf.train.load_variable(str(tmp_path), "table"), expected)


def large_table_model_fn(features: Any, labels: Any, mode: str) -> Any:
    table = v1.get_variable("table", [5_000_000, 4], initializer=v1.ones_initializer())
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, features))
    step = v1.train.get_or_create_global_step()
    return spec(mode, loss, v1.train.GradientDescentOptimizer(1.0).minimize(loss, step))


def synchronizing_model_fn(features: Any, labels: Any, mode: str) -> Any:
    loss, _weight = loss_of(features, labels)
    optimizer = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 2)
    return spec(mode, loss, optimizer.minimize(loss, v1.train.get_or_create_global_step()))


@pytest.mark.programs
@pytest.mark.parametrize(
    ("function", "data", "said"),
    [
        (large_table_model_fn, ids, "80.0 MB is too large"),
        (synchronizing_model_fn, batches, "SyncReplicasOptimizer"),
    ],
)
def test_what_cannot_be_summed_is_named_with_its_line(
    function: Callable[..., Any], data: Callable[..., Any], said: str, cluster: LocalCluster
) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        cluster.train(function, data, steps=5, evaluate=None, progress=False)
    assert "test_inputs.py, line" in str(raised.value)


def test_values_made_outside_are_named_with_their_line(cluster: LocalCluster) -> None:
    outside = tf.data.Dataset.from_tensors((tf.ones([5, 1]), tf.ones([5, 1])))
    constant = tf.constant(ONES)
    for data, name, kind in (
        (lambda: outside.repeat(10), "outside", "dataset"),
        (lambda: tf.data.Dataset.from_tensors((constant, ONES)), "constant", "tensor"),
    ):
        said = f"uses {name}, a {kind} created outside it"  # the error contains the lines above
        with pytest.raises(ConfigError, match=said) as raised:
            cluster.train(plain_model_fn, data, steps=5, progress=False)
        assert "test_inputs.py, line" in str(raised.value)


OWN = {
    "SCALE = tf.constant(2.0)": "tf.data.Dataset.from_tensors((tf.ones([5, 1]) * SCALE,) * 2)",
    "DATA = tf.data.Dataset.from_tensors((tf.ones([5, 1]),) * 2)": "DATA",
}


@pytest.mark.parametrize("line", OWN)
def test_what_a_module_starts_at_its_import_is_named(
    line: str, cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_module_{list(OWN).index(line)}"
    text = f"import tensorflow as tf\n{line}\n\n\ndef input_fn():\n    return {OWN[line]}\n"
    (tmp_path / f"{name}.py").write_text(text)
    source = spec_from_file_location(name, tmp_path / f"{name}.py")
    assert source and source.loader
    module = module_from_spec(source)
    monkeypatch.setitem(sys.modules, name, module)
    source.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)  # found by the workers there
    with pytest.raises(ConfigError, match=f"{name}.py, line 2: ") as raised:
        cluster.train(plain_model_fn, module.input_fn, steps=5, progress=False)
    assert line in str(raised.value)


@pytest.mark.programs
def test_large_arrays_are_named_and_start_without_a_restart(cluster: LocalCluster) -> None:
    images = np.ones([100_000, 100], "float32")  # 40 MB

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensor_slices((images[:, :1], images)).batch(5)

    def first_column(features: Any, labels: Any, mode: str) -> Any:
        return plain_model_fn(features, labels[:, :1], mode)

    result = cluster.train(first_column, input_fn, steps=5, evaluate=None, progress=False)
    assert "images 40.0 MB" in result.warnings[0] and not result.restarts
    sizes = [path.stat().st_size for path in Path(result.model_dir).iterdir()]
    assert 0 < sum(sizes) < 5e6  # the graph in the event file is without the array


@pytest.mark.programs
@pytest.mark.parametrize("megabytes", [40, 614])
def test_a_large_array_trains_and_is_evaluated(
    megabytes: int, request: pytest.FixtureRequest
) -> None:
    """614 MB once filled a machine's memory, or took more than a minute until the first step."""
    if (free_memory() or 0) < 20 * megabytes * 1e6:
        pytest.skip(f"needs {20 * megabytes / 1000:.0f} GB of free memory")
    group = request.getfixturevalue("servers" if megabytes == 40 else "cluster")
    images = np.ones([megabytes * 2500, 100], "float32")

    def input_fn() -> Any:
        data = tf.data.Dataset.from_tensor_slices({"x": images, "y": images[:, :1]})
        return data.batch(len(images) // 5).map(lambda one: (one["x"][:, :1], one["y"]))

    start = time.monotonic()
    result = group.train(plain_model_fn, input_fn, epochs=1, progress=False)
    assert result.steps == result.evaluations[-1].step >= 5 and not result.restarts
    assert f"images {megabytes}.0 MB" in result.warnings[0]
    assert time.monotonic() - start < group.timeouts.start


def test_a_function_that_captures_a_large_array_is_told_its_size(cluster: LocalCluster) -> None:
    images = np.ones([100_000, 100], "float32")
    with pytest.warns(UserWarning, match=r"images 40\.0 MB"):
        assert cluster.run(lambda: float(images.mean())) == [1.0, 1.0]
