"""What nbgrader is given here: a kernel in a jail, and marks for a notebook that was stopped.

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
from traitlets import Bool, Float, List, Unicode, default

JAIL = [sys.executable, "-I", "-S", str(Path(__file__).with_name("jail.py"))]
STOPPED = "Stopped"  # the name of the error that unreached cells are given
VARIABLES = ("HOME", "TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")


@functools.cache
def jail_is_permitted() -> bool:
    """Whether this machine lets a jail be made; containers may not."""
    done = subprocess.run([*JAIL, "--", "true"], capture_output=True, check=False)
    return done.returncode == 0


class JailedKernelManager(AsyncKernelManager):
    """Starts a kernel in a jail, in a folder of its own that is deleted with it.

    Kernel and client talk through sockets in that folder, which no network reaches. Where no jail
    can be made, the kernel has the folder and the deadline, and nothing else is kept from it.
    """

    seconds = Float(240.0, help="The most that one notebook may take.").tag(config=True)
    hidden = List(Unicode(), help="Folders that the notebook must not read.").tag(config=True)
    jailed = Bool(help="Whether to keep it from the network and from files.").tag(config=True)

    def __init__(self, **arguments: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True)
        folder = os.path.realpath(self._folder.name)
        connection = os.path.join(folder, "kernel.json")
        super().__init__(transport="ipc", connection_file=connection, **arguments)

    @default("jailed")
    def _jailed_default(self) -> bool:
        return jail_is_permitted()

    async def _async_pre_start_kernel(self, **arguments: Any) -> tuple[list[str], dict[str, Any]]:
        folder = os.path.realpath(self._folder.name)
        arguments["cwd"] = folder
        command, options = await super()._async_pre_start_kernel(**arguments)
        environ = options.get("env") or os.environ
        options["env"] = {**environ, **dict.fromkeys(VARIABLES, folder)}
        return [*self._limits(folder), *command], options

    def _limits(self, folder: str) -> list[str]:
        if not self.jailed:
            return [*JAIL, "--open", f"--seconds={self.seconds}", "--"]
        hidden = [f"--hide={path}" for path in self.hidden]
        return [*JAIL, f"--seconds={self.seconds}", f"--writable={folder}", *hidden, "--"]


class JailedExecute(Execute):
    """Executes a notebook as far as its kernel lives; cells that it does not reach fail."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options["kernel_manager_class"] = JailedKernelManager
        super().__init__(*arguments, **options)

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        """As nbgrader's, but for a kernel that ends."""
        self._reached = 0
        try:
            return super().preprocess(nb, resources, km)
        except (DeadKernelError, CellTimeoutError, RuntimeError) as error:
            self.log.error("The kernel ended: %s", error)
        for cell in nb.cells[self._reached :]:
            if cell.cell_type == "code":
                cell.outputs = [_stopped()]
        return nb, resources

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """As nbgrader's; remembers how far the notebook came."""
        self._reached = index
        return super().preprocess_cell(cell, resources, index)


def _stopped() -> Any:
    text = "The kernel ended before this cell did: it was killed, or its time was over."
    return nbformat.v4.new_output("error", ename=STOPPED, evalue=text, traceback=[text])
