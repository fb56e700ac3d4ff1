"""Shared by all tests: lanes to select them, their Keras, and a check for remaining processes."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from helpers import i18n
from helpers.cluster import environment
from helpers.system.keras_version import select_keras_2
from tests.support import lanes
from tests.support.processes import worker_pids
from tests.support.units import Guard, has_units, is_unit

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A slow minute of the machine must not fail an example.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
select_keras_2()  # before a test module imports tensorflow
# pytest writes the name of each test to this variable, and a fork server serves only one
# environment. With this line, all tests share one server, which has imported TensorFlow once.
environment.PER_TASK_ENV += ("PYTEST_CURRENT_TEST",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that select tests."""
    group = parser.getgroup("lanes")
    names = [lanes.MAIN, lanes.ALL, *lanes.MARKED, *lanes.NO_LANES]
    group.addoption(
        *("--lane", "--lanes"),
        action="append",
        choices=names,
        help="tests of this lane; may be repeated; by default main, which is make test",
    )
    group.addoption("--smoke", action="store_true", help="only the short form of the lanes")
    group.addoption("--record", action="store_true", help="in the lane answers: write the record")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers and selects the lanes.

    A shell's background jobs inherit an ignored SIGINT, and so would the processes that tests
    start. This is undone here and not on import, because workers import this module in other
    threads too.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for line in lanes.markers():
        config.addinivalue_line("markers", line)
    chosen, smoke = config.getoption("--lane"), config.getoption("--smoke")
    if not config.option.markexpr:
        config.option.markexpr = lanes.expression(chosen or [lanes.MAIN], smoke)
    elif (chosen or smoke) and not hasattr(config, "workerinput"):
        raise pytest.UsageError("-m and --lane exclude each other")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the lane `unit`, only modules with units are imported."""
    if config.getoption("--lane") != ["unit"] or not collection_path.name.startswith("test_"):
        return None
    return None if collection_path.suffix == ".py" and has_units(collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the units, and checks that no test is in two lanes."""
    for item in items:
        lane = lanes.lane_of(marker.name for marker in item.iter_markers())
        name = getattr(item, "originalname", item.name)
        if lane == lanes.MAIN and is_unit(item.path, name):
            item.add_marker("unit")


@pytest.fixture(autouse=True)
def no_worker_outlives_its_test() -> Iterator[None]:
    yield
    left = worker_pids()
    assert not left, f"worker processes left running: {left}"


@pytest.fixture(scope="session")
def guard() -> Guard:
    """Monitors units, in `make quick`."""
    return Guard()


@pytest.fixture(autouse=True)
def a_unit_starts_no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--lane") != ["unit"]:
        yield
        return
    watch: Guard = request.getfixturevalue("guard")
    watch.armed, watch.found = True, ""
    yield
    watch.armed = False
    assert not watch.found, f"{watch.found}, which tests/support/units.py did not expect"


@pytest.fixture(autouse=True)
def every_test_begins_in_english() -> Iterator[None]:
    yield
    left = i18n.language()
    if left != i18n.ENGLISH:
        i18n.set_language(i18n.ENGLISH)
        pytest.fail(f"the test left messages in another language: {left}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for all tests of a module."""
    from tests.support.browser import running_chromium

    with running_chromium() as program:
        yield program


@pytest.fixture(scope="module")
def slurm() -> Iterator[Any]:
    """A Slurm of two nodes for all tests of a module."""
    from tests.support.slurm import Slurm, why_not

    if reason := why_not():
        pytest.skip(reason)
    # Not tmp_path, because the path of a socket must be short.
    folder = tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp")
    with folder as path, Slurm(Path(path)) as running:
        yield running
