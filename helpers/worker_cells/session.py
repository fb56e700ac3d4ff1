"""The workers that run the cells of a notebook, and their restart after a loss."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from helpers import labels
from helpers.cluster.local import LocalCluster
from helpers.errors import ConfigError, check_seconds
from helpers.i18n import _, join_items, join_phrases, ngettext, number
from helpers.protocol import payload, values
from helpers.protocol.cell_messages import Message
from helpers.system import keras_version
from helpers.worker_cells import failures
from helpers.worker_cells.failures import CellInterrupt
from helpers.worker_cells.group import CellGroup, Received, WorkerLink
from helpers.worker_cells.interrupts import InterruptRecorder
from helpers.worker_cells.output import CellOutput, Show, ranges
from helpers.worker_cells.requests import Limits, Outcome, Request

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.05
COMPLETION_TIMEOUT = 0.5
MAX_SHOWN_NAMES = 12
CHIEF_INDEX = 0


class WorkerSession:
    """The workers of a cluster that run cells, one after the other, with persistent variables.

    Args:
      cluster: its settings determine the number of the workers and their network. Its `run` and
        `train` use other processes.
      keras: the Keras of the workers, 2 or 3, by default the version of this process.
      show: shows a MIME bundle in the notebook.
    """

    def __init__(self, cluster: LocalCluster, show: Show, keras: int | None = None) -> None:
        if cluster.ps:
            message = _(
                "{cluster!r} has parameter servers, whose coordinator runs one function. Use "
                "cluster.run, or a LocalCluster without ps for worker cells."
            )
            raise ConfigError(message.format(cluster=cluster))
        self.cluster = cluster
        self.keras = keras_version.default() if keras is None else keras
        if self.keras == 3:
            keras_version.check_keras_3()
        self._show = show
        self._ids = itertools.count()
        self._names: dict[int, list[str]] = {}
        self._group: CellGroup | None = None
        self._lock = threading.Lock()  # of the group, which only one thread may use
        self._launch()

    @property
    def is_running(self) -> bool:
        """Whether there are processes. They may still be starting."""
        return self._group is not None

    def close(self) -> None:
        """Ends the workers."""
        if self._group:
            self._group.close()
        self._group, self._names = None, {}

    def run_cell(
        self, code: str, name: str, workers: Sequence[int] = (), timeout: float | None = None
    ) -> None:
        """Runs a cell in workers and shows its output.

        Args:
          code: the text of the cell.
          name: the name of the cell in tracebacks.
          workers: the indexes of the workers, or empty for all.
          timeout: seconds after which the cell is interrupted.

        Raises:
          WorkerCellError: the cell raised an exception.
          WorkersLostError: a worker has ended. All workers have been restarted, without variables.
          CellStoppedError: the cell did not finish in time.
          CellInterrupt: the kernel was interrupted.
        """
        if timeout is not None:
            check_seconds("--timeout", timeout)
        payload.add_sources({name: code})
        limits = Limits(timeout, self.cluster.timeouts.progress)
        self._perform(workers, "run", {"code": code, "name": name}, limits=limits)

    def push(self, variables: Mapping[str, Any], workers: Sequence[int] = ()) -> None:
        """Defines variables in workers, by default in all.

        Raises: as `run_cell`, and
          ConfigError: a value cannot be pickled.
        """
        try:
            buffers = values.dump(dict(variables))
        except Exception as error:  # __reduce__ of the reader's objects may raise any exception
            message = _(
                "{names} cannot be sent to the workers: {error}. Create open files, sessions, "
                "locks and models in the workers."
            )
            names = join_items(variables)
            raise ConfigError(message.format(names=names, error=error)) from error
        fields = {"sources": payload.cell_sources()}
        self._perform(workers, "push", fields, buffers)

    def pull(self, names: Sequence[str], worker: int = CHIEF_INDEX) -> dict[str, Any]:
        """The values of variables of one worker.

        Raises: as `run_cell`, also if a variable is not defined.
        """
        outcome = self._perform([worker], "pull", {"names": list(names)})
        try:
            return values.load(outcome.replies[worker].buffers)
        except Exception as error:  # a class that this process cannot import
            message = _("{names} of {task} cannot be read in the notebook: {error}")
            task = labels.task(f"worker {worker}")
            text = message.format(names=join_items(names), task=task, error=error)
            raise ConfigError(text) from error

    def complete(self, text: str) -> list[str]:
        """The names in the first worker that begin with `text`, or none if it does not answer."""
        group = self._group
        if group is None or not group.are_connected or not self._lock.acquire(blocking=False):
            return []
        try:
            return self._matches(group, text)
        finally:
            self._lock.release()

    def _matches(self, group: CellGroup, text: str) -> list[str]:
        link, request = group.links[CHIEF_INDEX], {"id": next(self._ids), "text": text}
        link.queue(Message("complete", request))
        deadline = time.monotonic() + COMPLETION_TIMEOUT
        matches: list[str] | None = None
        others: list[Received] = []
        while matches is None and time.monotonic() < deadline and not group.lost:
            for received in group.poll(POLL_INTERVAL):
                message = received[1]
                if message.kind == "done" and message.fields["id"] == request["id"]:
                    matches = message.fields.get("matches", [])
                else:
                    others.append(received)
        group.keep(others)
        return matches or []

    def names(self) -> dict[int, list[str]]:
        """The names that cells have defined, by worker, as of its last reply."""
        return dict(self._names)

    def wait_until_ready(self) -> None:
        """Waits until all workers can run a cell.

        Raises:
          HelpersError: a worker could not start.
          CellInterrupt: the kernel was interrupted.
        """
        group = self._started()
        deadline = time.monotonic() + self.cluster.timeouts.start
        with InterruptRecorder() as interrupts:
            while not group.are_connected:
                group.watch(POLL_INTERVAL)
                if lost := group.lost:
                    error: BaseException = failures.start_error(lost[0], lost[0].process.wait())
                elif interrupts.count:
                    error = CellInterrupt(_("The start of the workers was interrupted."))
                elif time.monotonic() > deadline:
                    error = failures.not_ready_error(group.links, self.cluster.timeouts.start)
                else:
                    continue
                self.close()
                raise error

    def __repr__(self) -> str:
        if self._group is None:
            return _("Worker cells: not running.")
        group = self._group
        group.watch(0)
        lines = [join_phrases([labels.workers(len(group.links)), f"Keras {self.keras}"])]
        return "\n".join([*lines, *map(self._describe, group.links)])

    def _describe(self, link: WorkerLink) -> str:
        task = labels.task(link.task)
        if link.is_lost or link.process.has_exited:
            return _("[{index}] {task}: has ended").format(index=link.index, task=task)
        if not link.is_connected:
            return _("[{index}] {task}: is starting").format(index=link.index, task=task)
        found = self._names.get(link.index, [])
        names = join_items([*found[:MAX_SHOWN_NAMES], *["…"] * (len(found) > MAX_SHOWN_NAMES)])
        message = _("[{index}] {task}: process {pid}, variables: {names}")
        values_ = {"index": link.index, "task": task, "pid": link.process.pid}
        return message.format(names=names or "-", **values_)

    def _launch(self) -> None:
        self._names = {}
        self._group = CellGroup(self.cluster, self.keras, _warn)
        logger.info("Started %d workers for cells", len(self._group.links))

    def _started(self) -> CellGroup:
        if self._group is None:
            self._launch()
        assert self._group
        return self._group

    def _perform(
        self,
        workers: Sequence[int],
        kind: str,
        fields: Mapping[str, Any],
        buffers: Sequence[values.Buffer] = (),
        limits: Limits | None = None,
    ) -> Outcome:
        """Sends a request to workers and waits for their replies.

        Raises: as `run_cell`.
        """
        self._check_indexes(workers)
        if not self._lock.acquire(blocking=False):
            raise ConfigError(_("The workers run another cell. Wait until it finishes."))
        try:
            message = Message(kind, {"id": next(self._ids), **fields}, buffers)
            return self._perform_exclusively(workers, message, limits or Limits())
        finally:
            self._lock.release()

    def _perform_exclusively(
        self, workers: Sequence[int], message: Message, limits: Limits
    ) -> Outcome:
        group = self._started()
        group.watch(0)
        if lost := {link: link.process.wait() for link in group.lost if group.are_connected}:
            raise self._replaced(failures.lost_between_cells(lost, self._all_names()))
        self.wait_until_ready()
        links = [group.links[index] for index in sorted(set(workers))] or group.links
        output = CellOutput([link.index for link in links], _write, self._show)
        outcome = Request(group, links, message, output, limits).perform()
        self._record(outcome)
        ended = {link: link.process.wait() for link in group.lost}
        if ended or outcome.unresponsive:
            names = self._all_names()
            for link in outcome.unresponsive:
                logger.warning("%s did not react to an interrupt", link.task)
            raise self._replaced(failures.lost_error(outcome, limits.total, ended, names))
        if outcome.stop:
            raise failures.stopped_error(outcome, limits.total)
        if errors := failures.errors_of(outcome):
            raise failures.cell_error(errors)
        return outcome

    def _record(self, outcome: Outcome) -> None:
        """Records the names of the workers, and reports omitted output."""
        omitted: dict[int, list[int]] = {}
        for index, reply in sorted(outcome.replies.items()):
            self._names[index] = reply.fields["names"]
            if count := reply.fields["omitted"]:
                omitted.setdefault(count, []).append(index)
        for count, indexes in omitted.items():
            message = ngettext(
                "[{workers}] … {count} more character is not shown",
                "[{workers}] … {count} more characters are not shown",
                count,
            )
            text = message.format(workers=ranges(indexes), count=number(count, ",d"))
            _write("stdout", f"{text}\n")

    def _all_names(self) -> list[str]:
        return list(dict.fromkeys(itertools.chain.from_iterable(self._names.values())))

    def _replaced(self, error: failures.WorkersLostError) -> failures.WorkersLostError:
        """Starts new workers, and returns the error that reports the loss of the old ones."""
        logger.warning("Restarting the workers: %s", error.reason)
        self.close()
        self._launch()
        return error

    def _check_indexes(self, workers: Sequence[int]) -> None:
        count = self.cluster.workers
        for index in workers:
            if not 0 <= index < count:
                message = _("There is no worker {index}. The cluster has the workers {range}.")
                raise ConfigError(message.format(index=index, range=ranges(range(count))))


def _write(stream: str, text: str) -> None:
    file = sys.stderr if stream == "stderr" else sys.stdout
    file.write(text)
    file.flush()


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)
