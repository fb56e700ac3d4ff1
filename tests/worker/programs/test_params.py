"""A reader's functions receive the reader's params, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster.local import LocalCluster
from helpers.course import lazy_defaults
from helpers.estimator import tf
from helpers.params import uses_defaults
from tests.worker.programs.models import BATCH, batches, loss_of, plain_model_fn, spec

v1 = tf.compat.v1


def own_default(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Its own default is 0, so that the weight does not change."""
    loss, _weight = loss_of(features, labels)
    optimizer = v1.train.GradientDescentOptimizer(params.get("learning_rate", 0.0))
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return spec(mode, loss, train_op)


class Net:
    """A network that reads its params by name."""

    def __init__(self, start: float = 7.0) -> None:
        self.start = start

    def loss(self, features: Any, labels: Any) -> Any:
        weight = v1.get_variable("w", [], initializer=v1.constant_initializer(self.start))
        return tf.reduce_mean(tf.square(features * weight - labels))


def by_name(features: Any, labels: Any, mode: str, params: Any) -> Any:
    loss = Net(**params).loss(features, labels)
    step = v1.train.get_or_create_global_step()
    return spec(mode, loss, v1.train.GradientDescentOptimizer(0.0).minimize(loss, step))


def input_fn(mode: str, params: Any, input_context: Any = None) -> Any:
    assert "batch_size" not in params
    return batches(mode, input_context)


@pytest.mark.parametrize(
    ("model_fn", "params", "weight"),
    [
        (own_default, None, 0.0),
        pytest.param(by_name, None, 7.0, marks=pytest.mark.programs),
        pytest.param(by_name, {"start": 3.0}, 3.0, marks=pytest.mark.programs),
    ],
)
def test_no_param_is_added(
    model_fn: Callable[..., Any],
    params: Any,
    weight: float,
    cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    result = cluster.train(
        model_fn, input_fn, epochs=1, params=params, model_dir=tmp_path, progress=False
    )
    assert float(tf.train.load_variable(str(tmp_path), "w")) == weight
    assert result.global_batch == 2 * BATCH  # counted, because no param contains it


@pytest.mark.programs
def test_a_model_fn_without_params_needs_none(cluster: LocalCluster) -> None:
    result = cluster.train(plain_model_fn, batches, epochs=1, progress=False)
    assert result.steps == 10 and not result.restarts


def test_only_functions_of_the_package_have_defaults() -> None:
    assert uses_defaults(lazy_defaults.input_fn) and not uses_defaults(input_fn)
