"""What all tests stand on: the Keras they need, and proof that nothing is left running."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from helpers import i18n
from helpers.cluster import environment
from helpers.system.keras_version import select_keras_2
from tests.support import time_budget
from tests.support.processes import worker_pids

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A slow minute of the machine is no fault of an example.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
select_keras_2()  # before a test module imports tensorflow
# pytest writes the name of each test there, and a fork server serves one environment: so that all
# tests share one, which has imported TensorFlow once.
environment.PER_TASK_ENV += ("PYTEST_CURRENT_TEST",)


def pytest_configure() -> None:
    """A shell's background jobs inherit an ignored SIGINT, and so would what the tests start.

    Only here: where a test's function travels to, this module is imported in other threads.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that a slow machine may leave out come last."""
    time_budget.sort_by_priority(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out what no time is left for, and says so."""
    time_budget.skip_if_over_budget(item)


@pytest.fixture(autouse=True)
def no_worker_outlives_its_test() -> Iterator[None]:
    yield
    left = worker_pids()
    assert not left, f"worker processes left running: {left}"


@pytest.fixture(autouse=True)
def every_test_begins_in_english() -> Iterator[None]:
    yield
    left = i18n.language()
    if left != i18n.ENGLISH:
        i18n.set_language(i18n.ENGLISH)
        pytest.fail(f"the test left messages in another language: {left}")
