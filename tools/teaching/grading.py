"""The extensions of nbgrader: a kernel in a sandbox, and grades for a stopped notebook.

`tools.teaching.course_folder` writes the nbgrader_config.py that names these classes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import nbformat
import zmq
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbgrader.exchange.default import Exchange
from nbgrader.preprocessors import Execute
from traitlets import Bool, Float, Int, List, Unicode
from traitlets.config import Config

import helpers
from tools.teaching import judging
from tools.teaching.sandbox import remove_folder

HELPERS = Path(helpers.__file__).parent
IN_PREFIX = ("bin", "etc", "lib", "lib64", "pyvenv.cfg", "share", "ssl")  # of a Python prefix


def _readable() -> list[str]:
    """The files that a kernel needs in addition to the system: Python and its packages."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix} - {"/", "/usr"}
    inside = [str(Path(prefix) / name) for prefix in sorted(prefixes) for name in IN_PREFIX]
    return [*inside, str(HELPERS)]


SANDBOX = [
    *(sys.executable, "-I", "-S", str(Path(__file__).with_name("sandbox.py"))),
    *(f"--readable={path}" for path in _readable()),
]
MEMORY = 6 * 10**9  # the maximum bytes of a notebook with its workers
PROCESSES = 2000  # includes threads, of which a worker has about a hundred
MAX_CHARACTERS = 100_000  # of a cell's printed output
MAX_OUTPUT_CHARACTERS = 3_000_000  # of a cell's other output, more than an observation
MAX_NOTEBOOK_CHARACTERS = 10_000_000  # of all cells' output
MAX_MESSAGE_BYTES = 50_000_000  # of a message's part, or the connection ends
MAX_GROWTH_BYTES = 10**9  # of the grading process, while a notebook is executed
OUTPUT_MESSAGE_TYPES = ("display_data", "update_display_data", "execute_result", "error")
NOT_RUN_ERROR = "Stopped"  # the name of the error in unreached cells
VARIABLES = ("HOME", "TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")
LANGUAGES = ("LANG", "LC_ALL", "LC_CTYPE")
MAX_TMPDIR = 50  # characters, because a Unix socket's path has at most 107
NO_NAMESPACES = (
    "This machine does not permit namespaces, so a submission could access your files and the "
    "network. Grade on Linux 5.12 or newer, in a container that may create namespaces, or in a "
    "virtual machine."
)


class SandboxError(Exception):
    """A kernel that cannot be started in the required way."""


@functools.cache
def sandbox_is_permitted() -> bool:
    """Whether this machine permits sandboxes, which containers may not."""
    done = subprocess.run([*SANDBOX, "--", "true"], capture_output=True, check=False)
    return done.returncode == 0


@functools.cache
def limits_are_permitted() -> bool:
    """Whether memory and processes of a sandbox can be limited.

    For this, root needs control groups. Other users need a user namespace, in which memory limits
    apply per process.
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


def why_no_kernel(**options: Any) -> str:
    """The reason why a notebook with only an import cannot be graded on this machine, or "".

    Args:
      options: the traits of `SandboxedKernelManager`.
    """
    cell = nbformat.v4.new_code_cell("from helpers.course.check import check")
    config = Config({"SandboxedKernelManager": options})
    try:
        SandboxedExecute(config=config, timeout=120).preprocess(
            nbformat.v4.new_notebook(cells=[cell]), {}
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}{_words_of_python(options.get('sandboxed', True))}"
    return "; ".join(f"{one['ename']}: {one['evalue']}" for one in cell.outputs)


def _words_of_python(sandboxed: bool) -> str:
    """The last line that Python writes in the sandbox, if it also fails without a kernel."""
    command = [*SANDBOX, *([] if sandboxed else ["--no-namespaces"]), "--", sys.executable, "-c"]
    done = subprocess.run([*command, "import ipykernel"], capture_output=True, check=False)
    lines = done.stderr.decode(errors="replace").splitlines()
    return f" ({lines[-1]})" if done.returncode and lines else ""


class SandboxedKernelManager(AsyncKernelManager):
    """Starts a kernel in a sandbox, in a separate folder that is deleted with it.

    The kernel and the client communicate through sockets in that folder, not over a network. Only
    this user can enter the outer folder. So no other user can run a setuid program that a
    submission leaves in it.
    """

    seconds = Float(240.0, help="The maximum seconds of one notebook.").tag(config=True)
    memory = Int(MEMORY, help="The maximum bytes of all its processes.").tag(config=True)
    processes = Int(PROCESSES, help="The maximum number of its processes and threads.").tag(
        config=True
    )
    hidden = List(Unicode(), help="Folders that the notebook must not read.").tag(config=True)
    sandboxed = Bool(True, help="Whether it has no access to the network and to files.").tag(
        config=True
    )

    def __init__(self, **arguments: Any) -> None:
        wanted = os.path.realpath(tempfile.gettempdir())
        where = wanted if wanted.isascii() and len(wanted) <= MAX_TMPDIR else "/tmp"
        self._outer = tempfile.mkdtemp(prefix="grade-", dir=where)
        self._remove = weakref.finalize(self, remove_folder, self._outer)
        self._folder = os.path.join(self._outer, "work")
        os.mkdir(self._folder)
        connection = os.path.join(self._folder, "kernel.json")
        super().__init__(transport="ipc", connection_file=connection, **arguments)
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)

    @property
    def kernel_spec(self) -> KernelSpec:
        """The kernel of this Python, regardless of the notebook and installed kernels."""
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, language="python", display_name="Python 3")

    async def _async_pre_start_kernel(self, **arguments: Any) -> tuple[list[str], dict[str, Any]]:
        if self.sandboxed and not sandbox_is_permitted():
            raise SandboxError(NO_NAMESPACES)
        arguments["cwd"] = self._folder
        command, options = await super()._async_pre_start_kernel(**arguments)
        options["env"] = _environment(self._folder)
        # Output outside of cells would otherwise fill the memory of the process that reads
        # nbgrader's output.
        options["stdout"] = options["stderr"] = subprocess.DEVNULL
        return [*self._limits(), *command], options

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        await super()._async_cleanup_resources(restart)
        if not restart:
            self._remove()

    cleanup_resources = _async_cleanup_resources

    def _limits(self) -> list[str]:
        limits = [f"--seconds={self.seconds}", f"--remove={self._outer}"]
        if limits_are_permitted():
            limits += [f"--memory={self.memory}", f"--processes={self.processes}"]
        if self.sandboxed:
            exchange = self.config.get("Exchange", {}).get("root") or Exchange.root.default()
            hidden = [f"--mask={path}" for path in [*self.hidden, exchange]]
            return [*SANDBOX, *limits, f"--writable={self._folder}", *hidden, "--"]
        return [*SANDBOX, *limits, "--no-namespaces", "--"]


def _environment(folder: str) -> dict[str, str]:
    """The environment of a kernel, without the teacher's variables, which may contain passwords."""
    programs = [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        **{name: os.environ[name] for name in LANGUAGES if name in os.environ},
        **dict.fromkeys(VARIABLES, folder),
        "PATH": os.pathsep.join(programs),
        "PYTHONPATH": str(HELPERS.parent),
    }


class SandboxedExecute(Execute):
    """Executes a notebook until its kernel ends. Unreached cells fail."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options |= {"kernel_manager_class": SandboxedKernelManager, "kernel_name": "python3"}
        super().__init__(*arguments, **options)

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        """Executes the notebook like nbgrader, but handles a kernel that ends.

        Raises:
          SandboxError: the kernel did not start.
        """
        self._reached, self._told, self._kept = -1, 0, 0
        done = threading.Event()
        threading.Thread(target=self._watch_memory, args=[done], daemon=True).start()
        try:
            return super().preprocess(nb, resources, km)
        except (DeadKernelError, CellTimeoutError, RuntimeError) as error:
            if self._reached < 0:
                raise SandboxError(f"The kernel did not start: {error}") from error
            self.log.error("The kernel ended: %s", error)
        finally:
            done.set()
        for cell in nb.cells[self._reached :]:
            if cell.cell_type == "code":
                cell.outputs = [_stopped()]
        return nb, resources

    def _watch_memory(self, done: threading.Event) -> None:
        """Kills a kernel whose messages fill the memory of this process.

        ZeroMQ receives a message as a whole, with any number of parts. A limit of setrlimit(2)
        would also apply to the workers that the grader of an answer starts.
        """
        most = _resident_bytes() + MAX_GROWTH_BYTES
        while not done.wait(0.05):
            process = getattr(getattr(self.km, "provisioner", None), "process", None)
            if process is not None and _resident_bytes() > most:
                self.log.error("The kernel sent too much, and was killed.")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Executes a cell like nbgrader, or grades it if it contains checks."""
        self._reached = index
        self._told = 0
        if calls := judging.check_calls(cell):
            try:
                cell.outputs = judging.grade_cell(calls, lambda ask: self._ask(ask, index))
            finally:
                self.nb.cells[index] = cell
                for places in self._display_id_map.values():
                    places.pop(index, None)  # a display of a question must not change the grade
            return cell, resources
        return super().preprocess_cell(cell, resources, index)

    def _ask(self, question: Any, index: int) -> Any:
        kept, self._kept, self._told = self._kept, 0, 0  # its output is not kept
        self.nb.cells[index] = question
        try:
            return self.execute_cell(question, index)
        finally:
            self._kept = kept

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Processes a message like nbclient, but truncates large outputs and ignores widgets."""
        kind, content = msg["msg_type"], msg["content"]
        msg["buffers"] = []
        if kind.startswith("comm_"):
            return None
        if kind == "stream":
            content["text"] = content["text"][: max(0, MAX_CHARACTERS - self._told)]
            if not self._has_room(len(content["text"]), MAX_CHARACTERS):
                return None
        elif kind in OUTPUT_MESSAGE_TYPES and not self._has_room(
            len(str(content)), MAX_OUTPUT_CHARACTERS
        ):
            return None
        return super().process_message(msg, cell, cell_index)

    def _has_room(self, characters: int, most: int) -> bool:
        """Whether the limits of the cell and of the notebook permit this many more characters."""
        self._told += characters
        self._kept += characters
        return bool(characters) and self._told <= most and self._kept <= MAX_NOTEBOOK_CHARACTERS


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return 0
    return pages * resource.getpagesize()


def _stopped() -> Any:
    text = "The kernel ended before this cell, because it was killed or timed out."
    return nbformat.v4.new_output("error", ename=NOT_RUN_ERROR, evalue=text, traceback=[text])
