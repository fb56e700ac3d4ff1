"""Checks of the current folder, the memory, the folder of checkpoints, and the results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from helpers import labels
from helpers.errors import ClusterError, ConfigError
from helpers.i18n import _, ngettext
from helpers.system.machine import max_processes

PROBE_BYTES = 4096


def check_folder() -> None:
    """Raises ConfigError if the working directory of this program has been deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        message = _(
            "The working directory of this program has been deleted, and workers start there. "
            "Call os.chdir with one that exists."
        )
        raise ConfigError(message) from None


def check_memory(workers: int, ps: int = 0, *, forked: bool) -> None:
    """Raises ConfigError if the free memory is too small for these workers or parameter servers.

    Args:
      forked: whether they are forked. Otherwise each imports TensorFlow.
    """
    most = max_processes(forked=forked)
    if most is not None and ps > most:
        message = ngettext(
            "ps={ps} parameter servers do not fit into the free memory: {most} process could "
            "start here. Use fewer.",
            "ps={ps} parameter servers do not fit into the free memory: {most} processes could "
            "start here. Use fewer.",
            most,
        )
        raise ConfigError(message.format(ps=ps, most=most))
    if most is not None and workers > most:
        message = _(
            "workers={workers} do not fit into the free memory: {most} could start here, and "
            "training needs more memory. Use workers={most} or fewer."
        )
        raise ConfigError(message.format(workers=workers, most=most))


def check_writable(model_dir: str) -> None:
    """Raises ConfigError if no checkpoint can be written to this folder."""
    _check_text(model_dir)
    try:
        os.makedirs(model_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=model_dir) as file:
            file.write(b"\0" * PROBE_BYTES)
    except OSError as error:
        message = _(
            "Checkpoints cannot be written to model_dir={model_dir!r}: {reason}. Use a folder "
            "that you can write to, on a disk with enough space."
        )
        raise ConfigError(message.format(model_dir=model_dir, reason=error.strerror)) from None


def _check_text(model_dir: str) -> None:
    try:
        model_dir.encode()
    except UnicodeEncodeError:
        message = _(
            "model_dir={model_dir!r} has bytes that are not UTF-8, and TensorFlow cannot open "
            "it. Use another folder or, if you did not choose this one, set TMPDIR."
        )
        raise ConfigError(message.format(model_dir=model_dir)) from None


def check_links(model_dir: str) -> None:
    """Raises ConfigError if another user has put a link into the folder of checkpoints.

    TensorFlow follows links when it writes, so a checkpoint would replace the link's target.
    """
    for folder, folders, files in os.walk(model_dir):
        for path in (os.path.join(folder, name) for name in (*folders, *files)):
            if os.path.islink(path) and os.lstat(path).st_uid not in (os.geteuid(), 0):
                message = _(
                    "{path} is a link that another user has put into model_dir, and a "
                    "checkpoint could replace the file that it points to. Use your own folder."
                )
                raise ConfigError(message.format(path=path))


def check_results(values: Mapping[str, Any], tasks: Sequence[str]) -> None:
    """Raises ClusterError if one of the tasks exited without the result of its function."""
    for task in tasks:
        if task not in values:
            message = _(
                "{task} exited with code 0 before its function returned anything. Does something "
                "in it call os._exit? Let it return instead."
            )
            raise ClusterError(message.format(task=labels.task(task)))
