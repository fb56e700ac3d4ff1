"""Ends a process with the one that started it, however that one ended."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading


def die_with_parent() -> None:
    """Has the kernel kill this process when its standard input closes.

    Works on a process that is stopped, or deep in a C call, where no thread of Python would
    run. The other ways are weaker: PR_SET_PDEATHSIG also fires when only the thread that
    started us ends.
    """
    if hasattr(os, "O_ASYNC") and sys.platform == "linux":
        _ask_for(signal.SIGKILL)
        if select.select([0], [], [], 0)[0]:  # it closed before we asked to be told
            os._exit(1)
    else:

        def wait() -> None:
            os.read(0, 1)
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()


def wake_with_parent() -> None:
    """On Linux, instead: a process that is stopped is woken when its standard input closes.

    It must see by itself that it is time to end, and so can end others first.
    """
    _ask_for(signal.SIGCONT)


def _ask_for(number: int) -> None:
    """Has the kernel send this process a signal when its standard input closes, or can be read."""
    import fcntl

    f_setsig = 10  # fcntl.F_SETSIG has no name in Python before 3.13
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, f_setsig, number)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
