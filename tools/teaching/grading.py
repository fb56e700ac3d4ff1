"""What nbgrader is given here: a kernel in a sandbox, and marks for a notebook that was stopped.

`tools.teaching.course` writes the nbgrader_config.py that names these classes.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbgrader.preprocessors import Execute
from traitlets import Bool, Float, Int, List, Unicode, default

from tools.teaching import judging

SANDBOX = [sys.executable, "-I", "-S", str(Path(__file__).with_name("sandbox.py"))]
MEMORY = 6 * 10**9  # bytes that a notebook and its workers may take together
PROCESSES = 2000  # with their threads, of which a worker has some hundred
MAX_CHARACTERS = 100_000  # that a cell may print
MAX_OUTPUT_CHARACTERS = 3_000_000  # and that it may show besides; an observation needs less
OUTPUT_MESSAGE_TYPES = ("display_data", "update_display_data", "execute_result", "error")
NOT_RUN_ERROR = "Stopped"  # the name of the error that unreached cells are given
VARIABLES = ("HOME", "TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")


@functools.cache
def sandbox_is_permitted() -> bool:
    """Whether this machine lets a sandbox be made; containers may not."""
    done = subprocess.run([*SANDBOX, "--", "true"], capture_output=True, check=False)
    return done.returncode == 0


@functools.cache
def limits_are_permitted() -> bool:
    """Whether memory and processes of a sandbox can be limited.

    Root needs control groups for that, others a user namespace, in which limits are each process's.
    """
    if os.geteuid() != 0 and not sandbox_is_permitted():
        return False
    limits = [f"--memory={MEMORY}", f"--processes={PROCESSES}"]
    command = [
        *SANDBOX,
        *limits,
        *([] if sandbox_is_permitted() else ["--no-namespaces"]),
        "--",
        "true",
    ]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class SandboxedKernelManager(AsyncKernelManager):
    """Starts a kernel in a sandbox, in a folder of its own that is deleted with it.

    Kernel and client talk through sockets in that folder, which no network reaches. Where no
    sandbox can be made, the kernel has only the folder and the deadline.
    """

    seconds = Float(240.0, help="The most that one notebook may take.").tag(config=True)
    memory = Int(MEMORY, help="Bytes that all its processes may take.").tag(config=True)
    processes = Int(PROCESSES, help="Processes and threads that it may have.").tag(config=True)
    hidden = List(Unicode(), help="Folders that the notebook must not read.").tag(config=True)
    sandboxed = Bool(help="Whether to keep it from the network and from files.").tag(config=True)

    def __init__(self, **arguments: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True)
        folder = os.path.realpath(self._folder.name)
        connection = os.path.join(folder, "kernel.json")
        super().__init__(transport="ipc", connection_file=connection, **arguments)

    @default("sandboxed")
    def _sandboxed_default(self) -> bool:
        return sandbox_is_permitted()

    async def _async_pre_start_kernel(self, **arguments: Any) -> tuple[list[str], dict[str, Any]]:
        folder = os.path.realpath(self._folder.name)
        arguments["cwd"] = folder
        command, options = await super()._async_pre_start_kernel(**arguments)
        environ = options.get("env") or os.environ
        options["env"] = {**environ, **dict.fromkeys(VARIABLES, folder)}
        # What it writes past its cells would else fill the memory of who reads nbgrader's words.
        options["stdout"] = options["stderr"] = subprocess.DEVNULL
        return [*self._limits(folder), *command], options

    def _limits(self, folder: str) -> list[str]:
        limits = [f"--seconds={self.seconds}"]
        if limits_are_permitted():
            limits += [f"--memory={self.memory}", f"--processes={self.processes}"]
        if self.sandboxed:
            hidden = [f"--mask={path}" for path in self.hidden]
            return [*SANDBOX, *limits, f"--writable={folder}", *hidden, "--"]
        return [*SANDBOX, *limits, "--no-namespaces", "--"]


class SandboxedExecute(Execute):
    """Executes a notebook as far as its kernel lives; cells that it does not reach fail."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options["kernel_manager_class"] = SandboxedKernelManager
        super().__init__(*arguments, **options)

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        """As nbgrader's, but for a kernel that ends."""
        self._reached = self._told = 0
        try:
            return super().preprocess(nb, resources, km)
        except (DeadKernelError, CellTimeoutError, RuntimeError) as error:
            self.log.error("The kernel ended: %s", error)
        for cell in nb.cells[self._reached :]:
            if cell.cell_type == "code":
                cell.outputs = [_stopped()]
        return nb, resources

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """As nbgrader's; but a cell that checks is marked, and how far it came is remembered."""
        self._reached = index
        self._told = 0
        if calls := judging.check_calls(cell):
            try:
                cell.outputs = judging.grade_cell(calls, lambda ask: self._ask(ask, index))
            finally:
                self.nb.cells[index] = cell
                for places in self._display_id_map.values():
                    places.pop(index, None)  # a display of a question must not change the mark
            return cell, resources
        return super().preprocess_cell(cell, resources, index)

    def _ask(self, question: Any, index: int) -> Any:
        self._told = 0
        self.nb.cells[index] = question
        return self.execute_cell(question, index)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """As nbclient's, but of a flood it keeps the beginning, and of widgets nothing."""
        kind, content = msg["msg_type"], msg["content"]
        if kind.startswith("comm_"):
            return None
        if kind == "stream":
            content["text"] = content["text"][: max(0, MAX_CHARACTERS - self._told)]
            self._told += len(content["text"])
            if not content["text"]:
                return None
        elif kind in OUTPUT_MESSAGE_TYPES:
            self._told += len(str(content))
            if self._told > MAX_OUTPUT_CHARACTERS:
                return None
        return super().process_message(msg, cell, cell_index)


def _stopped() -> Any:
    text = "The kernel ended before this cell did: it was killed, or its time was over."
    return nbformat.v4.new_output("error", ename=NOT_RUN_ERROR, evalue=text, traceback=[text])
