"""File descriptors: the three standard ones, and the error if there are no more."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from helpers.errors import ConfigError
from helpers.i18n import _

STANDARD = 3
TOO_MANY = (errno.EMFILE, errno.ENFILE)


def fill_standard() -> None:
    """Opens /dev/null for each of standard input, output and error that is closed.

    Otherwise the next files that are opened get their numbers, and a new process, which gets its
    own standard descriptors, loses the descriptors that were passed to it.
    """
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor >= STANDARD:
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, True)


def are_exhausted(error: OSError) -> bool:
    """Whether an error means that no more files can be opened."""
    return error.errno in TOO_MANY


@contextmanager
def limit_explained() -> Iterator[None]:
    """Raises ConfigError, with advice, if no more files can be opened."""
    try:
        yield
    except OSError as error:
        if not are_exhausted(error):
            raise
        import resource  # not available on Windows

        limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        message = _(
            "Too many files are open: this process may open {limit} (ulimit -n). A cluster needs "
            "about 10 for each worker. Raise the limit, or close files."
        )
        raise ConfigError(message.format(limit=limit)) from error
