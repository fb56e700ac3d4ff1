"""The kinds of fault that `helpers.compare` distinguishes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from helpers.i18n import _, gettext_noop


class Cause(Enum):
    """The likely kind of fault. docs/KERAS_3.md describes each kind and its fix."""

    LOSS_SCALE = gettext_noop("loss scale")
    PARTIAL_MEANS = gettext_noop("partial means")
    EMPTY_PART = gettext_noop("empty part")
    LOCAL_GRADIENTS = gettext_noop("local gradients")
    STEPS_PER_EXECUTION = gettext_noop("steps per execution")
    METRICS = gettext_noop("metrics")
    DATASET_LENGTH = gettext_noop("dataset length")
    READ_ONCE = gettext_noop("read-once data")
    OVERWRITTEN_ARRAYS = gettext_noop("overwritten arrays")
    ORDER = gettext_noop("order")
    STATE = gettext_noop("state")
    CONTROL_FLOW = gettext_noop("control flow")
    SCOPE = gettext_noop("scope")
    START = gettext_noop("start")
    RANDOM_LAYERS = gettext_noop("random layers")
    UNKNOWN = gettext_noop("unknown")

    @property
    def label(self) -> str:
        """The name of the kind of fault in the current language."""
        return _(self.value)


@dataclass(frozen=True)
class Diagnosis:
    """The likely fault with one group size.

    Attributes:
      cause: the kind of fault.
      evidence: a sentence with the numbers behind the diagnosis.
      step: the first step at which the runs differ, from 1, or None if no step was recorded.
    """

    cause: Cause
    evidence: str
    step: int | None = None
