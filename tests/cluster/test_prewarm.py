"""Workers are got ready before they are asked for, and nothing is left of that."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import psutil
import pytest

from helpers import LocalCluster
from helpers.cluster import prewarm
from helpers.cluster.fork_client import ForkServer, can_fork
from tests.support.processes import FORK_SERVER, command_of, is_running, wait_until

pytestmark = pytest.mark.skipif(not can_fork(), reason="forks need Linux 5.3 and no GPU")


def program(code: str) -> Any:
    """What a new program prints at last, as JSON."""
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


def test_a_notebook_that_imports_tensorflow_meanwhile_has_its_workers_from_that_process() -> None:
    began, parent, servers = program("""
        import json, os
        import psutil
        import helpers.estimator
        from helpers import LocalCluster, init

        init()
        [server] = psutil.Process().children()
        import tensorflow_datasets
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        with LocalCluster(1) as cluster:
            [parent] = cluster.run(os.getppid)
        print(json.dumps([server.pid, parent, len(psutil.Process().children())]))
    """)
    assert parent == began
    assert servers == 1


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
        assert repr(cluster) == "LocalCluster(2 workers, RING, its workers are being got ready)"
        [server] = ForkServer.running()
        assert not server.is_ready
        assert wait_until(lambda: not prewarm.is_prewarming(), 60)
        assert server.is_ready
        assert repr(cluster) == "LocalCluster(2 workers, RING, idle)"
        again = LocalCluster(workers=1)
        assert ForkServer.running() == [server]
        assert repr(again) == "LocalCluster(1 worker, AUTO, idle)"
    [process] = [p for p in psutil.Process().children() if p.pid == server._process.pid]
    assert FORK_SERVER in command_of(process)
    server.shutdown_when_idle()


def test_where_workers_are_not_forked_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prewarm, "can_fork", lambda: False)
    monkeypatch.setattr(ForkServer, "_servers", {})
    prewarm.prewarm()
    assert not ForkServer.running()
    assert not prewarm.is_prewarming()
