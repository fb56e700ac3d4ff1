"""Large arrays stay out of the graph, or are rejected if its copies do not fit into the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.errors import ConfigError
from helpers.estimator import tf
from helpers.tf_config import TFConfig, build_tf_configs
from helpers.worker import large_arrays
from helpers.worker.large_arrays import ConstantsCheck, arrays_by_function

ALONE = TFConfig.parse("{}")


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_arrays, "MIN_BYTES", 1000)


def images(dtype: str = "float32") -> Any:
    return np.arange(600).astype(dtype).reshape(200, 3)


def constants() -> list[Any]:
    return [operation for _size, operation in large_arrays._large_constants()]


def first_elements(data: Any, count: int) -> list[Any]:
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    element = iterator.get_next()
    with tf.compat.v1.Session() as session:
        session.run(iterator.initializer)
        return [session.run(element) for _number in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool", "float16"])
def test_a_dataset_has_the_same_elements_without_a_constant(dtype: str) -> None:
    array = np.tile(images(dtype), [10, 1])
    with tf.Graph().as_default(), arrays_by_function():
        data = tf.data.Dataset.from_tensor_slices({"x": array, "y": (array[:, :1], array[:, 1])})
        assert not constants()
        assert data.element_spec["x"] == tf.TensorSpec([3], dtype)
        with tf.compat.v1.Session() as session:
            assert session.run(data.cardinality()) == len(array)
        elements = first_elements(data, 3)
    np.testing.assert_array_equal([one["x"] for one in elements], array[:3])
    np.testing.assert_array_equal([one["y"][0] for one in elements], array[:3, :1])
    np.testing.assert_array_equal([one["y"][1] for one in elements], array[:3, 1])


def test_tensorflow_never_writes_into_the_array() -> None:
    array = images()
    with tf.Graph().as_default(), arrays_by_function():
        data = tf.data.Dataset.from_tensors(array).map(lambda x: -(x + 1)).repeat()
        first_elements(data, 3)
    np.testing.assert_array_equal(array, images())


def test_a_dataset_inside_a_dataset_is_left_alone() -> None:
    with tf.Graph().as_default(), arrays_by_function():
        inner = images()
        data = tf.data.Dataset.range(3).flat_map(
            lambda _n: tf.data.Dataset.from_tensor_slices(inner)
        )
        np.testing.assert_array_equal(first_elements(data, 201)[-1], inner[0])


def test_small_arrays_text_and_objects_are_left_alone() -> None:
    original = tf.data.Dataset.from_tensor_slices
    with tf.Graph().as_default(), arrays_by_function():
        small, text = np.ones([2, 2], "float32"), np.array(["a" * 2000, "b"])
        data = tf.data.Dataset.from_tensor_slices((small, text, [1, 2]))
        assert "PyFunc" not in {
            one.type for one in tf.compat.v1.get_default_graph().get_operations()
        }
        assert first_elements(data, 2)[1][1] == b"b"
    assert tf.data.Dataset.from_tensor_slices is original


def test_constants_that_do_not_fit_are_rejected_with_their_name_and_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = images()  # 2400 bytes

    def input_fn() -> Any:
        return tf.constant(table)

    def check(config: TFConfig, free: int | None) -> None:
        monkeypatch.setattr(large_arrays, "free_memory", lambda: free)
        ConstantsCheck(config, [input_fn]).run()

    chief, worker = build_tf_configs(["localhost:1", "localhost:2"])
    with tf.Graph().as_default():
        input_fn()
        one = 2400 * large_arrays.COPIES
        for config, needed in ((ALONE, one), (chief, 2 * one), (worker, one)):
            check(config, None)
            check(config, needed)
            with pytest.raises(ConfigError, match=r"table .*2\.4 kB.*test_large_arrays\.py, line"):
                check(config, needed - 1)
