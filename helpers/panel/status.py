"""The words a reader sees for the states of a task and of a run, in the present language."""

from __future__ import annotations

from helpers.i18n import _
from helpers.panel.run import (
    DONE,
    EVALUATING,
    FAILED,
    LOST,
    READY,
    RESTARTING,
    STARTING,
    STOPPED,
    TRAINING,
    WAITING,
)

COLORS = {
    WAITING: "#8a8f98",
    "idle": "#8a8f98",
    STARTING: "#8a6d1f",
    READY: "#2f7de1",
    TRAINING: "#2f7de1",
    EVALUATING: "#8657c9",
    LOST: "#d64545",
    RESTARTING: "#c2690c",
    "stopping": "#8a6d1f",
    DONE: "#2b8a4a",
    STOPPED: "#8a8f98",
    FAILED: "#d64545",
}


def status_word(status: str) -> str:
    """The word for a status of `helpers.panel.run` or of `PanelState`."""
    words = {
        "idle": _("ready to run"),
        "running": _("training"),
        "stopping": _("stopping"),
        WAITING: _("not started"),
        STARTING: _("starting"),
        READY: _("ready"),
        TRAINING: _("training"),
        EVALUATING: _("evaluating"),
        LOST: _("lost"),
        RESTARTING: _("restarting"),
        DONE: _("done"),
        STOPPED: _("stopped"),
        FAILED: _("failed"),
    }
    return words[status]
