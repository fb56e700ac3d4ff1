"""What the work in a process is given, and what it raises when it has lost its peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from helpers.tf_config import TFConfig

Report = Callable[..., None]
"""Sends an event, as `report(EventType.READY, step=0)`; see `helpers.protocol.events`."""


class PeerLostError(Exception):
    """A session of TensorFlow can do no step any more, as a peer has gone."""


@dataclass(frozen=True)
class WorkerContext:
    """What the work is given: its place in the cluster and a way to report.

    Attributes:
      config: this process's checked `TF_CONFIG`.
      report: sends an event; the kinds are listed in `helpers.protocol.events`.
      collective: what its cluster was asked for, for the strategy that a function makes.
    """

    config: TFConfig
    report: Report
    collective: str = "AUTO"
