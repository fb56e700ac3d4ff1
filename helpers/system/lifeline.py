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
        import fcntl

        f_setsig = 10  # fcntl.F_SETSIG has no name in Python before 3.13
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, f_setsig, signal.SIGKILL)
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([0], [], [], 0)[0]:  # it closed before we asked to be told
            os._exit(1)
    else:

        def wait() -> None:
            os.read(0, 1)
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()
