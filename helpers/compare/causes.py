"""The kinds of fault that `helpers.compare` distinguishes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Cause(Enum):
    """The likely kind of fault; docs/KERAS_3.md describes each, and what to do."""

    LOSS_SCALE = "loss scale"
    PARTIAL_MEANS = "partial means"
    EMPTY_PART = "empty part"
    LOCAL_GRADIENTS = "local gradients"
    STEPS_PER_EXECUTION = "steps per execution"
    METRICS = "metrics"
    DATASET_LENGTH = "dataset length"
    READ_ONCE = "read-once data"
    OVERWRITTEN_ARRAYS = "overwritten arrays"
    ORDER = "order"
    STATE = "state"
    CONTROL_FLOW = "control flow"
    SCOPE = "scope"
    START = "start"
    RANDOM_LAYERS = "random layers"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Diagnosis:
    """What is likely wrong on a group size.

    Attributes:
      cause: the kind of fault.
      evidence: a sentence with the numbers that decided.
      step: the first step at which the runs differ, from 1; None if no step was recorded.
    """

    cause: Cause
    evidence: str
    step: int | None = None
