"""A Jupyter kernel that runs cells, as JupyterLab, Notebook 7 and VS Code run them."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.manager import KernelManager

from helpers.system.keras_version import LEGACY_KERAS

TIMEOUT = 180.0
POLL_SECONDS = 0.2


@dataclass
class CellResult:
    """What a cell has shown.

    Attributes:
      text: of all streams.
      data: the MIME bundles of values.
      error: the name and the text of the exception, or "".
      prompts: of the requests for input.
    """

    text: str = ""
    data: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    prompts: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """The lines of the text."""
        return self.text.splitlines()


class Kernel:
    """A running kernel of this environment."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.client = manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT)

    @property
    def pid(self) -> int:
        """The process id."""
        provisioner: Any = self.manager.provisioner
        pid: int = provisioner.pid
        return pid

    def run(
        self,
        code: str,
        on_text: Callable[[str], None] | None = None,
        timeout: float = TIMEOUT,
        answer: Callable[[str], str | None] | None = None,
    ) -> CellResult:
        """Runs a cell until the kernel is idle again.

        Args:
          on_text: is called with the text so far whenever some has arrived, and at the start.
          answer: returns the answer to a prompt for input, or None for no answer. Without it, the
            front end does not allow input.
        """
        request = self.client.execute(code, allow_stdin=answer is not None)
        result, deadline = CellResult(), time.monotonic() + timeout
        if on_text:
            on_text("")
        while time.monotonic() < deadline:
            if answer:
                self._answer(answer, result)
            try:
                message = self.client.get_iopub_msg(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                result.text += content["text"]
                if on_text:
                    on_text(result.text)
            elif message["msg_type"] in ("display_data", "execute_result"):
                result.data.append(content["data"])
            elif message["msg_type"] == "error":
                result.error = "\n".join([content["ename"], *content["traceback"]])
            elif content.get("execution_state") == "idle":
                return result
        raise TimeoutError(f"the cell has not ended: {code}\n{result}")

    def _answer(self, answer: Callable[[str], str | None], result: CellResult) -> None:
        with suppress(queue.Empty):
            prompt = self.client.get_stdin_msg(timeout=0)["content"]["prompt"]
            result.prompts.append(prompt)
            if (line := answer(prompt)) is not None:
                self.client.input(line)

    def interrupt(self) -> None:
        """Interrupts the kernel, like the button of a notebook."""
        self.manager.interrupt_kernel()

    def complete(self, code: str) -> list[str]:
        """The completions at the end of some code."""
        reply = self.client.complete(code, len(code), reply=True, timeout=TIMEOUT)
        matches: list[str] = reply["content"]["matches"]
        return matches


@contextmanager
def running_kernel() -> Iterator[Kernel]:
    """Starts a kernel with the Keras of a plain environment, and shuts it down."""
    manager = KernelManager(kernel_name="python3")
    env = {name: text for name, text in os.environ.items() if name != LEGACY_KERAS}
    manager.start_kernel(env=env)
    kernel = None
    try:
        kernel = Kernel(manager)
        yield kernel
    finally:
        if kernel:
            kernel.client.stop_channels()
        manager.shutdown_kernel(now=not manager.is_alive())
