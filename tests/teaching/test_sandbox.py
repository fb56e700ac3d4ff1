"""The sandbox of submissions: its restrictions, as root and without privileges."""

from __future__ import annotations

import os
import pty
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import ROOT, unprivileged
from tests.support.processes import command_of, is_running, wait_until
from tools.teaching.grading import SANDBOX, limits_are_permitted, sandbox_is_permitted
from tools.teaching.sandbox import remove_folder

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
Sandboxed = Callable[..., str]


def sandboxed(folder: Path, what: str, *options: str, python: str = sys.executable) -> str:
    """The output of a line of Python in the sandbox, which may write to `folder`."""
    command = [*SANDBOX, f"--writable={folder}", *options, "--", python, "-I", "-c"]
    done = subprocess.run(
        [*command, TRY.format(what=what)], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout or done.stderr


def sandboxed_by_a_user(folder: Path, what: str, *options: str) -> str:
    """The same, started by an unprivileged user."""
    unprivileged.give(folder)
    command = [*SANDBOX, f"--writable={folder}", *options, "--", sys.executable, "-I", "-c"]
    done = unprivileged.run([*command, TRY.format(what=what)], folder)
    return done.stdout or done.stderr


@pytest.fixture(params=["as root", "as a user"])
def attempt(request: pytest.FixtureRequest) -> Sandboxed:
    """`sandboxed`, by root and by an unprivileged user."""
    if request.param == "as a user":
        return sandboxed_by_a_user
    if os.getuid() != 0:
        pytest.skip("only root can start it as root")
    return sandboxed


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A writable folder for the sandbox, inside a folder that it does not see."""
    folder = tmp_path / "own"
    folder.mkdir()
    return folder


def test_it_may_write_into_its_folder_and_nowhere_else(
    tmp_path: Path, own: Path, attempt: Sandboxed
) -> None:
    assert attempt(own, "open('x', 'w').write('1')") == OK
    assert (own / "x").read_text() == "1"
    for path in (
        Path.home() / "x-of-a-test",
        Path("/usr/x-of-a-test"),
        Path(sys.prefix) / "lib" / "x-of-a-test",
        ROOT / "helpers" / "x-of-a-test",
    ):
        assert attempt(own, f"open({str(path)!r}, 'w').write('1')") == REFUSED
        assert not path.exists()
    attempt(own, f"open({str(tmp_path / 'x')!r}, 'w').write('1')")  # in its own /tmp
    assert not (tmp_path / "x").exists()
    assert attempt(own, "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)") == REFUSED
    assert attempt(own, "open('/dev/null', 'w').write('1'); open('/dev/shm/x', 'w')") == OK


def test_every_file_system_in_it_is_without_devices_and_most_are_read_only(
    own: Path, attempt: Sandboxed
) -> None:
    printed = attempt(own, "print(open('/proc/self/mountinfo').read())").removesuffix(OK)
    mounts = {line.split()[4]: line.split()[5].split(",") for line in printed.strip().splitlines()}
    assert {"/", "/usr", "/proc", str(own)} <= set(mounts)
    devices = {f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero", "pts")}
    for place, options in mounts.items():
        assert "nosuid" in options, place
        assert "nodev" in options or place in devices, place
    written = {place for place, options in mounts.items() if "ro" not in options}
    assert written == {"/tmp", "/dev/shm", "/dev/pts", "/proc", str(own)}


def test_it_is_an_unprivileged_user_without_capabilities(own: Path, attempt: Sandboxed) -> None:
    printed = attempt(own, "print(os.getresuid(), os.getgroups(), open('/proc/1/status').read())")
    assert "(0, 0, 0)" not in printed
    assert "CapEff:\t0000000000000000" in printed
    assert attempt(own, "os.setuid(0)") == REFUSED
    assert attempt(own, "os.readlink('/proc/1/exe')") == REFUSED  # its target is not read-only


def test_devices_in_a_folder_that_it_may_read_are_closed(tmp_path: Path, own: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make devices")
    readable = tmp_path / "readable"
    readable.mkdir()
    os.mknod(readable / "null", 0o020666, os.makedev(1, 3))
    os.chmod(readable / "null", 0o666)
    (readable / "null").read_bytes()
    what = f"open({str(readable / 'null')!r})"
    for attempted in (sandboxed, sandboxed_by_a_user):
        assert attempted(own, what, f"--readable={readable}") == REFUSED
    nodes = "print(sorted(name for name in os.listdir('/dev')))"
    assert sandboxed(own, nodes).startswith(
        "['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm',"
    )


def test_unix_sockets_of_the_machine_are_out_of_reach(
    tmp_path: Path, own: Path, attempt: Sandboxed
) -> None:
    os.chmod(tmp_path, 0o777)
    path = f"/tmp/socket-of-a-test-{os.getpid()}"
    for name in (path, f"\0{path}"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
            server.listen()
            if name == path:
                os.chmod(path, 0o777)
            assert attempt(own, f"socket.socket(socket.AF_UNIX).connect({name!r})") == REFUSED
        Path(path).unlink(missing_ok=True)


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")
def test_a_tmux_outside_executes_nothing_for_it(tmp_path: Path, own: Path) -> None:
    tmux = ["tmux", "-f", "/dev/null", "-S", f"/tmp/tmux-of-a-test-{os.getpid()}"]
    mark = tmp_path / "mark"
    subprocess.run(
        [*tmux, "new-session", "-d", "sleep 600"],
        check=True,
        env={**os.environ, "SHELL": "/bin/sh"},
    )
    try:
        escape = [*tmux, "run-shell", f"touch {mark}"]
        assert sandboxed(own, f"subprocess.run({escape!r}, check=True)") != OK
        assert not mark.exists()
        subprocess.run(escape, check=True)  # which works outside
        assert wait_until(mark.exists, 10)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
        Path(tmux[-1]).unlink(missing_ok=True)


def test_terminals_and_fifos_of_the_machine_are_out_of_reach(own: Path, attempt: Sandboxed) -> None:
    fifo = f"/tmp/fifo-of-a-test-{os.getpid()}"
    os.mkfifo(fifo)
    os.chmod(fifo, 0o666)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    ours, theirs = pty.openpty()
    terminal = os.ttyname(theirs)
    os.chmod(terminal, 0o666)
    try:
        for path in (fifo, terminal):
            assert attempt(own, f"os.open({path!r}, os.O_WRONLY | os.O_NONBLOCK)") == REFUSED
        assert attempt(own, "import pty; pty.openpty(); open('/dev/tty')") == REFUSED
        assert attempt(own, "import pty; pty.openpty()") == OK  # its own terminal
    finally:
        for number in (reader, ours, theirs):
            os.close(number)
        os.unlink(fifo)


KEYS = """
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
keyctl, add_key = {"x86_64": (250, 248), "aarch64": (219, 217)}[os.uname().machine]
assert libc.syscall(keyctl, 1, None) > 0, "a session keyring"
key = libc.syscall(add_key, b"user", b"password", b"hunter2", 7, -3)
assert key > 0
libc.syscall(keyctl, 5, key, 0x3F3F3F3F)  # who has its number may read it
read = "import ctypes; b = b' ' * 7; print(ctypes.CDLL(None).syscall(KEYCTL, 11, KEY, b, 7), b)"
read = read.replace("KEYCTL", str(keyctl)).replace("KEY", str(key))
exec(read)
subprocess.run([*sys.argv[1:], read], check=True)
"""


@pytest.mark.parametrize("run", [subprocess.run, unprivileged.run])
def test_keys_of_the_teacher_cannot_be_read(own: Path, run: Callable[..., Any]) -> None:
    sandbox = [*SANDBOX, f"--writable={own}", "--", sys.executable, "-I", "-c"]
    where = [unprivileged.give(own)] if run is unprivileged.run else []
    done = run([sys.executable, "-c", KEYS, *sandbox], *where, capture_output=True, text=True)
    if "keyring" in done.stderr:
        pytest.skip("the kernel has no keys")
    outside, inside = done.stdout.splitlines()
    assert outside == "7 b'hunter2'"
    assert inside == "-1 b'       '", done.stderr


def test_a_setuid_file_gives_nobody_anything(own: Path, attempt: Sandboxed) -> None:
    made = "import shutil; shutil.copy('/usr/bin/id', 'id'); os.chmod('id', 0o4755)"
    assert attempt(own, made) == OK
    (own / "root").write_bytes(Path("/usr/bin/id").read_bytes())
    (own / "root").chmod(0o4755)  # owned by the grader, planted by a student
    ran = attempt(own, "print(subprocess.check_output(['./root', '-u'], text=True))")
    assert ran.split() not in (["0", "ok"], [str(os.geteuid()), "ok"]) or os.geteuid() != 0


def test_it_cannot_undo_what_holds_it(tmp_path: Path, own: Path, attempt: Sandboxed) -> None:
    outside = tmp_path / "outside"
    for command in (
        f"mount -o remount,bind,rw / ; mkdir -p {tmp_path}; touch {outside}",
        "unshare -Urm sh -c 'mount -o remount,bind,rw /usr && touch /usr/x-of-a-test'",
        f"unshare -Urmp --fork sh -c 'mount -t proc proc /proc; umount -l / ; touch {outside}'",
    ):
        attempt(own, f"subprocess.run({command!r}, shell=True)")
        assert not outside.exists()
        assert not Path("/usr/x-of-a-test").exists()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("0.0.0.0", 0)) as found:
        found.settimeout(0.2)
        yield found


def test_it_has_loopback_and_no_network(
    own: Path, server: socket.socket, attempt: Sandboxed
) -> None:
    address = ("127.0.0.1", server.getsockname()[1])
    assert attempt(own, f"socket.create_connection({address!r}, 3)") == REFUSED
    with pytest.raises(TimeoutError):
        server.accept()
    assert attempt(own, "s = socket.create_server(('127.0.0.1', 0))") == OK


def test_solutions_history_and_other_courses_do_not_exist_in_it(
    own: Path, attempt: Sandboxed
) -> None:
    for path in ("notebooks/solutions", ".git", "course", "tests"):
        assert attempt(own, f"os.listdir({str(ROOT / path)!r})") == REFUSED
    assert attempt(own, f"os.listdir({str(ROOT / 'helpers')!r})") == OK


def test_hidden_folders_are_empty_even_around_its_own(tmp_path: Path, attempt: Sandboxed) -> None:
    own = tmp_path / "course" / "own"
    own.mkdir(parents=True)
    (tmp_path / "course" / "solution").write_text("42")
    options = (f"--mask={tmp_path / 'course'}", f"--readable={tmp_path}")
    assert attempt(own, "open('../solution')", *options) == REFUSED
    assert attempt(own, "open('x', 'w')", *options) == OK
    assert (own / "x").exists()
    assert attempt(own, "open('../solution')", options[1]) == OK


def test_what_it_starts_ends_with_it_and_at_the_deadline(tmp_path: Path) -> None:
    script = "setsid sleep 1234 & sleep 1234"
    command = [*SANDBOX, "--seconds=1", f"--writable={tmp_path}", "--", "sh", "-c", script]
    assert subprocess.run(command, cwd=tmp_path, timeout=60, check=False).returncode == 124
    assert wait_until(lambda: not sleepers(), 5)


def test_it_ends_with_its_own_process(tmp_path: Path) -> None:
    process = subprocess.Popen([*SANDBOX, "--", "sleep", "1235"], cwd=tmp_path)
    assert wait_until(lambda: bool(sleepers("1235")), 10)
    process.kill()
    process.wait()
    assert wait_until(lambda: not sleepers("1235"), 5)


def test_it_ends_with_the_process_that_started_it_and_its_folder_goes(own: Path) -> None:
    command = [*SANDBOX, f"--writable={own}", f"--remove={own}", "--", "sleep", "1236"]
    parent = f"import subprocess, time; subprocess.Popen({command!r}, start_new_session=True); "
    process = subprocess.Popen([sys.executable, "-c", parent + "time.sleep(99)"], cwd=own)
    assert wait_until(lambda: bool(sleepers("1236")), 20)
    process.kill()
    process.wait()
    assert wait_until(lambda: not sleepers("1236") and not own.exists(), 10)


def test_a_deep_folder_is_removed_and_no_link_in_it_is_followed(
    tmp_path: Path, own: Path, attempt: Sandboxed
) -> None:
    (tmp_path / "precious").write_text("1")
    (tmp_path / "precious").chmod(0o400)
    deep = (
        f"os.symlink({str(tmp_path / 'precious')!r}, 'link'); "
        "[(os.mkdir('d'), os.chdir('d')) for level in range(1500)]; os.mkdir('x', 0)"
    )
    assert attempt(own, deep) == OK
    remove_folder(str(own))
    assert not own.exists()
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o400


def test_workers_in_it_can_have_a_network_of_their_own(tmp_path: Path) -> None:
    what = f"sys.path.insert(0, {str(ROOT)!r}); from helpers.system.netns import netns_supported; "
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
    if os.getuid() == 0:  # for other users, the limit applies to each process
        assert sandboxed(tmp_path, start_two, limit) != OK
        assert sandboxed(tmp_path, start_two, "--memory=900000000") == OK


@needs_limits
@pytest.mark.skipif(os.getuid() != 0, reason="only root has limits that can be written to")
def test_it_cannot_raise_its_own_limit(tmp_path: Path) -> None:
    """In a user namespace and a control group namespace, it may write to its own files."""
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
    for place in ("sandbox-*-{}", "*/sandbox-*-{}"):
        assert not list(Path("/sys/fs/cgroup").glob(place.format(process.pid)))


@needs_limits
@pytest.mark.skipif(os.getuid() != 0, reason="only root has control groups")
def test_two_in_two_pid_namespaces_leave_each_other_alone(tmp_path: Path) -> None:
    """Containers may share control groups, but a PID is only valid in one namespace."""
    limit = ["--processes=50", "--", "sleep"]
    elsewhere = ["unshare", "--pid", "--fork", "--mount-proc", *SANDBOX, *limit, "1237"]
    process = subprocess.Popen(elsewhere, cwd=tmp_path, start_new_session=True)
    assert wait_until(lambda: bool(sleepers("1237")), 20)
    for _time in range(2):
        subprocess.run([*SANDBOX, *limit, "0"], check=True, cwd=tmp_path)
    assert sleepers("1237")
    os.killpg(process.pid, 9)
    process.wait()
    assert wait_until(lambda: not sleepers("1237"), 10)


def sleepers(seconds: str = "1234") -> list[int]:
    """The processes that sleep that long, wherever they are."""
    sleeping = [p.pid for p in psutil.process_iter() if command_of(p) == ["sleep", seconds]]
    return [pid for pid in sleeping if is_running(pid)]
