"""Messages between the workers of a MultiWorkerMirroredStrategy, in addition to their tensors.

TensorFlow's coordination service, which every such strategy starts, stores texts under keys and
lets a worker wait for a key. A round trip takes half a millisecond and is independent of the order
of collectives. Each worker counts its agreements and publishes its position in the program at each
of them. So a diverged worker is reported by name, and no collective waits for it forever.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers import labels
from helpers.errors import ConfigError
from helpers.i18n import _, join_clauses, labeled
from helpers.keras_3.peer_health import check_process, is_of_the_network, tf_context

logger = logging.getLogger(__name__)

SLICE_MILLISECONDS = 1000  # of a single wait, so that an interrupt is handled
WAIT_REPORT_SECONDS = 10.0  # a longer wait is logged, and the peer's process is checked
STALLED_SECONDS = 2.0  # without a step, before the peers' positions are checked
LEAVE_SECONDS = 2.0  # to publish a worker's last position
LAST_WORD_SECONDS = 1.0  # for the peers to read it
INTERNAL = 13  # the code of TensorFlow's InternalError

MAX_ERROR_CHARACTERS = 500  # of a peer's error, because TensorFlow's messages can be pages long
FAILED, ENDED, STEPS = "failed", "ended", "steps"

Position = dict[str, Any]
"""The data that a worker publishes: `stage`, `text`, and the facts to agree on."""


class DivergedError(ConfigError):
    """The workers' programs, data or weights have diverged."""


class DifferentWeightsError(DivergedError):
    """The workers' variables have different values."""


@dataclass
class Call:
    """A call of `fit`, `evaluate` or `predict` that is in progress.

    Attributes:
      name: the method.
      text: its name in messages.
      facts: options that must be equal on all workers.
      model: the model.
      datasets: the number of datasets it has opened.
      begun: the number of steps begun in the current loop, or None outside of a loop.
    """

    name: str
    text: str
    facts: dict[str, Any]
    model: Any
    datasets: int = 0
    begun: int | None = None


@dataclass
class Group:
    """The workers, as seen by one of them.

    Attributes:
      index: the index of this worker.
      size: the number of workers.
      names: the names of all workers in messages.
      devices: the names of all workers in TensorFlow, such as "/job:worker/replica:0/task:1".
      calls: the calls in progress in this worker, the innermost last.
      meetings: the number of agreements so far.
    """

    index: int
    size: int
    names: Sequence[str]
    devices: Sequence[str] = ()
    calls: list[Call] = field(default_factory=list)
    meetings: int = 0
    _aborted: str = ""
    _diverged: bool = False
    _watched: bool = False
    _tasks: queue.SimpleQueue[Any] = field(default_factory=queue.SimpleQueue)
    _progress: float = field(default_factory=time.monotonic)
    _heard: dict[int, Position] = field(default_factory=dict)

    def agree(self, stage: str, text: str, **facts: Any) -> list[Position]:
        """Waits for the other workers and returns the position that each published, in their order.

        Raises:
          DivergedError: another worker is elsewhere in its program, failed, or has ended.
          tf.errors.UnavailableError: the process of another worker was lost.
        """
        number, self.meetings = self.meetings, self.meetings + 1
        mine = {"stage": stage, "text": text, **facts}
        self._publish(number, mine)
        positions = [
            mine if peer == self.index else self._wait(number, peer, text)
            for peer in range(self.size)
        ]
        if number >= 2:  # all have read it, because a later agreement has ended
            with contextlib.suppress(Exception):
                tf_context().delete_config_key_value(_key(number - 2, self.index))
        if any(position["stage"] != stage for position in positions):
            messages = [p["message"] for p in positions if "message" in p]
            raise DivergedError(messages[0] if messages else self.parted(positions))
        self._progress = time.monotonic()
        return positions

    def leave(self, stage: str, text: str, **facts: Any) -> None:
        """Publishes, without waiting, that this worker will not join the next agreement."""
        number, self.meetings = self.meetings, self.meetings + 1
        done = threading.Event()
        self._tasks.put((number, {"stage": stage, "text": text, **facts}, done))
        done.wait(LEAVE_SECONDS)
        if stage == ENDED and self.index == 0:  # the service stops with this process
            self._wait_for_the_ends(number)

    def _wait_for_the_ends(self, number: int) -> None:
        """Allows the peers a moment to end as well, or to read that this worker has ended."""
        end, missing = time.monotonic() + LAST_WORD_SECONDS, set(range(1, self.size))
        while missing and time.monotonic() < end:
            missing = {peer for peer in missing if not self._has_ended(number, peer)}
        if missing and self._diverged:
            time.sleep(LAST_WORD_SECONDS)

    def _has_ended(self, number: int, peer: int) -> bool:
        try:
            position = self._peek(number, peer, 50)
        except Exception:  # the service has stopped
            return True
        return position is not None and position["stage"] == ENDED

    @contextlib.contextmanager
    def calling(self, call: Call) -> Iterator[Call]:
        """Registers `call` while it runs, and publishes an error that leaves the outermost call.

        Raises:
          DivergedError: another worker's program has diverged, so this worker's collectives were
            aborted.
        """
        self.calls.append(call)
        self._progress = time.monotonic()
        _start_watching(self)
        try:
            yield call
        except DivergedError:
            self._diverged = True
            raise
        except Exception as error:
            if self._aborted:
                self._diverged = True
                self.leave(FAILED, call.text, message=self._aborted)
                raise DivergedError(self._aborted) from None
            if len(self.calls) == 1 and not is_of_the_network(error):
                text = " ".join(str(error).split())[:MAX_ERROR_CHARACTERS]
                template = _("failed in {call} with {error}")
                error_text = f"{type(error).__name__}: {text}"
                self.leave(FAILED, template.format(call=call.text, error=error_text))
            raise
        finally:
            self.calls.pop()

    def step(self, begun: int) -> None:
        """Records that step number `begun` of the current loop begins."""
        if self.calls:
            self.calls[-1].begun = begun
        self._progress = time.monotonic()

    def leave_loop(self) -> None:
        """Records that the loop of steps has ended."""
        if self.calls:
            self.calls[-1].begun = None

    def seed(self) -> int:
        """A number that the first worker draws once, equal on all workers."""
        return _seed(self)

    def look_for_a_parted_peer(self) -> str:
        """A sentence about a peer for which this worker's step would wait forever, or "".

        Only a worker inside a step can detect this: the peer will not join the step.
        """
        begun = self.calls[-1].begun if self.calls else None
        if begun is None or time.monotonic() - self._progress < STALLED_SECONDS:
            return ""
        for peer in range(self.size):
            position = None if peer == self.index else self._peek(self.meetings, peer)
            if position is not None and position.get("steps", -1) < begun:
                mine = {"text": _("in step {step} of {call}")}
                mine["text"] = mine["text"].format(step=begun, call=self.calls[-1].text)
                positions = {self.index: mine, peer: position}
                return self.parted([positions.get(i, {}) for i in range(self.size)])
        return ""

    def parted(self, positions: Sequence[Position]) -> str:
        """The message that reports each worker's position, without the empty positions."""
        message = _(
            "The workers' programs have diverged: {positions}. All workers must call fit, evaluate "
            "and predict in the same order, and end them at the same step: do not call them "
            "under a condition that is true on only some workers."
        )
        if any(position.get("stage") == FAILED for position in positions):
            message = _("A worker has failed, so the others cannot continue: {positions}.")
        pairs = zip(self.names, positions, strict=True)
        texts = [labeled(name, position["text"]) for name, position in pairs if position]
        return message.format(positions=join_clauses(texts))

    def _publish(self, number: int, position: Position) -> None:
        tf_context().set_config_key_value(_key(number, self.index), json.dumps(position))

    def _wait(self, number: int, peer: int, text: str) -> Position:
        start, reported = time.monotonic(), False
        while True:
            position = self._peek(number, peer, SLICE_MILLISECONDS)
            if position is not None:
                return position
            if time.monotonic() - start <= WAIT_REPORT_SECONDS:
                continue
            if self.devices:
                check_process(self.devices[peer], self.names[peer])
            if not reported:
                reported = True
                logger.warning(
                    _("%s (%s) has been waiting for %s for %d s. Its last report: %s"),
                    self.names[self.index],
                    text,
                    self.names[peer],
                    WAIT_REPORT_SECONDS,
                    self._heard.get(peer, {}).get("text", _("nothing")),
                )

    def _peek(self, number: int, peer: int, milliseconds: int = 20) -> Position | None:
        import tensorflow as tf

        try:
            value = tf_context().get_config_key_value(_key(number, peer), milliseconds)
        except (tf.errors.DeadlineExceededError, tf.errors.NotFoundError):
            return None
        position: Position = json.loads(value)
        self._heard[peer] = position
        return position


_groups: dict[int, Group] = {}  # by number of workers, because a process has only one cluster
_seeds: dict[int, int] = {}


def group_of(strategy: Any) -> Group:
    """The group of workers of a MultiWorkerMirroredStrategy."""
    extended = strategy.extended
    size = extended._num_workers
    if size not in _groups:
        resolver = extended._cluster_resolver
        spec = resolver.cluster_spec().as_dict() if resolver is not None else {}
        tasks = [
            (job, task) for job in ("chief", "worker") for task in range(len(spec.get(job, ())))
        ]
        if len(tasks) != size:
            tasks = [("worker", task) for task in range(size)]
        names = [labels.task(f"{job} {task}") for job, task in tasks]
        devices = [f"/job:{job}/replica:0/task:{task}" for job, task in tasks] if spec else ()
        _groups[size] = Group(extended._id_in_cluster, size, names, devices)
        atexit.register(leave, _("its program has ended"))
    return _groups[size]


def leave(text: str) -> None:
    """Publishes that this worker's function has returned, so that it joins no further agreement."""
    for group in _groups.values():
        if group._watched:
            group.leave(ENDED, text)
    _groups.clear()


def _seed(group: Group) -> int:
    key = f"helpers.keras_3/seed/{group.size}"
    if group.size not in _seeds:
        if group.index == 0:
            drawn = time.time_ns() % (1 << 31)
            tf_context().set_config_key_value(key, str(drawn))
            _seeds[group.size] = drawn
        else:
            _seeds[group.size] = int(tf_context().get_config_key_value(key, 0))
    return _seeds[group.size]


def _start_watching(group: Group) -> None:
    """Starts a thread, once per group, that detects a diverged peer."""
    if not group._watched:
        group._watched = True
        name = "keras-3-peers"
        threading.Thread(target=_watch, args=(group,), daemon=True, name=name).start()


def _watch(group: Group) -> None:
    """Publishes positions for other threads until the program ends, and detects diverged peers."""
    while True:
        with contextlib.suppress(queue.Empty):
            number, position, done = group._tasks.get(timeout=0.5)
            with contextlib.suppress(Exception):
                group._publish(number, position)
            done.set()
            continue
        try:
            message = "" if group._aborted else group.look_for_a_parted_peer()
        except Exception:
            logger.debug("The peers' positions could not be read", exc_info=True)
            continue
        if message:
            group._aborted = message
            tf_context().abort_collective_ops(INTERNAL, message)


def _key(number: int, index: int) -> str:
    return f"helpers.keras_3/{number}/{index}"
