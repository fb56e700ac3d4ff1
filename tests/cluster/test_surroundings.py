"""Programs in unusual environments: closed descriptors, files with names of modules."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import LocalCluster
from helpers.cluster import checks
from helpers.cluster.environment import base_env
from helpers.errors import ClusterError, ConfigError
from helpers.protocol.readers_modules import folders
from helpers.system import netns
from helpers.system.netns import netns_supported
from tests.support import ROOT
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn

SECONDS = 240
OPEN = "ports are open to the network"
MODULES = ("random", "signal", "typing", "json", "numpy", "queue", "profile", "copy", "helpers")


def run_program(
    folder: Path, text: str, *, name: str = "program.py", cwd: Path | None = None, **options: Any
) -> str:
    """Returns the output of a program in `folder`, including standard error."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    done = subprocess.run(
        [sys.executable, str(folder / name)],
        cwd=cwd or folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **options},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.stdout


# Ports


def about_isolation(isolated: bool) -> list[str]:
    with (
        warnings.catch_warnings(record=True) as said,
        LocalCluster(2, network="isolated" if isolated else "host") as cluster,
    ):
        warnings.simplefilter("always")
        assert cluster.run(os.getpid)
    return [str(one.message) for one in said if OPEN in str(one.message)]


def test_run_says_once_that_the_ports_are_open() -> None:
    assert len(about_isolation(False)) == 1
    if netns_supported():
        assert about_isolation(True) == []


def test_run_says_that_the_ports_are_open_where_namespaces_are_forbidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(netns, "netns_supported", lambda: False)
    assert len(about_isolation(True)) == 1


# Standard descriptors

CLOSED = ["<&-", "<&- >&- 2>&-"]
MORE_CLOSED = [">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-"]
IS_PERMITTED = """
import sys
from pathlib import Path
from helpers.system.virtual_hosts import virtual_hosts_supported
from helpers.system.netns import netns_supported
Path(sys.argv[1]).write_text(f"{netns_supported()} {virtual_hosts_supported()}")
"""
RUN = """
import sys, warnings
from pathlib import Path
from helpers import LocalCluster
isolated = set()
def note(event):
    if event["event"] == "started":
        isolated.add(event["isolated"])
with LocalCluster(2) as cluster:
    values = cluster.run(lambda: 1, on_event=note)
Path(sys.argv[1]).write_text(f"{values} {isolated}")
"""


def run_closed(program: str, closed: str, folder: Path) -> str:
    command = f'exec "$0" -c "$1" "$2" {closed}'
    result = folder / "result"
    subprocess.run(
        ["sh", "-c", command, sys.executable, program, str(result)],
        cwd=ROOT,
        timeout=SECONDS,
        check=False,
    )
    return result.read_text()


@pytest.mark.parametrize(
    "closed", [*CLOSED, *(pytest.param(one, marks=pytest.mark.programs) for one in MORE_CLOSED)]
)
def test_namespaces_are_permitted_whatever_standard_descriptor_is_closed(
    closed: str, tmp_path: Path
) -> None:
    open_ones = run_closed(IS_PERMITTED, "", tmp_path)
    assert run_closed(IS_PERMITTED, closed, tmp_path) == open_ones


@pytest.mark.programs
@pytest.mark.parametrize("closed", [*CLOSED, *MORE_CLOSED])
def test_workers_are_isolated_whatever_standard_descriptor_is_closed(
    closed: str, tmp_path: Path
) -> None:
    assert run_closed(RUN, closed, tmp_path) == f"[1, 1] {{{netns_supported()}}}"


# Files with the name of a module

PLAIN = """
from helpers import LocalCluster
with LocalCluster(2) as cluster:
    print("values", cluster.run(lambda: 1))
"""


def test_files_named_as_modules_beside_a_notebook_do_not_disturb_its_workers(
    tmp_path: Path,
) -> None:
    """As in a kernel, where the standard library precedes the notebook's folder."""
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    for name in MODULES:
        (notebooks / f"{name}.py").write_text(f"raise SystemExit('{name}.py was imported')")
    told = run_program(tmp_path / "kernel", PLAIN, cwd=notebooks)
    assert "values [1, 1]" in told, told


@pytest.mark.programs
@pytest.mark.parametrize("forks", [True, False], ids=["forked", "started anew"])
@pytest.mark.parametrize("name", MODULES)
def test_one_file_named_as_a_module_does_not_disturb_the_workers(
    name: str, forks: bool, tmp_path: Path
) -> None:
    notebooks = tmp_path / "notebooks"
    (notebooks / name).mkdir(parents=True)
    (notebooks / name / "__init__.py").write_text("raise SystemExit('was imported')")
    start = "" if forks else "import helpers.cluster.processes as p\np.can_fork = lambda: False\n"
    told = run_program(tmp_path / "kernel", start + PLAIN, cwd=notebooks)
    assert "values [1, 1]" in told, told


def test_a_file_that_keeps_the_workers_from_starting_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("SEED = 1\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    events: list[Any] = []
    with LocalCluster(2) as cluster, pytest.raises(ClusterError, match="rename the file") as caught:
        cluster.run(os.getpid, on_event=events.append)
    assert str(tmp_path / "random.py") in str(caught.value)
    assert "SIGKILL" not in str(caught.value)
    assert "group_restart" not in [event["event"] for event in events]


OWN_PROFILE = "RATE = 0.5\ndef rate():\n    return RATE\n"


@pytest.mark.parametrize(
    "function",
    ["profile.rate", pytest.param("lambda: profile.rate()", marks=pytest.mark.programs)],
)
def test_a_function_of_the_readers_own_module_with_a_standard_name_runs(
    function: str, tmp_path: Path
) -> None:
    (tmp_path / "profile.py").write_text(OWN_PROFILE)
    told = run_program(tmp_path, "import profile\n" + PLAIN.replace("lambda: 1", function))
    assert "values [0.5, 0.5]" in told, told


@pytest.mark.programs
def test_a_module_that_hides_an_installed_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrapt.py").write_text(OWN_PROFILE)
    told = run_program(tmp_path, "import wrapt\n" + PLAIN.replace("lambda: 1", "wrapt.rate"))
    assert f"{tmp_path / 'wrapt.py'} has the name of another module" in told, told
    assert "Rename the file" in told


# Folders and flags

CHANGED = """
import os, sys as system
system.path.append("lib")
import steps
os.chdir("/")
""" + PLAIN.replace("lambda: 1", "steps.rate")


def test_a_module_from_a_relative_folder_is_found_after_chdir(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "steps.py").write_text(OWN_PROFILE)
    told = run_program(tmp_path, CHANGED)
    assert "values [0.5, 0.5]" in told, told


def test_folders_are_those_that_python_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "looked_for.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["lib", *sys.path])
    import looked_for  # type: ignore[import-not-found]  # noqa: F401

    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["etc", *sys.path])
    assert folders()[:2] == ["/etc", str(tmp_path / "lib")]
    assert folders()[-1] == "/"


FLAGS = """
from absl import app, flags
from helpers import LocalCluster
flags.DEFINE_float("rate", 0.1, "the learning rate")
NAMES = flags.DEFINE_list("names", [], "names")
FLAGS = flags.FLAGS
def values():
    return [FLAGS.rate, NAMES.value, FLAGS["rate"].value]
def main(argv):
    with LocalCluster(1) as cluster:
        print("values", cluster.run(values))
if __name__ == "__main__":
    app.run(main, ["program", "--rate=0.5", "--names=a,b"])
"""
IN_A_MODULE = """
from absl import flags
flags.DEFINE_integer("steps", 1, "how many steps")
def steps():
    return flags.FLAGS.steps
"""
OF_A_MODULE = """
from absl import app, flags
import of_flags
def main(argv):
    from helpers import LocalCluster
    with LocalCluster(1) as cluster:
        print("values", cluster.run(of_flags.steps))
app.run(main, ["program", "--steps=7"])
"""


def test_flags_have_in_the_workers_the_values_that_the_program_parsed(tmp_path: Path) -> None:
    told = run_program(tmp_path, FLAGS)
    assert "values [[0.5, ['a', 'b'], 0.5]]" in told, told


@pytest.mark.programs
def test_flags_of_a_module_have_their_values_too(tmp_path: Path) -> None:
    (tmp_path / "of_flags.py").write_text(IN_A_MODULE)
    told = run_program(tmp_path, OF_A_MODULE)
    assert "values [7]" in told, told


# Deleted folders, limits, strange names


@pytest.fixture
def deleted_folder(tmp_path: Path) -> Iterator[None]:
    before = os.getcwd()
    folder = tmp_path / "deleted"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    yield
    os.chdir(before)


@pytest.mark.usefixtures("deleted_folder")
@pytest.mark.parametrize("does", ["run", "train"])
def test_a_program_whose_folder_is_deleted_is_told_so(does: str) -> None:
    with LocalCluster(1) as cluster, pytest.raises(ConfigError, match="has been deleted"):
        if does == "run":
            cluster.run(os.getpid)
        else:
            cluster.train(tiny_model_fn, tiny_input_fn, steps=1, params=PARAMS)


FEW_FILES = """
import resource
from helpers import LocalCluster
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
with LocalCluster(2) as cluster:
    cluster.run(lambda: 1)
"""


@pytest.mark.parametrize(
    "limit", [20, *(pytest.param(n, marks=pytest.mark.programs) for n in (8, 12, 16))]
)
def test_a_low_limit_of_open_files_is_named(limit: int, tmp_path: Path) -> None:
    told = run_program(tmp_path, FEW_FILES.format(limit=limit))
    assert f"ConfigError: Too many files are open: this process may open {limit}" in told, told


def test_a_model_dir_that_tensorflow_cannot_open_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bytes that are not UTF-8.*set TMPDIR"):
        checks.check_writable(os.fsdecode(b"/tmp/\xff/model"))


@pytest.mark.programs
def test_a_temporary_folder_that_is_no_utf_8_runs_functions_and_refuses_to_train(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    with LocalCluster(1) as cluster:
        assert cluster.run(lambda: 1) == [1]
        with pytest.raises(ConfigError, match="not UTF-8"):
            cluster.train(tiny_model_fn, tiny_input_fn, steps=1, params=PARAMS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
@pytest.mark.parametrize("inside", ["", "eval"])
def test_a_link_of_another_user_in_model_dir_is_refused_and_its_file_untouched(
    inside: str, tmp_path: Path
) -> None:
    important, folder = tmp_path / "important", tmp_path / "model" / inside
    important.write_text("important")
    folder.mkdir(parents=True)
    link = folder / "model.ckpt-0.index"
    link.symlink_to(important)
    checks.check_links(str(tmp_path / "model"))  # the user's own link is allowed
    os.lchown(link, 12345, 12345)
    with LocalCluster(1) as cluster, pytest.raises(ConfigError, match=r"model\.ckpt-0\.index is a"):
        cluster.train(
            tiny_model_fn,
            tiny_input_fn,
            steps=1,
            params=PARAMS,
            model_dir=tmp_path / "model",
            progress=False,
        )
    assert important.read_text() == "important"


def write_without_end(megabytes: int, start: bytes) -> str:
    """Writes to every open pipe, one of which carries the events."""
    pipes = [int(fd) for fd in os.listdir("/proc/self/fd") if is_writable_pipe(int(fd))]
    for pipe in pipes:
        os.write(pipe, start)
        for _time in range(megabytes):
            left = b"x" * 1_000_000
            while left:
                left = left[os.write(pipe, left) :]
        os.write(pipe, b"\n")
    return "done"


def is_writable_pipe(descriptor: int) -> bool:
    import fcntl

    try:
        writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        return descriptor > 2 and writable and "pipe:" in os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False


@pytest.mark.parametrize("start", [b"", b'{"event": "notice", "message": "'])
def test_what_a_function_writes_without_an_end_does_not_fill_the_notebooks_memory(
    start: bytes,
) -> None:
    with LocalCluster(1) as cluster:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert cluster.run(lambda: write_without_end(300, start)) == ["done"]
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) / 1024 < 100


def test_workers_keep_their_docstrings_which_tensorflow_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for level, expected in {"2": "1", "1": "1", "0": "0", "x": "1"}.items():
        monkeypatch.setenv("PYTHONOPTIMIZE", level)
        assert base_env()["PYTHONOPTIMIZE"] == expected
    monkeypatch.delenv("PYTHONOPTIMIZE")
    assert "PYTHONOPTIMIZE" not in base_env()


@pytest.mark.programs
def test_a_program_without_docstrings_trains(tmp_path: Path) -> None:
    function = "lambda: bool(__import__('tensorflow').keras.layers.Dense(1).units)"
    told = run_program(tmp_path, PLAIN.replace("lambda: 1", function), PYTHONOPTIMIZE="2")
    assert "values [True, True]" in told, told


@pytest.mark.parametrize("function", ["set_trace", "_driver_set_trace"])
def test_workers_do_not_use_the_debugger_that_ray_sets(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONBREAKPOINT", f"ray.util.rpdb.{function}")
    assert "PYTHONBREAKPOINT" not in base_env()
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    assert base_env()["PYTHONBREAKPOINT"] == "0"
