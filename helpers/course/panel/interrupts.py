"""Lets a kernel interrupt reach work that runs while no cell does.

ipykernel ignores SIGINT between two cells, so without this the interrupt button of Jupyter
could not end a training run that a widget or `launch()` has started.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

RETRY_SECONDS = 0.2


@contextmanager
def on_idle_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """While the block lasts, an interrupt of the idle kernel calls `action`.

    A cell that runs meanwhile is interrupted as usual, and `action` is not called. May be
    entered in any thread; outside a Jupyter kernel it does nothing.
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

    During a cell ipykernel has its own handler, and puts the idle one back after it.
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
