"""The context of the work in a process, and the exception for lost peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from helpers.tf_config import TFConfig

Report = Callable[..., None]
"""Sends an event, as `report(EventType.READY, step=0)`; see `helpers.protocol.events`."""


class PeerLostError(Exception):
    """A TensorFlow session cannot run any further step, because a peer has exited."""


@dataclass(frozen=True)
class WorkerContext:
    """The context of the work: its place in the cluster and a function to send events.

    Attributes:
      config: this process's validated `TF_CONFIG`.
      report: sends an event. `helpers.protocol.events` lists the kinds.
      collective: the collective of its cluster, for the strategy that a function creates.
    """

    config: TFConfig
    report: Report
    collective: str = "AUTO"
