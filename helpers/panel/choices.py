"""What a panel lets its reader choose, and what this machine can run of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from traitlets import Bool, Enum, Float, HasTraits, Int, TraitError, observe, validate

from helpers.cluster.fork_client import can_fork
from helpers.errors import ConfigError, unknown_choice
from helpers.i18n import _, ngettext, number
from helpers.panel import scenarios
from helpers.panel.code import training_code
from helpers.panel.run import TaskStatus, planned_tasks
from helpers.params import DEFAULT_PARAMS
from helpers.strategies import COLLECTIVES, MULTI_WORKER, ONE_DEVICE, STRATEGIES
from helpers.system.machine import cores, free_memory, needed_memory, nvidia_gpus

CHOICES = (
    "strategy",
    "workers",
    "collective",
    "batch_size",
    "learning_rate",
    "epochs",
    "evaluator",
    "scenario",
)
SAVE_STEPS = 100  # a killed worker costs a reader two seconds of training, not five


class Choices(HasTraits):
    """The choices of a training, each checked as it is made.

    Attributes:
      strategy, workers, collective, batch_size, learning_rate, epochs: as `LocalCluster` and
        its `train` take them; `batch_size` is per worker.
      evaluator: whether a process of its own evaluates beside the training.
      scenario: of `helpers.panel.scenarios`, what befalls the training by itself.

    Args:
      model_fn, input_fn: what is to be trained.
    """

    strategy = Enum(STRATEGIES, STRATEGIES[0])
    workers = Int(2, min=1, max=1024)
    collective = Enum(COLLECTIVES, "AUTO")
    batch_size = Int(DEFAULT_PARAMS["batch_size"], min=1, max=2**31 - 1)
    learning_rate = Float(DEFAULT_PARAMS["learning_rate"], min=1e-6, max=1e6)
    epochs = Int(1, min=1, max=2**31 - 1)
    evaluator = Bool(False)
    scenario = Enum([scenarios.NONE, *scenarios.SCENARIOS], scenarios.NONE)

    def __init__(self, model_fn: Callable[..., Any], input_fn: Callable[..., Any]) -> None:
        super().__init__()
        self.model_fn = model_fn
        self.input_fn = input_fn

    @validate("learning_rate")
    def _check_number(self, proposal: Any) -> float:
        """Refuses "not a number", which is neither below a bound nor above one."""
        if math.isnan(proposal["value"]):
            raise TraitError(_("it is not a number."))
        return proposal["value"]

    @observe("strategy")
    def _fit_the_strategy(self, change: Any) -> None:
        """Takes back what the new strategy cannot have."""
        if self.why_not("collective", self.collective):
            self.collective = "AUTO"
        if self.strategy == ONE_DEVICE:
            self.workers = 1

    def choose(self, **choices: Any) -> None:
        """Sets several choices.

        Raises:
          ConfigError: a name or a value is unknown.
        """
        for name, value in choices.items():
            if name not in CHOICES:
                raise unknown_choice("choice", name, CHOICES)
            try:
                setattr(self, name, value)
            except Exception as error:  # traitlets' TraitError and what comparing may raise
                message = _("{name}={value!r} cannot be: {error}")
                raise ConfigError(message.format(name=name, value=value, error=error)) from None

    def why_not(self, name: str, value: Any) -> str | None:
        """Why this machine cannot run a choice; None when it can."""
        if name == "collective" and value == "NCCL" and (gpus := nvidia_gpus()) < self.workers:
            return _("NCCL needs an NVIDIA GPU for each worker; GPUs found: {count}.").format(
                count=gpus
            )
        if name == "collective" and value != "AUTO" and self.strategy != MULTI_WORKER:
            return _("{strategy} has no collective to choose.").format(strategy=self.strategy)
        if name == "scenario":
            return scenarios.why_not(value)
        if name == "workers" and value > 1:
            if self.strategy == ONE_DEVICE:
                return _("OneDeviceStrategy trains on one device.")
            free = free_memory()
            need = needed_memory(len(self.planned(value)), forked=can_fork())
            if free is not None and free < need:
                return _(
                    "{value} workers need about {need} GB of memory; {free} GB are free."
                ).format(
                    value=value, need=number(need / 1e9, ".1f"), free=number(free / 1e9, ".1f")
                )
        return None

    def notes(self) -> list[str]:
        """What a reader should know before choosing, beyond what is impossible."""
        if self.workers <= (count := cores()):
            return []
        return [
            ngettext(
                "This machine has {count} core: its workers share it, and go no faster together.",
                "This machine has {count} cores: more workers share them, and go no faster.",
                count,
            ).format(count=count)
        ]

    def code(self) -> str:
        """Python code that trains with the same choices, and runs as it stands."""
        group: dict[str, Any] = {"workers": self.workers}
        if self.strategy == MULTI_WORKER:
            group["collective"] = self.collective
        else:
            group["strategy"] = self.strategy
        return training_code(group, self.train_options(), self.model_fn, self.input_fn)

    def planned(self, workers: int) -> list[TaskStatus]:
        """The tasks that so many workers and the other choices give."""
        return planned_tasks(workers, evaluator=self.evaluator, strategy=self.strategy)

    def train_options(self) -> dict[str, Any]:
        """The choices as keyword arguments of `LocalCluster.train`."""
        options: dict[str, Any] = {
            "epochs": self.epochs,
            "params": {"batch_size": self.batch_size, "learning_rate": self.learning_rate},
            "save_checkpoints_steps": SAVE_STEPS,
        }
        return options | ({"evaluate": "beside"} if self.evaluator else {})
