"""The prompts of debuggers that stop in workers, one after the other.

Jupyter shows the prompt of `input` as a field below the cell.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from helpers import labels
from helpers.cluster.processes import TaskProcess
from helpers.cluster.stacks import format_place
from helpers.i18n import _
from helpers.protocol import debugger_pipe
from helpers.protocol.events import Event, EventType, supervisor_event

# Seconds that other debuggers wait for the next prompt of the one that got a line. If it runs
# a collective, its prompt arrives only after they have continued.
PATIENCE = 1.0
CONTINUE = "continue"
QUIT = "quit"


def can_ask() -> bool:
    """Whether `input` reaches the user, in a cell whose front end allows it or in a terminal."""
    if threading.current_thread() is not threading.main_thread():
        return False
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if (kernel := getattr(shell, "kernel", None)) is not None:
        return bool(getattr(kernel, "_allow_stdin", False))  # false in nbval and papermill
    return sys.stdin is not None and sys.stdin.isatty()


def decline(event: Event, process: TaskProcess, message: str) -> Event:
    """Makes the debugger of a "debugger_stopped" event continue, and returns a warning about it.

    Args:
      message: a format string with the fields `task` and `place`.
    """
    send(process, CONTINUE)
    place = format_place(tuple(event["place"]))
    text = message.format(task=labels.task(process.task), place=place)
    return supervisor_event(EventType.WARNING, process.task, message=text)


def send(process: TaskProcess, line: str) -> None:
    """Sends a line to the debugger of a process."""
    debugger_pipe.send_line(process.log.parent, process.pid, line)


class DebuggerPrompts:
    """Answers the debuggers of the tasks of one attempt.

    Args:
      ask: reads a line after a prompt, like `input`.
      is_possible: whether `ask` can be called.
      clock: returns seconds.
    """

    def __init__(
        self,
        ask: Callable[[str], str] | None = None,
        is_possible: Callable[[], bool] = can_ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask or input
        self._is_possible = is_possible
        self._clock = clock
        self._waiting: dict[str, tuple[Event, TaskProcess]] = {}  # by task, the first one first
        self._stopped: set[str] = set()
        self._current: str | None = None  # the task that got the last line
        self._sent = 0.0

    @property
    def is_paused(self) -> bool:
        """Whether any debugger waits, so that no timeout may expire."""
        return bool(self._stopped)

    def observe(self, event: Event, processes: Sequence[TaskProcess]) -> None:
        """Processes an event of a task."""
        kind, task = event["event"], str(event.get("task"))
        if kind == EventType.DEBUGGER_STOPPED:
            process = next(one for one in processes if str(one.task) == task)
            self._stopped.add(task)
            self._waiting[task] = event, process
        elif kind in (EventType.DEBUGGER_CONTINUED, EventType.EXIT, EventType.RESPAWNED):
            _show(event.get("text", ""))
            self._stopped.discard(task)
            self._waiting.pop(task, None)

    def serve(self) -> Iterator[Event]:
        """Opens the prompts of the waiting debuggers one by one, and yields warnings.

        Raises:
          KeyboardInterrupt: the kernel was interrupted at a prompt.
        """
        while self._waiting:
            if self._current not in self._waiting:
                if self._current is not None and self._clock() - self._sent < PATIENCE:
                    return
                self._current = next(iter(self._waiting))
            event, process = self._waiting.pop(self._current)
            if (warning := self._answer(event, process)) is not None:
                yield warning
            self._sent = self._clock()

    def _answer(self, event: Event, process: TaskProcess) -> Event | None:
        """Sends the next line to a debugger, or declines and returns a warning."""
        if self._is_possible():
            lines, newline, prompt = event["text"].rpartition("\n")
            _show(lines + newline)
            try:
                send(process, self._ask(prompt))
                return None
            except EOFError:
                send(process, QUIT)
                return None
            except NotImplementedError:  # the front end allows no input
                pass
        message = _(
            "{task} did not stop at a breakpoint ({place}), because this program cannot ask for "
            "input."
        )
        return decline(event, process, message)


def _show(text: str) -> None:
    print(text, end="", flush=True)  # nothing, if the standard output is closed
