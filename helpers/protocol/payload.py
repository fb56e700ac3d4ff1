"""Serializes a job, with the reader's functions, for the workers."""

from __future__ import annotations

import linecache
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.errors import ConfigError
from helpers.i18n import _
from helpers.protocol import absl_flags, readers_modules, values


def save(job: Any, path: str | Path, *, keras: int) -> None:
    """Writes a `helpers.protocol.job.Job` to `path`, readable only by its owner.

    A function defined in a notebook or in `__main__` is sent by value, with the globals it uses. A
    function from an installed module is sent by name. The payload includes the text of the
    notebook's cells, for TensorFlow's AutoGraph and for tracebacks.

    Raises:
      ConfigError: a function refers to something that cannot be sent.
    """
    try:
        pickled = values.pickled(job)
    except Exception as error:  # __reduce__ of the reader's objects may raise any exception
        message = _(
            "The functions cannot be sent to the workers: {error}. Open files, sessions, locks "
            "and models belong inside the function, which runs in every worker."
        )
        raise ConfigError(message.format(error=error)) from error
    content = {
        "job": pickled,
        "sources": cell_sources(),
        "sys_path": readers_modules.folders(),
        "keras": keras,
        "flags": absl_flags.parsed(),
    }
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        pickle.dump(content, file)  # without another copy of large arrays


@dataclass(frozen=True)
class Payload:
    """A payload that has been read. Its functions are not imported yet.

    Attributes:
      path: the file it was read from.
      job: pickled.
      sources: the text of the notebook's cells, by the file names that Python assigns to them.
      sys_path: the folders in which the notebook looks for modules.
      keras: the Keras that its functions need.
      flags: the values of the program's flags (absl.flags), by name.
    """

    path: Path
    job: bytes
    sources: Mapping[str, str]
    sys_path: Sequence[str]
    keras: int
    flags: Mapping[str, Any] = field(default_factory=dict)

    def unpack(self) -> Any:
        """Returns the job. This imports the modules that its functions need, including TensorFlow.

        Raises:
          ConfigError: it was written by another version, or names a module this process cannot
            import.
        """
        add_sources(self.sources)
        readers_modules.use(self.sys_path)
        try:
            with _readable(self.path):
                job = self._load()
                absl_flags.restore(self.flags)
                return job
        except ImportError as error:
            message = _(
                "A worker cannot import a module that the functions need: {error}. Modules "
                "must be installed, or be in a folder of the notebook's sys.path."
            )
            raise ConfigError(message.format(error=error)) from error

    def _load(self) -> Any:
        try:
            return pickle.loads(self.job)
        except (ImportError, AttributeError) as error:
            module = getattr(error, "name", None) or _module_in(str(error))
            if module and (file := readers_modules.find_hidden(self.sys_path, module)):
                message = _(
                    "{file} has the name of another module, which TensorFlow has imported already, "
                    "so a worker cannot import it ({error}). Rename the file."
                )
                raise ConfigError(message.format(file=file, error=error)) from error
            raise


def _module_in(error: str) -> str | None:
    """The module in "Can't get attribute 'f' on <module 'm' from 'm.py'>"."""
    found = re.search(r"<module '([^']+)'", error)
    return found[1] if found else None


def read(path: Path) -> Payload:
    """Reads a payload from its file.

    Raises:
      ConfigError: there is no such file, it cannot be read, or it is not a payload.
    """
    try:
        with path.open("rb") as file, _readable(path):
            return Payload(path, **pickle.load(file))
    except OSError as error:
        message = _("The payload {path} cannot be read: {reason}.")
        raise ConfigError(message.format(path=path, reason=error.strerror)) from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raises ConfigError if this is not a payload, or one of another version."""
    try:
        yield
    except (pickle.UnpicklingError, EOFError, TypeError, AttributeError) as error:
        message = _(
            "{path} is not a payload that this version can read ({error}). Write it again with "
            "estimator_job(...).save, with the same Python and package versions."
        )
        raise ConfigError(message.format(path=path, error=error)) from error


def cell_sources() -> dict[str, str]:
    """The text of notebook cells, which are sources that Python knows without a file."""
    return {
        name: "".join(entry[2])
        for name, entry in list(linecache.cache.items())
        if len(entry) == 4 and entry[2] and not os.path.exists(name)
    }


def add_sources(sources: Mapping[str, str]) -> None:
    """Adds the text of notebook cells, which Python then shows in tracebacks."""
    for name, text in sources.items():
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
