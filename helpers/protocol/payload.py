"""Carries a job, with the reader's functions, from the notebook to the workers."""

from __future__ import annotations

import linecache
import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from helpers.errors import ConfigError
from helpers.i18n import _


def save(job: Any, path: str | Path, *, keras: int) -> None:
    """Writes a `helpers.protocol.job.Job` to `path`, readable by its owner alone.

    A function defined in a notebook or in `__main__` travels by value, with the globals it
    uses; one from an installed module travels by name. The text of the notebook's cells goes
    along, for TensorFlow's AutoGraph and for tracebacks.

    Raises:
      ConfigError: a function refers to something that cannot be sent.
    """
    try:
        pickled = cloudpickle.dumps(job)
    except Exception as error:  # whatever __reduce__ of the reader's objects raises
        message = _(
            "The functions cannot be sent to the workers: {error}. Open files, sessions, locks "
            "and models belong inside the function, which runs in every worker."
        )
        raise ConfigError(message.format(error=error)) from error
    content = {"job": pickled, "sources": _cell_sources(), "sys_path": sys.path, "keras": keras}
    data = pickle.dumps(content)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


@dataclass(frozen=True)
class Payload:
    """A payload that has been read; the functions in it are not imported yet.

    Attributes:
      path: where it came from.
      job: pickled.
      sources: the text of the notebook's cells, by the names that Python gives them.
      sys_path: where the notebook looks for modules.
      keras: the Keras that its functions need.
    """

    path: Path
    job: bytes
    sources: Mapping[str, str]
    sys_path: Sequence[str]
    keras: int

    def unpack(self) -> Any:
        """The job. This imports what its functions need, TensorFlow too.

        Raises:
          ConfigError: it was written by another version, or names a module this process cannot
            import.
        """
        for name, text in self.sources.items():
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        sys.path += [folder for folder in self.sys_path if folder not in sys.path]
        try:
            with _readable(self.path):
                return pickle.loads(self.job)
        except ImportError as error:
            message = _(
                "A worker cannot import what the functions need: {error}. Modules must be "
                "installed, or lie in a folder of the notebook's sys.path."
            )
            raise ConfigError(message.format(error=error)) from error


def read(path: Path) -> Payload:
    """A payload from its file.

    Raises:
      ConfigError: there is no such file, it cannot be read, or it is no payload.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        message = _("The payload {path} cannot be read: {reason}.")
        raise ConfigError(message.format(path=path, reason=error.strerror)) from None
    with _readable(path):
        return Payload(path, **pickle.loads(data))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Says in a sentence that this is no payload, or one of another version."""
    try:
        yield
    except (pickle.UnpicklingError, EOFError, TypeError, AttributeError) as error:
        message = _(
            "{path} is no payload this version can read ({error}). Write it again with "
            "estimator_job(...).save, under the same Python and package versions."
        )
        raise ConfigError(message.format(path=path, error=error)) from error


def _cell_sources() -> dict[str, str]:
    """The text of notebook cells: sources that Python knows and no file holds."""
    return {
        name: "".join(entry[2])
        for name, entry in list(linecache.cache.items())
        if len(entry) == 4 and entry[2] and not os.path.exists(name)
    }
