"""The state of a task or a run, with a value, a translated word and a color."""

from __future__ import annotations

from enum import Enum

from helpers.i18n import _


class Status(str, Enum):
    """The state of a task or a whole run, which pages contain as `data-status`."""

    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    TRAINING = "training"
    EVALUATING = "evaluating"
    FROZEN = "frozen"
    LOST = "lost"
    RESTARTING = "restarting"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    __str__ = str.__str__

    @property
    def is_busy(self) -> bool:
        """Whether a run in this state has not ended."""
        return self in (Status.RUNNING, Status.STOPPING)

    @property
    def color(self) -> str:
        """The color in CSS notation."""
        return _COLORS[self]

    @property
    def word(self) -> str:
        """The displayed word, in the current language."""
        words = {
            Status.IDLE: _("ready to run"),
            Status.RUNNING: _("training"),
            Status.STOPPING: _("stopping"),
            Status.WAITING: _("not started"),
            Status.STARTING: _("starting"),
            Status.READY: _("ready"),
            Status.TRAINING: _("training"),
            Status.EVALUATING: _("evaluating"),
            # i18n: the state of a process that SIGSTOP has stopped
            Status.FROZEN: _("frozen"),
            Status.LOST: _("lost"),
            Status.RESTARTING: _("restarting"),
            Status.DONE: _("done"),
            Status.STOPPED: _("stopped"),
            Status.FAILED: _("failed"),
        }
        return words[self]


_GRAY, _BROWN, _BLUE, _VIOLET = "#8a8f98", "#8a6d1f", "#2f7de1", "#8657c9"
_RED, _ORANGE, _GREEN = "#d64545", "#c2690c", "#2b8a4a"
_COLORS = {
    Status.IDLE: _GRAY,
    Status.RUNNING: _BLUE,
    Status.STOPPING: _BROWN,
    Status.WAITING: _GRAY,
    Status.STARTING: _BROWN,
    Status.READY: _BLUE,
    Status.TRAINING: _BLUE,
    Status.EVALUATING: _VIOLET,
    Status.FROZEN: _RED,
    Status.LOST: _RED,
    Status.RESTARTING: _ORANGE,
    Status.DONE: _GREEN,
    Status.STOPPED: _GRAY,
    Status.FAILED: _RED,
}
