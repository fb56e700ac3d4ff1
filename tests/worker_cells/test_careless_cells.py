"""Careless cells, one after the other in one kernel. None of them requires a restart of the kernel.

Each case is a cell, a text that its output or its error contains, and whether the variables of the
workers are lost.
"""

from __future__ import annotations

import pytest

from tests.support.kernel import Kernel

pytestmark = pytest.mark.faults

INTERRUPT = "# interrupt"
KEPT, LOST = False, True

CASES = {
    "a syntax error": ("def f(:\n    pass", "line 2", KEPT),
    "an IPython command": ("x = 1\n%matplotlib inline", "Line 3, '%matplotlib inline'", KEPT),
    "a cell magic inside": ("%%time\n1", "write a magic such as %%time above", KEPT),
    "an undefined name": ("undefined_name", "NameError", KEPT),
    "exit()": ("exit()", "SystemExit", KEPT),
    "sys.exit": ("import sys\nsys.exit('enough')", "SystemExit: enough", KEPT),
    "os._exit": ("import os\nos._exit(7)", "ended with exit code 7", LOST),
    "SIGKILL": ("import os\nos.kill(os.getpid(), 9)", "signal 9 (SIGKILL)", LOST),
    "a crash": ("import ctypes\nctypes.string_at(0)", "signal 11 (SIGSEGV)", LOST),
    "input()": ("input('name? ')", "A worker cannot read input", KEPT),
    "breakpoint()": ("breakpoint()", "cannot ask for input", KEPT),
    "endless recursion": ("def f(): return f()\nf()", "RecursionError", KEPT),
    "a huge message": ("raise ValueError('x' * 10**7)", "more characters", KEPT),
    "a message that raises": (
        "class E(Exception):\n    def __str__(self): raise KeyError\nraise E",
        "its message is not available",
        KEPT,
    ),
    "100 MB of output": ("print('y' * 10**8)", "99,000,00", KEPT),
    "values without an end": (f"while True: display('y' * 1000) {INTERRUPT}", "Keyboard", KEPT),
    "closed streams": (
        "import os, sys\nsys.stdout.close()\nsys.stderr.close()\nos.close(1)\nos.close(2)",
        "",
        KEPT,
    ),
    "replaced streams": ("import sys\nsys.stdout = sys.stderr = sys.stdin = None", "", KEPT),
    "all descriptors closed": ("import os\nos.closerange(3, 500)", "All workers were", LOST),
    "a deleted folder": (
        "import os, tempfile\nos.chdir(tempfile.mkdtemp())\nos.rmdir(os.getcwd())",
        "",
        KEPT,
    ),
    "a value that cannot be pickled": ("import threading\nthreading.Lock()", "_thread.lock", KEPT),
    "a repr that raises": (
        "class B:\n    def __repr__(self): return 1 / 0\nB()",
        "ZeroDivisionError",
        KEPT,
    ),
    "deleted built-in functions": (
        "import builtins\ndel builtins.print, builtins.len, builtins.isinstance\n"
        "builtins.open = builtins.repr = None",
        "",
        KEPT,
    ),
    "cleared modules": ("import sys\nsys.modules.clear()", "", KEPT),
    "a cleared namespace": ("globals().clear()\nkept = 1", "", KEPT),
    "a replaced signal handler": (
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
        "",
        KEPT,
    ),
    "await": ("import asyncio\nawait asyncio.sleep(0.01, 'awaited')", "awaited", KEPT),
    "print in a thread": (
        "import threading\nt = threading.Thread(target=print, args=['in a thread'])\n"
        "t.start()\nt.join()",
        "in a thread",
        KEPT,
    ),
    "output of a process": ("import os\nos.system('echo from a process');", "a process", KEPT),
    "a fork": ("import os\nif os.fork() == 0:\n    raise ValueError", "", KEPT),
    "an endless loop": (f"while True: pass {INTERRUPT}", "KeyboardInterrupt", KEPT),
    "an endless loop that ignores interrupts": (
        f"import time\nwhile True: {INTERRUPT}\n    try: time.sleep(0.1)\n"
        "    except BaseException: pass",
        "did not react to an interrupt",
        LOST,
    ),
    "a frozen worker": (
        f"import os, signal {INTERRUPT}\nos.kill(os.getpid(), signal.SIGSTOP)",
        "did not react to an interrupt",
        LOST,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_next_cell_runs_after(name: str, kernel: Kernel) -> None:
    code, expected, is_lost = CASES[name]
    assert not kernel.run("%%workers\nkept = 1").error
    interrupted = False

    def interrupt(text: str) -> None:
        nonlocal interrupted
        if INTERRUPT in code and "begin" in text and not interrupted:
            interrupted = True
            kernel.interrupt()

    pid = kernel.pid
    begin = "print('begin')\n" if INTERRUPT in code else ""
    result = kernel.run(f"%%workers\n{begin}{code}", interrupt)
    assert expected in f"{result.text}{result.error}{result.data}"
    assert ("kept" in result.error and "are lost" in result.error) == is_lost
    after = kernel.run("%%workers\nprint('next', len('cell'), kept)")
    if is_lost:
        assert "NameError" in after.error
        after = kernel.run("%%workers\nprint('next', len('cell'), 1)")
    assert "[0-1] next 4 1" in after.lines
    assert kernel.pid == pid
