"""How the hooks handle a session's errors."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.estimator import tf
from helpers.worker.context import PeerLostError, WorkerContext
from helpers.worker.hooks import DUPLICATE_REQUEST_MESSAGE, run_with_retry

REFUSED = tf.errors.AbortedError(
    None,
    None,
    "Graph execution error:\n\nFrom /job:worker/replica:0/task:1:\n"
    f"{DUPLICATE_REQUEST_MESSAGE}. step_id: 7",
)


def answers(*outcomes: Any) -> Any:
    """A session's `run` that returns or raises one outcome after the other."""
    left: Iterator[Any] = iter(outcomes)

    def run(*arguments: Any, **options: Any) -> Any:
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, arguments, options

    return run


def test_a_refused_step_is_asked_for_again_until_it_is_done() -> None:
    run = functools.partial(run_with_retry, answers(REFUSED, REFUSED, 3.0))
    assert run("loss", feed_dict={}) == (3.0, ("loss",), {"feed_dict": {}})


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.UnavailableError(None, None, "Socket closed"),
        tf.errors.AbortedError(None, None, "Graph execution error:\n\nSocket closed"),
    ],
)
def test_a_lost_peer_is_told_with_the_reason(error: Exception) -> None:
    with pytest.raises(PeerLostError, match=r"lost its connection to a peer: Socket closed$"):
        run_with_retry(answers(error, 1))


def test_other_errors_pass() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        run_with_retry(answers(tf.errors.InvalidArgumentError(None, None, "no")))


def ask_often(context: WorkerContext, times: int) -> dict[str, int]:
    """Runs a session on a server so often that TensorFlow rejects some of the calls."""
    v1 = tf.compat.v1
    server = tf.distribute.Server(tf.train.ClusterSpec(dict(context.config.cluster)))
    refused = answered = 0
    with tf.Graph().as_default(), v1.Session(server.target) as session:
        one, bare = tf.constant(1), session.run

        def run(*arguments: Any) -> Any:
            nonlocal refused
            try:
                return bare(*arguments)
            except tf.errors.AbortedError:
                refused += 1
                raise

        for step in range(times):
            answered += run_with_retry(run, one)
            if step % 1000 == 0:
                context.report("step", step=step, loss=0.0, examples_per_second=None)
    return {"refused": refused, "answered": answered}


@pytest.mark.slow
def test_each_of_very_many_steps_is_answered() -> None:
    with LocalCluster(workers=1) as cluster:
        [found] = cluster.run(functools.partial(ask_often, times=300_000), timeout=60)
    print(f"{found['refused']} of 300,000 were refused")  # about 6, and none in one of 300 runs
    assert found["answered"] == 300_000
