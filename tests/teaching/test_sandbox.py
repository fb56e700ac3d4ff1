"""The sandbox in which submissions run: what it keeps them from, as root and without privileges."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.processes import command_of, is_running, wait_until
from tools.teaching.grading import SANDBOX, limits_are_permitted, sandbox_is_permitted

pytestmark = pytest.mark.skipif(not sandbox_is_permitted(), reason="no namespaces on this machine")

OK, REFUSED = "ok\n", "refused\n"
TRY = """
import os, socket, subprocess, sys
try:
    {what}
    print("ok")
except OSError:
    print("refused")
"""


def sandboxed(folder: Path, what: str, *options: str, python: str = sys.executable) -> str:
    """What a line of Python says in the sandbox, which may write into `folder`."""
    command = [*SANDBOX, f"--writable={folder}", *options, "--", python, "-I", "-c"]
    done = subprocess.run(
        [*command, TRY.format(what=what)], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout or done.stderr


def test_it_may_write_into_its_folder_and_nowhere_else(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    assert sandboxed(own, "open('x', 'w').write('1')") == OK
    assert (own / "x").read_text() == "1"
    for path in (
        tmp_path / "x",
        Path.home() / "x-of-a-test",
        Path("/proc/sys/kernel/core_pattern"),
    ):
        assert sandboxed(own, f"open({str(path)!r}, 'w').write('1')") == REFUSED
    assert not (tmp_path / "x").exists()
    assert sandboxed(own, "open('/dev/null', 'w').write('1'); open('/dev/shm/x', 'w')") == OK


def test_it_cannot_undo_what_holds_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    outside = tmp_path / "outside"
    for command in (
        f"mount -o remount,bind,rw / ; touch {outside}",
        f"unshare -Um sh -c 'mount -o remount,bind,rw / ; touch {outside}'",
    ):
        sandboxed(own, f"subprocess.run({command!r}, shell=True)")
        assert not outside.exists()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("0.0.0.0", 0)) as found:
        found.settimeout(0.2)
        yield found


def test_it_has_loopback_and_no_network(tmp_path: Path, server: socket.socket) -> None:
    address = ("127.0.0.1", server.getsockname()[1])
    assert sandboxed(tmp_path, f"socket.create_connection({address!r}, 3)") == REFUSED
    with pytest.raises(TimeoutError):
        server.accept()
    assert sandboxed(tmp_path, "s = socket.create_server(('127.0.0.1', 0))") == OK


def test_hidden_folders_are_empty_even_around_its_own(tmp_path: Path) -> None:
    own = tmp_path / "course" / "own"
    own.mkdir(parents=True)
    (tmp_path / "course" / "solution").write_text("42")
    hide = f"--mask={tmp_path / 'course'}"
    assert sandboxed(own, "open('../solution')", hide) == REFUSED
    assert sandboxed(own, "open('x', 'w')", hide) == OK
    assert (own / "x").exists()


def test_what_it_starts_ends_with_it_and_at_the_deadline(tmp_path: Path) -> None:
    started = time.monotonic()
    script = "setsid sleep 1234 & sleep 1234"
    command = [*SANDBOX, "--seconds=1", f"--writable={tmp_path}", "--", "sh", "-c", script]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 124
    assert time.monotonic() - started < 20
    assert wait_until(lambda: not sleepers(), 5)


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    process = subprocess.Popen([*SANDBOX, "--", "sleep", "1235"], cwd=tmp_path)
    assert wait_until(lambda: bool(sleepers("1235")), 10)
    process.kill()
    process.wait()
    assert wait_until(lambda: not sleepers("1235"), 5)


def test_workers_in_it_can_have_a_network_of_their_own(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[1])
    what = f"sys.path.insert(0, {root!r}); from helpers.system.netns import netns_supported; "
    assert sandboxed(tmp_path, what + "assert netns_supported()") == OK


needs_limits = pytest.mark.skipif(not limits_are_permitted(), reason="no control groups here")


@needs_limits
def test_it_has_no_more_memory_than_it_is_given_all_its_processes_together(tmp_path: Path) -> None:
    greedy = "x = bytearray(b'1') * 200_000_000"
    limit = "--memory=300000000"
    assert sandboxed(tmp_path, greedy, limit) == OK
    assert sandboxed(tmp_path, f"y = bytearray(b'1') * 600_000_000; {greedy}", limit) != OK
    both = f"subprocess.run([sys.executable, '-c', {greedy + '; import time; time.sleep(1)'!r}])"
    start_two = (
        f"import threading; threading.Thread(target=lambda: {both}).start(); {greedy}; {both}"
    )
    if os.getuid() == 0:  # for somebody else, the limit is each process's
        assert sandboxed(tmp_path, start_two, limit) != OK
        assert sandboxed(tmp_path, start_two, "--memory=900000000") == OK


@needs_limits
@pytest.mark.skipif(os.getuid() != 0, reason="only root has limits that can be written to")
def test_it_cannot_raise_its_own_limit(tmp_path: Path) -> None:
    """In a user namespace, and one of control groups, it may write to what is its own."""
    raising = "mount -t cgroup -o memory none m && echo 9000000000 > m/memory.limit_in_bytes"
    second = "mount -t cgroup2 none m && echo max > m/memory.max"
    for how in (raising, second):
        undo = f"subprocess.run(['unshare', '-UrmC', 'sh', '-c', {f'mkdir -p m; {how}'!r}])"
        greedy = f"{undo}; x = bytearray(b'1') * 600_000_000"
        assert sandboxed(tmp_path, greedy, "--memory=300000000") != OK


@needs_limits
def test_it_cannot_start_processes_without_end(tmp_path: Path) -> None:
    bomb = "[time.sleep(50) for n in range(100) if os.fork() == 0]"
    assert sandboxed(tmp_path, f"import time; {bomb}", "--processes=50") == REFUSED
    assert sandboxed(tmp_path, f"import time; {bomb}", "--processes=150") == OK


@needs_limits
def test_nothing_is_left_of_its_control_groups(tmp_path: Path) -> None:
    command = [*SANDBOX, "--processes=50", "--memory=300000000", "--", "sh", "-c", "sleep 50 &"]
    process = subprocess.Popen(command, cwd=tmp_path)
    process.wait()
    for place in ("sandbox-{}", "*/sandbox-{}"):
        assert not list(Path("/sys/fs/cgroup").glob(place.format(process.pid)))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_it_holds_without_privileges_too(tmp_path: Path) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("no Python that everybody may run")
    tmp_path.chmod(0o777)
    sandbox = shutil.copy(SANDBOX[-1], "/tmp/sandbox-of-a-test.py")
    os.chmod(sandbox, 0o644)
    code = TRY.format(what="open('/tmp/x-of-a-test', 'w')")
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, sandbox]
    try:
        done = subprocess.run(
            [*command, "--", python, "-c", code],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.unlink(sandbox)
    assert done.stdout == REFUSED, done.stderr


def sleepers(seconds: str = "1234") -> list[int]:
    """The processes that sleep so long, wherever they are."""
    sleeping = [p.pid for p in psutil.process_iter() if command_of(p) == ["sleep", seconds]]
    return [pid for pid in sleeping if is_running(pid)]
