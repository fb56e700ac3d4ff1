"""The magics `%%workers`, `%%chief`, `%workers`, `%push` and `%pull`."""

from __future__ import annotations

import ast
import itertools
import linecache
import re
import traceback
import warnings
from typing import Any

from IPython.core.magic import (
    Magics,
    cell_magic,
    line_cell_magic,
    line_magic,
    magics_class,
)
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from helpers.cluster.local import LocalCluster
from helpers.cluster.prewarm import prewarm
from helpers.errors import ConfigError
from helpers.i18n import _, join_items
from helpers.worker_cells.completion import add_matcher
from helpers.worker_cells.failures import brief_errors
from helpers.worker_cells.session import CHIEF_INDEX, WorkerSession

MAGICS = "WorkerMagics"
DEFAULT_WORKERS = 2
COMMANDS = ("start", "stop")
IPYTHON_LINE = re.compile(r"\s*(%|!|\?)|.*\?\s*$")


def load(shell: Any) -> None:
    """Registers the magics in a shell of IPython, and starts the fork server for the workers."""
    if MAGICS in shell.magics_manager.registry:  # %reload_ext must not lose the workers
        return
    prewarm()
    magics = WorkerMagics(shell)
    shell.register_magics(magics)
    add_matcher(shell, lambda: magics.session)


def _tasks(text: str) -> list[int]:
    """The workers in "0,2"."""
    return [int(part) for part in text.split(",") if part.strip()]


@magics_class
class WorkerMagics(Magics):
    """Runs cells in the workers of a local cluster.

    Attributes:
      session: the workers that were started or used last, or None.
    """

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.session: WorkerSession | None = None
        self._own: WorkerSession | None = None  # of %workers start
        self._named: dict[int, WorkerSession] = {}  # by the id of a LocalCluster

    @magic_arguments()
    @argument("what", nargs="*", help="in a line: start [COUNT], or stop. In a cell: workers, 0,2")
    @argument("--timeout", type=float, help="seconds after which the cell is interrupted")
    @argument("--cluster", help="the variable of a LocalCluster whose workers to use")
    @argument("--keras", type=int, choices=(2, 3), help="with start: the Keras of the workers")
    @line_cell_magic
    def workers(self, line: str, cell: str | None = None) -> WorkerSession | None:
        """Runs a cell in the workers, or starts, stops or shows the workers.

        `%%workers` runs the cell in all workers, and `%%workers 0,2` in two of them.

        `%workers start 2` starts two workers, or restarts them without variables.

        `%workers` shows the workers and their variables, and `%workers stop` ends them.
        """
        args = parse_argstring(self.workers, line)
        with brief_errors():
            if cell is not None:
                self._run(cell, _parsed_tasks(args.what), args)
                return None
            return self._command(args)

    @magic_arguments()
    @argument("--timeout", type=float, help="seconds after which the cell is interrupted")
    @argument("--cluster", help="the variable of a LocalCluster whose workers to use")
    @cell_magic
    def chief(self, line: str, cell: str) -> None:
        """Runs a cell in the chief, which is worker 0."""
        args = parse_argstring(self.chief, line)
        with brief_errors():
            self._run(cell, [CHIEF_INDEX], args)

    @magic_arguments()
    @argument("names", nargs="+", help="variables of the notebook")
    @argument("--worker", type=_tasks, default=[], help="the workers, as 0,2; by default all")
    @argument("--cluster", help="the variable of a LocalCluster whose workers to use")
    @line_magic
    def push(self, line: str) -> None:
        """Defines variables of the notebook in the workers, too."""
        args = parse_argstring(self.push, line)
        with brief_errors():
            if missing := [name for name in args.names if name not in self.shell.user_ns]:
                message = _("The notebook has no variable {name}.")
                raise ConfigError(message.format(name=missing[0]))
            variables = {name: self.shell.user_ns[name] for name in args.names}
            self._session(args.cluster).push(variables, args.worker)

    @magic_arguments()
    @argument("names", nargs="+", help="variables of the worker")
    @argument("--worker", type=int, default=CHIEF_INDEX, help="the worker, by default the chief")
    @argument("--cluster", help="the variable of a LocalCluster whose workers to use")
    @line_magic
    def pull(self, line: str) -> None:
        """Defines variables of a worker in the notebook, too."""
        args = parse_argstring(self.pull, line)
        with brief_errors():
            self.shell.user_ns.update(self._session(args.cluster).pull(args.names, args.worker))

    def _command(self, args: Any) -> WorkerSession | None:
        """Runs a command of `%workers`, and returns the value to show."""
        command, *rest = args.what or ["show"]
        if command == "start" and len(rest) <= 1:
            self._start(rest, args)
        elif command == "stop" and not rest:
            self._stop(args)
        elif command == "show":
            return self._session(args.cluster)
        else:
            raise _unknown_command(" ".join(args.what))
        return None

    def _run(self, cell: str, workers: list[int], args: Any) -> None:
        code = f"\n{cell}"  # after the line of the magic, so that line numbers are the notebook's
        name = _cell_name(len(self.shell.history_manager.input_hist_parsed) - 1, code)
        check_code(code, name)
        self._session(args.cluster).run_cell(code, name, workers, args.timeout)

    def _start(self, rest: list[str], args: Any) -> None:
        """Starts workers without variables, and ends those that run already."""
        if args.cluster:
            cluster = self._cluster(args.cluster)
            if old := self._named.pop(id(cluster), None):
                old.close()
            session = WorkerSession(cluster, _show, args.keras)
            self._named[id(cluster)] = session
        else:
            count = _parsed_count(*rest)
            if self._own:
                self._own.close()
            session = self._own = WorkerSession(LocalCluster(workers=count), _show, args.keras)
        self.session = session
        session.wait_until_ready()
        print(session)

    def _stop(self, args: Any) -> None:
        session = self._session(args.cluster)
        session.close()
        if session is self._own:
            self._own = None
        self._named = {key: one for key, one in self._named.items() if one is not session}
        if session is self.session:
            self.session = None

    def _session(self, cluster_name: str | None) -> WorkerSession:
        if cluster_name is not None:
            cluster = self._cluster(cluster_name)
            if id(cluster) not in self._named:
                self._named[id(cluster)] = WorkerSession(cluster, _show)
            self.session = self._named[id(cluster)]
        elif self._own:
            self.session = self._own
        if self.session is None:
            message = _("No workers are running. Start them first: {command}")
            raise ConfigError(message.format(command=f"%workers start {DEFAULT_WORKERS}"))
        return self.session

    def _cluster(self, name: str) -> LocalCluster:
        value = self.shell.user_ns.get(name)
        if not isinstance(value, LocalCluster):
            message = _("{option}: no variable of this name is a LocalCluster.")
            raise ConfigError(message.format(option=f"--cluster {name}"))
        return value


def check_code(code: str, name: str) -> None:
    """Raises ConfigError if a cell is not Python code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(code, name)
    except SyntaxError as error:
        line = (error.text or "").strip()
        if not IPYTHON_LINE.match(line):
            text = "".join(traceback.format_exception_only(error))
            raise ConfigError(f"{_('The cell is not Python code:')}\n{text}") from None
        message = _(
            "Line {number}, {line!r}, is an IPython command, and the workers run only Python. Run "
            "it in a separate cell, or write a magic such as {example} above the line {magic}."
        )
        values = {"line": line, "example": "%%time", "magic": "%%workers"}
        raise ConfigError(message.format(number=error.lineno, **values)) from None


def _cell_name(number: int, code: str) -> str:
    """The name of a cell in tracebacks. A cell may run several texts, for example in a loop."""
    base = f"Cell In[{number}]"
    for name in itertools.chain([base], (f"{base} ({count})" for count in itertools.count(2))):
        known = linecache.cache.get(name)
        if known is None or len(known) == 1 or "".join(known[2]) == code:
            break
    return name


def _show(data: dict[str, Any], metadata: dict[str, Any]) -> None:
    display(data, metadata=metadata, raw=True)


def _parsed_tasks(words: list[str]) -> list[int]:
    try:
        return [index for word in words for index in _tasks(word)]
    except ValueError:
        text = " ".join(words)
        message = _("{text!r} is not a list of worker numbers. Write it as in {example}.")
        raise ConfigError(message.format(text=text, example="%%workers 0,2")) from None


def _parsed_count(text: str = str(DEFAULT_WORKERS)) -> int:
    count = int(text) if text.isdigit() else 0
    if not count:
        message = _("{text!r} is not a valid number of workers. Write it as in {example}.")
        example = f"%workers start {DEFAULT_WORKERS}"
        raise ConfigError(message.format(text=text, example=example))
    return count


def _unknown_command(command: str) -> ConfigError:
    message = _("{command} is unknown. Choose one of {allowed}.")
    allowed = join_items(["%workers", *(f"%workers {name}" for name in COMMANDS)])
    return ConfigError(message.format(command=f"%workers {command}", allowed=allowed))
