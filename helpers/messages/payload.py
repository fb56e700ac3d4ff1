"""Carries a job, with the reader's functions, from the notebook to the workers."""

from __future__ import annotations

import linecache
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import cloudpickle

from helpers.errors import ConfigError
from helpers.i18n import _


def save(job: Any, path: str | Path) -> None:
    """Writes a `helpers.messages.job.Job` to `path`, readable by its owner alone.

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
    data = pickle.dumps({"job": pickled, "sources": _cell_sources(), "path": sys.path})
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def read(path: Path) -> bytes:
    """The content of a payload, not yet unpacked.

    Raises:
      ConfigError: there is no such file, or it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        message = _("The payload {path} cannot be read: {reason}.")
        raise ConfigError(message.format(path=path, reason=error.strerror)) from None


def unpack(data: bytes, path: Path) -> Any:
    """The job in a payload's content. This imports what its functions need, TensorFlow too.

    Args:
      path: where it came from, for the message.

    Raises:
      ConfigError: it is no payload, or names a module this process cannot import.
    """
    try:
        content = pickle.loads(data)
        for name, text in content["sources"].items():
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        sys.path += [folder for folder in content["path"] if folder not in sys.path]
        return pickle.loads(content["job"])
    except ImportError as error:
        message = _(
            "A worker cannot import what the functions need: {error}. Modules must be installed, "
            "or lie in a folder of the notebook's sys.path."
        )
        raise ConfigError(message.format(error=error)) from error
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, AttributeError) as error:
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
