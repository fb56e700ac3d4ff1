"""Ends a process when its parent ends, for whatever reason."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress

from helpers.system import capabilities

# A line means that the process has ended, and its number may already be another's.
GUARD_SCRIPT = 'read -r line || kill -s KILL -- "-$0" "$0"'


def die_with_parent() -> None:
    """Kills this process and its process group when its standard input is closed.

    Works on a process that is stopped, or deep in a C call, where no thread of Python would run:
    TensorFlow holds Python's lock while it waits for peers. The kernel does it or, on macOS, a
    watchdog. The other ways are weaker: PR_SET_PDEATHSIG also fires when only the
    thread that started us ends.
    """
    if capabilities.has_fcntl_setsig():
        _signal_on_stdin_close(signal.SIGKILL)
        if select.select([0], [], [], 0)[0]:  # it closed before we asked to be told
            os._exit(1)
    else:
        _start_guard()


def stop_guard(stdin: int) -> None:
    """Stops the helper process that emulates PR_SET_PDEATHSIG.

    The kernel, which knows a group by more than its number, kills what is left of it.

    Args:
      stdin: our end of the pipe that was its standard input.
    """
    with suppress(BrokenPipeError):  # there is none
        os.write(stdin, b"\n")


def continue_on_parent_death() -> None:
    """Sends SIGCONT, instead of killing the process, when its standard input is closed.

    It must see by itself that it is time to end, and so can end others first. Only where
    `capabilities.has_fcntl_setsig`.
    """
    _signal_on_stdin_close(signal.SIGCONT)


def _signal_on_stdin_close(number: int) -> None:
    """Makes the kernel send a signal when standard input is closed or readable.

    To this process and its group: what it started ends with it. To it alone where it leads none.
    """
    import fcntl

    pid = os.getpid()
    leads = os.getpgrp() == pid  # else the group is that of the one whose end is waited for
    fcntl.fcntl(0, fcntl.F_SETOWN, -pid if leads else pid)
    fcntl.fcntl(0, fcntl.F_SETSIG, number)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _start_guard() -> None:
    """Starts a shell that reads the same pipe until it is closed, and then kills.

    In a separate session: a signal to this process's group does not stop it.
    """
    subprocess.Popen(
        ["/bin/sh", "-c", GUARD_SCRIPT, str(os.getpid())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
