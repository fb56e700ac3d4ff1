"""What is left after the end of a kernel, and worker cells in IPython's terminal."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pexpect
import psutil
import pytest

from helpers.system.keras_version import LEGACY_KERAS
from tests.support.kernel import running_kernel
from tests.support.processes import is_running, wait_until

DEADLINE = 120.0
PROMPT = r"In \[\d+\]: "
CHILDREN = """
import os, subprocess
children = [subprocess.Popen(["sleep", "600"], start_new_session=new) for new in (False, True)]
"""


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_and_no_folder_outlives_a_kernel(number: int) -> None:
    with running_kernel() as kernel:
        kernel.run("%load_ext helpers")
        kernel.run("%workers start 2")
        kernel.run(f"%%workers{CHILDREN}")
        folder = Path(kernel.run("%%chief\nprint(os.environ['TMPDIR'])").text.split()[1]).parent
        started = psutil.Process(kernel.pid).children(recursive=True)
        assert len(started) >= 7  # the fork server, two workers and their four processes
        os.kill(kernel.pid, number)
        assert wait_until(lambda: not any(is_running(one.pid) for one in started), DEADLINE)
        assert not folder.exists()


def test_a_kernel_that_is_shut_down_leaves_no_folder() -> None:
    with running_kernel() as kernel:
        kernel.run("%load_ext helpers")
        kernel.run("%workers start 2")
        folder = Path(kernel.run("%%chief\nimport os\nprint(os.environ['TMPDIR'])").text.split()[1])
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        kernel.manager.shutdown_kernel(now=False)
    assert wait_until(lambda: not folder.parent.exists(), DEADLINE)


@pytest.mark.faults
def test_a_terminal_runs_worker_cells(tmp_path: Path) -> None:
    env = {**os.environ, "IPYTHONDIR": str(tmp_path), "TERM": "dumb", LEGACY_KERAS: "0"}
    options = ["-m", "IPython", "--no-banner", "--simple-prompt", "--colors=NoColor"]
    terminal = pexpect.spawn(sys.executable, options, env=env, timeout=DEADLINE, encoding="utf-8")

    def run(line: str) -> str:
        terminal.sendline(line)
        terminal.expect(PROMPT)
        return terminal.before or ""

    try:
        terminal.expect(PROMPT)
        run("%load_ext helpers")
        assert "2 workers" in run("%workers start 2")
        run("def cell(code): get_ipython().run_cell_magic('workers', '', code)")
        assert "[0-1] 5" in run(r"cell('x = 2\nx + 3')")
        assert "ZeroDivisionError" in run("cell('x / 0')")
        terminal.sendline(r"cell('print(\"loop\" + \"ing\")\nwhile True: pass')")
        terminal.expect("looping")
        terminal.sendintr()  # Ctrl-C
        terminal.expect("KeyboardInterrupt")
        terminal.expect(PROMPT)
        assert "[0-1] 2" in run("cell('x')")
        terminal.sendline("exit")
        terminal.expect(pexpect.EOF)
    finally:
        terminal.close(force=True)
