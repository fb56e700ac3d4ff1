"""Code that depends on the operating system uses one module, and works without a feature."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from helpers.cluster.fork_client import can_fork
from helpers.course.panel import scenarios
from helpers.course.panel.state import PanelState
from helpers.errors import ConfigError
from helpers.system import capabilities, machine, orphans
from tests.support import ROOT
from tests.support.processes import is_running, wait_until

ASKS = re.compile(
    r"sys\.platform|os\.name\b|platform\.system|hasattr\((os|signal|fcntl|socket|resource)\b"
    r"|eventfd|memfd|F_SETPIPE_SZ|posix_fallocate|SOCK_CLOEXEC|MSG_CMSG_CLOEXEC"
)


def test_one_module_asks_what_the_system_can_do() -> None:
    """And the first line of the package, before any import."""
    asking = {
        path.relative_to(ROOT / "helpers").as_posix()
        for path in (ROOT / "helpers").rglob("*.py")
        if path.parent.name != "templates" and ASKS.search(path.read_text("utf-8"))
    }
    # As text, for Windows.
    assert asking == {"__init__.py", "system/capabilities.py", "system/windows.py"}


def without(monkeypatch: pytest.MonkeyPatch, ability: str) -> None:
    monkeypatch.setattr(capabilities, ability, lambda: False)


@pytest.mark.parametrize("ability", ["fork_is_safe", "has_pidfd", "has_fcntl_setsig"])
def test_workers_are_not_forked_without(ability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.cluster.fork_client.nvidia_gpus", lambda: 0)
    if sys.platform == "linux":
        assert can_fork.__wrapped__()
    without(monkeypatch, ability)
    assert not can_fork.__wrapped__()


def test_workers_are_not_forked_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not can_fork.__wrapped__()


def test_nobody_is_bound_to_cores_where_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "has_affinity")
    for name in ("sched_getaffinity", "sched_setaffinity"):
        monkeypatch.delattr(os, name)
    machine.pin_to_cores([0])
    assert machine.share_cores(2) == [[], []]
    assert machine.cores() >= 1


# A child of a child, each in a separate session.
FAMILY = """
import subprocess, sys, time
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
print("here", flush=True)
time.sleep(600)
"""


@pytest.fixture
def child() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FAMILY, FAMILY]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert [process.stdout.readline() for _each in range(2)] == ["here\n"] * 2
    process.stdout.close()
    return process


def test_descendants_are_found_where_the_kernel_shows_none(
    child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = orphans.descendants(child.pid)
    assert len(told) == 1
    without(monkeypatch, "has_procfs")
    found = orphans.descendants(os.getpid())
    assert {child.pid, *told} <= set(found)
    others = [pid for pid in found if pid not in (child.pid, *told)]
    orphans.kill_descendants(exclude=others)
    assert wait_until(lambda: not any(map(is_running, (child.pid, *told))), 2)
    child.wait()


def test_a_system_without_ps_has_no_descendants_to_tell_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch, "has_procfs")
    monkeypatch.setattr(orphans, "PS", ("no-such-program",))
    assert orphans.descendants(1) == []


@pytest.mark.parametrize(
    ("scenario", "ability", "says"),
    [
        ("partition", "has_namespaces", "virtual network cables"),
        ("flaky_link", "has_namespaces", "virtual network cables"),
        ("disk_full", "has_prlimit", "only on Linux"),
    ],
)
def test_a_scenario_that_cannot_be_played_is_refused_in_a_sentence(
    scenario: str, ability: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scenario in scenarios.SCENARIOS
    without(monkeypatch, ability)
    monkeypatch.setattr(scenarios, "virtual_hosts_supported", capabilities.has_namespaces)
    state = PanelState(fault_injection=True, scenario=scenario)
    with pytest.raises(ConfigError, match=says):
        state.start()
    assert not state.busy


def test_all_else_can_be_played_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for ability in ("has_namespaces", "has_prlimit"):
        without(monkeypatch, ability)
    monkeypatch.setattr(scenarios, "virtual_hosts_supported", capabilities.has_namespaces)
    playable = [
        key
        for key in scenarios.names()
        if scenarios.unavailable_reason(key, fault_injection=True) is None
    ]
    assert len(playable) == len(scenarios.SCENARIOS) + 1 - 3


QUESTIONS: list[Callable[[], bool]] = [
    value
    for name, value in vars(capabilities).items()
    if callable(value) and value.__module__ == capabilities.__name__ and not name.startswith("_")
]


def test_every_question_is_answered_here() -> None:
    """All features exist on the Linux that the tests run on."""
    assert len(QUESTIONS) == 8
    answers = {question.__name__: question() for question in QUESTIONS}
    if sys.platform == "linux":
        assert all(answers.values()), answers


def test_the_page_about_systems_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "SYSTEMS.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    files = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in files for name in re.findall(r"^def (test_\w+)\(", text, re.M)}
    assert len(named) >= 12
    assert named <= there
    table = (
        page.partition("## Features missing on each system")[2]
        .partition("\n\n")[2]
        .partition("\n\n")[0]
    )
    rows = table.splitlines()[2:]
    assert len(rows) == len(QUESTIONS)
    assert all("`test_" in row.rpartition(" | ")[2] for row in rows)
