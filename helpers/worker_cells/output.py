"""Shows the output of several workers in one cell, each line with the numbers of its workers.

Equal lines are shown once. A line therefore waits a moment for the same line of the other workers.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.worker.cells.display import TEXT, is_rich

FOLD_SECONDS = 0.15  # that a line waits for the equal lines of other workers
FOLD_BUNDLE_SECONDS = 1.0  # the same for a figure, which takes longer to draw
PARTIAL_SECONDS = 0.5  # after which a line without an end is shown
RETURN = "\r"

Write = Callable[[str, str], None]
"""Writes text to the stream "stdout" or "stderr" of the notebook."""

Show = Callable[[dict[str, Any], dict[str, Any]], None]
"""Shows a MIME bundle and its metadata."""


@dataclass(frozen=True)
class Item:
    """A line or, if `stream` is empty, a MIME bundle as JSON. The time does not count as a part."""

    stream: str
    text: str
    time: float = field(compare=False)


@dataclass
class _Worker:
    """The output of a worker that is not shown yet."""

    items: deque[Item] = field(default_factory=deque)
    partial: dict[str, str] = field(default_factory=dict)  # the last line of each stream
    partial_since: float = 0.0
    partial_shown: str = ""
    has_finished: bool = False


class CellOutput:
    """The output of a cell.

    Args:
      workers: the indexes of the workers that run the cell.
      clock: returns seconds.
    """

    def __init__(
        self,
        workers: Iterable[int],
        write: Write,
        show: Show,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers = {index: _Worker() for index in workers}
        self._write = write
        self._show = show
        self._clock = clock
        self._shown_partial = 0  # characters of the line without an end that is shown
        self._text: list[str] = []  # of one stream, to be written together
        self._stream = ""

    def add_text(self, worker: int, stream: str, text: str) -> None:
        """Adds text that a worker has written."""
        now, state = self._clock(), self._state(worker)
        *lines, rest = (state.partial.get(stream, "") + text).split("\n")
        state.items += [Item(stream, _visible(line), now) for line in lines]
        if not state.partial.get(stream) or lines:
            state.partial_since = now
        state.partial[stream] = _visible(rest)

    def add_display(self, worker: int, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Adds a value that a worker shows."""
        self._end_partial(worker)
        if not is_rich(data):
            self.add_text(worker, "stdout", f"{data[TEXT]}\n")
            return
        text = json.dumps([data, metadata])
        self._state(worker).items.append(Item("", text, self._clock()))

    def finish(self, worker: int) -> None:
        """Records that a worker has finished the cell, so that no line waits for it."""
        self._end_partial(worker)
        self._state(worker).has_finished = True

    def tick(self) -> None:
        """Shows the lines that have waited long enough."""
        while self._show_next(self._clock()):
            pass
        self._show_partial()
        self._flush()

    def catch_up(self) -> None:
        """Shows all complete lines, without waiting for the same lines from other workers."""
        while self._show_next(math.inf):
            pass
        self._flush()

    def flush(self) -> None:
        """Shows everything."""
        for worker in list(self._workers):
            self.finish(worker)
        self.tick()

    def _state(self, worker: int) -> _Worker:
        """The output of a worker. A thread of one that does not run the cell may print, too."""
        return self._workers.setdefault(worker, _Worker(has_finished=True))

    def _end_partial(self, worker: int) -> None:
        state = self._state(worker)
        for stream, text in state.partial.items():
            if text:
                state.items.append(Item(stream, text, self._clock()))
        state.partial.clear()

    def _show_next(self, now: float) -> bool:
        heads = {index: state.items[0] for index, state in self._workers.items() if state.items}
        if not heads:
            return False
        missing = [
            index
            for index, state in self._workers.items()
            if index not in heads and not state.has_finished
        ]
        oldest = min(heads, key=lambda index: (heads[index].time, index))
        wait = FOLD_SECONDS if heads[oldest].stream else FOLD_BUNDLE_SECONDS
        if missing and now - heads[oldest].time < wait:
            return False
        first = oldest if missing else min(heads)
        equal = [index for index, item in heads.items() if item == heads[first]]
        for index in equal:
            self._workers[index].items.popleft()
        self._emit(sorted(equal), heads[first])
        return True

    def _emit(self, workers: Sequence[int], item: Item) -> None:
        label = f"[{ranges(workers)}]"
        if item.stream:
            line = f"{label} {item.text}".rstrip(" ")
            self._put(item.stream, f"{self._over_partial(line)}\n")
            return
        self._put("stdout", f"{self._over_partial(label)}\n")
        self._flush()
        self._show(*json.loads(item.text))

    def _over_partial(self, line: str) -> str:
        """The line, which replaces one without an end if such a line is shown."""
        shown, self._shown_partial = self._shown_partial, 0
        return f"{RETURN}{line:<{shown}}" if shown else line

    def _show_partial(self) -> None:
        """Shows one line without an end, such as a progress bar, after all others."""
        now = self._clock()
        for index, state in self._workers.items():
            if state.items or now - state.partial_since < PARTIAL_SECONDS:
                continue  # it may still become a whole line
            for stream, text in state.partial.items():
                if text and text != state.partial_shown:
                    state.partial_since, state.partial_shown = now, text
                    line = f"[{index}] {text}"
                    self._put(stream, self._over_partial(line) if self._shown_partial else line)
                    self._shown_partial = len(line)
                    return

    def _put(self, stream: str, text: str) -> None:
        if stream != self._stream:
            self._flush()
        self._stream = stream
        self._text.append(text)

    def _flush(self) -> None:
        text, self._text = "".join(self._text), []
        if text:
            self._write(self._stream, text)


def ranges(numbers: Sequence[int]) -> str:
    """Sorted numbers as ranges: 0-2,4."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in parts)


def _visible(line: str) -> str:
    """The part of a line that a terminal would still show, after its last carriage return."""
    if RETURN not in line:
        return line
    return next((part for part in reversed(line.split(RETURN)) if part), "")
