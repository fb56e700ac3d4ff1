"""Workers are prepared before they are needed, and unused ones are removed."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import textwrap
from importlib import metadata
from typing import Any

import psutil
import pytest

from helpers import LocalCluster
from helpers.cluster import prewarm
from helpers.cluster.fork_client import ForkServer, can_fork
from tests.support.faults import needs_keras_3
from tests.support.processes import FORK_SERVER, command_of, is_running, wait_until

pytestmark = pytest.mark.skipif(not can_fork(), reason="forks need Linux 5.3 and no GPU")


def program(code: str) -> Any:
    """Returns the last line that a new program prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_an_import_starts_no_process_and_begin_starts_one_that_goes_with_the_program() -> None:
    seen = program("""
        import json
        import psutil
        import helpers.course.panel
        from helpers import LocalCluster, init

        before = len(psutil.Process().children())
        spoken = init(lang="ko")
        [server] = psutil.Process().children()
        print(json.dumps([before, spoken, server.pid, server.cmdline()]))
    """)
    before, spoken, pid, command = seen
    assert before == 0 and spoken is None
    assert FORK_SERVER in command
    assert wait_until(lambda: not is_running(pid), 5)


@pytest.mark.parametrize("first", ["helpers.estimator", "keras"])
def test_a_notebook_gets_its_workers_from_the_process_that_init_started(first: str) -> None:
    """The workers have the same Keras as the notebook, so they need no second fork server."""
    began, parent, servers = program(f"""
        import json, os
        import psutil
        os.environ.pop("TF_USE_LEGACY_KERAS", None)
        import {first}
        import tensorflow_datasets
        from helpers import LocalCluster, init

        init()
        [server] = psutil.Process().children()
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        with LocalCluster(1) as cluster:
            [parent] = cluster.run(os.getppid)
        print(json.dumps([server.pid, parent, len(psutil.Process().children())]))
    """)
    assert parent == began
    assert servers == 1


@needs_keras_3
@pytest.mark.parametrize(("legacy", "keras"), [("0", "keras"), ("1", "tf-keras")])
def test_init_prints_the_versions_and_imports_no_tensorflow(legacy: str, keras: str) -> None:
    [printed, imported] = program(f"""
        import contextlib, io, json, os, sys
        os.environ["TF_USE_LEGACY_KERAS"] = "{legacy}"
        from helpers import init

        with contextlib.redirect_stdout(io.StringIO()) as text:
            init()
        print(json.dumps([text.getvalue(), "tensorflow" in sys.modules]))
    """)
    versions = [metadata.version(name) for name in ("tensorflow", keras, "multiworker-lessons")]
    assert printed == "Python {}, TensorFlow {}, Keras {}, course {}\n".format(
        platform.python_version(), *versions
    )
    assert not imported


def test_whoever_only_sends_functions_imports_no_tensorflow() -> None:
    imported, steps = program("""
        import json, sys
        from helpers import LocalCluster, input_fn, model_fn

        with LocalCluster(2) as cluster:
            result = cluster.train(model_fn, input_fn, steps=2, evaluate=None)
        print(json.dumps(["tensorflow" in sys.modules, result.steps]))
    """)
    assert not imported
    assert steps == 2


def test_a_cluster_says_while_its_workers_are_being_got_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ForkServer, "_servers", {})
    with LocalCluster(workers=2, collective="RING") as cluster:
        assert repr(cluster) == "LocalCluster(2 workers, RING, its workers are being prepared)"
        [server] = ForkServer.running()
        assert not server.is_ready
        assert wait_until(lambda: not prewarm.is_prewarming(), 60)
        assert server.is_ready
        assert repr(cluster) == "LocalCluster(2 workers, RING, not running)"
        again = LocalCluster(workers=1)
        assert ForkServer.running() == [server]
        assert repr(again) == "LocalCluster(1 worker, AUTO, not running)"
    [process] = [p for p in psutil.Process().children() if p.pid == server._process.pid]
    assert FORK_SERVER in command_of(process)
    server.shutdown_when_idle()


def test_where_workers_are_not_forked_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prewarm, "can_fork", lambda: False)
    monkeypatch.setattr(ForkServer, "_servers", {})
    prewarm.prewarm()
    assert not ForkServer.running()
    assert not prewarm.is_prewarming()
