"""The peak of a worker's memory, so that it can be compared with a prediction.

`PeakTensorMemory` asks TensorFlow's allocator, which counts the tensors of the CPU if oneDNN is in
use (`tf.config.experimental.get_memory_info("CPU:0")`). The system's own count would be less exact,
because this allocator takes memory from the system in large regions and keeps it.

`PeakMemory` is for NumPy. It reads the resident set size of the process (proc(5), `VmRSS`) and its
peak (`VmHWM`). Two properties of a process would distort their difference:

- glibc keeps freed memory for later allocations. With a fixed mmap threshold it returns every large
  block to the system at once, so the resident memory follows the arrays (mallopt(3),
  M_MMAP_THRESHOLD and M_TRIM_THRESHOLD).
- The peak covers the whole life of the process. Writing 5 to `/proc/self/clear_refs` resets it
  (https://docs.kernel.org/filesystems/proc.html).

Without /proc, as on macOS, the memory at the end of the block is used.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import subprocess
from pathlib import Path

from helpers.course import process_memory

CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
THRESHOLD = 65_536  # bytes; larger blocks return to the system when they are freed


class PeakMemory:
    """Measures how far a block of code raises the resident memory of this process.

        with PeakMemory() as memory:
            train()
        print(memory.peak)

    The first use of a library allocates memory that later uses share, so run a small example of the
    same code before the block.

    Attributes:
      peak: the bytes above the level at the start, at the highest point in the block.
      held: the bytes above that level at the end of the block.
    """

    peak: int
    held: int

    def __enter__(self) -> PeakMemory:
        return_freed_memory()
        gc.collect()
        with contextlib.suppress(OSError):
            CLEAR_REFS.write_text(RESET_PEAK)
        self._before = resident_bytes()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.peak = peak_bytes() - self._before
        self.held = resident_bytes() - self._before


class PeakTensorMemory(PeakMemory):
    """The same for TensorFlow's tensors, or the resident memory if no allocator counts them."""

    def __enter__(self) -> PeakTensorMemory:
        super().__enter__()
        self._tensors = _tensor_bytes(reset=True)
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if self._tensors is not None and (found := _tensor_bytes()) is not None:
            self.peak = found["peak"] - self._tensors["current"]
            self.held = found["current"] - self._tensors["current"]


def _tensor_bytes(reset: bool = False) -> dict[str, int] | None:
    """The counts of TensorFlow's allocator, or None if it does not count."""
    import tensorflow as tf

    probe = tf.ones([1 << 20])  # small tensors are never counted
    try:
        if reset:
            tf.config.experimental.reset_memory_stats("CPU:0")
        found = tf.config.experimental.get_memory_info("CPU:0")
    except (ValueError, tf.errors.OpError):
        return None
    counted = found["current"] - 4 * int(tf.size(probe))
    return {**found, "current": counted} if counted >= 0 else None


def return_freed_memory() -> None:
    """Makes glibc return large blocks to the system as soon as they are freed.

    Another C library ignores these options or lacks the function. Then freed memory counts too.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD):
            mallopt(option, THRESHOLD)
        mallopt(M_ARENA_MAX, 1)


def resident_bytes() -> int:
    """The memory of this process that is in RAM now."""
    if (found := process_memory.read(os.getpid())) is not None:
        return found
    return 1024 * int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(os.getpid())]))


def peak_bytes() -> int:
    """The highest value of `resident_bytes` since the last reset, or now if there is no /proc."""
    found = process_memory.read(os.getpid(), process_memory.PEAK)
    return resident_bytes() if found is None else found
