"""Ends a process when its parent ends, for any reason."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress

from helpers.system import capabilities

# A line means that the process has ended, so its pid may already be reused.
GUARD_SCRIPT = 'read -r line || kill -s KILL -- "-$0" "$0"'


def die_with_parent() -> None:
    """Kills this process and its process group when its standard input is closed.

    Works on a process that is stopped, or inside a C call in which no Python thread can run,
    because TensorFlow holds Python's lock while it waits for peers. The kernel kills it or, on
    macOS, a watchdog. Other ways are weaker. For example, PR_SET_PDEATHSIG also fires when only the
    thread that started this process ends.
    """
    if capabilities.has_fcntl_setsig():
        _signal_on_stdin_close(signal.SIGKILL)
        if select.select([0], [], [], 0)[0]:  # it closed before the signal was requested
            os._exit(1)
    else:
        _start_guard()


def stop_guard(stdin: int) -> None:
    """Stops the helper process that emulates PR_SET_PDEATHSIG.

    The kernel, which identifies a group by more than its number, kills its remaining processes.

    Args:
      stdin: our end of the pipe that was its standard input.
    """
    with suppress(BrokenPipeError):  # there is no helper process
        os.write(stdin, b"\n")


def continue_on_parent_death() -> None:
    """Sends SIGCONT, instead of killing the process, when its standard input is closed.

    The process must detect by itself that it should end, and can therefore end others first.
    Requires `capabilities.has_fcntl_setsig`.
    """
    _signal_on_stdin_close(signal.SIGCONT)


def _signal_on_stdin_close(number: int) -> None:
    """Makes the kernel send a signal when standard input is closed or readable.

    The signal is sent to this process and its group, so that its child processes end with it. If it
    does not lead a group, only the process gets it.
    """
    import fcntl

    pid = os.getpid()
    leads = os.getpgrp() == pid  # otherwise it is in the group of the parent
    fcntl.fcntl(0, fcntl.F_SETOWN, -pid if leads else pid)
    fcntl.fcntl(0, fcntl.F_SETSIG, number)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _start_guard() -> None:
    """Starts a shell that reads the same pipe until it is closed, and then kills.

    It has a separate session, so a signal to this process's group does not stop it.
    """
    subprocess.Popen(
        ["/bin/sh", "-c", GUARD_SCRIPT, str(os.getpid())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
