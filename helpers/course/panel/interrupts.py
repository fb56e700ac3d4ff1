"""Lets a kernel interrupt stop work that runs between cells.

ipykernel ignores SIGINT between two cells. Without this module, Jupyter's interrupt button could
not stop a training run that a widget or `launch()` has started.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

RETRY_SECONDS = 0.2


@contextmanager
def on_idle_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Calls `action` when the idle kernel is interrupted inside the block.

    If a cell is running, it is interrupted as usual, and `action` is not called. Any thread may
    enter the block. Outside of a Jupyter kernel, it has no effect.
    """
    loop = _kernel_loop()
    if loop is None:
        yield
        return

    def handler(*_: object) -> None:
        loop.add_callback_from_signal(action)

    loop.add_callback(_swap, loop, signal.SIG_IGN, handler)
    try:
        yield
    finally:
        loop.add_callback(_swap, loop, handler, signal.SIG_IGN)


def _swap(loop: Any, old: Any, new: Any) -> None:
    """Replaces SIGINT's handler in the main thread, as soon as the kernel is idle.

    During a cell, ipykernel uses its own handler, and restores the idle one afterwards.
    """
    if signal.getsignal(signal.SIGINT) == old:
        signal.signal(signal.SIGINT, new)
    else:
        loop.call_later(RETRY_SECONDS, _swap, loop, old, new)


def _kernel_loop() -> Any:
    """The event loop of this process's Jupyter kernel, or None."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    kernel = getattr(get_ipython(), "kernel", None)
    return getattr(kernel, "io_loop", None)
