"""The choices of a panel, and the choices that this machine can run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

from traitlets import Bool, Enum, Float, HasTraits, Int, TraitError, observe, validate

from helpers.cluster.fork_client import can_fork
from helpers.course.panel import scenarios
from helpers.course.panel.code import calling_code, training_code
from helpers.course.panel.run import TaskStatus, planned_tasks
from helpers.errors import ConfigError, unknown_choice
from helpers.i18n import _, ngettext, number
from helpers.params import DEFAULT_PARAMS, with_defaults
from helpers.protocol.job import KERAS_VERSIONS
from helpers.strategies import COLLECTIVES, MULTI_WORKER, ONE_DEVICE, ONE_PROCESS, STRATEGIES
from helpers.system import keras_version
from helpers.system.machine import cores, free_memory, needed_memory, nvidia_gpus

CHOICES = (
    "strategy",
    "workers",
    "collective",
    "batch_size",
    "learning_rate",
    "epochs",
    "steps",
    "evaluator",
    "scenario",
)
FUNCTION_CHOICES = ("workers", "collective", "scenario")  # a function determines the other settings
SAVE_STEPS = 100  # a killed worker costs two seconds of training, not five


class Choices(HasTraits):
    """The settings of a training run, each validated when it is set.

    Attributes:
      strategy, workers, collective, batch_size, learning_rate, epochs: arguments of `LocalCluster`
        and its `train`. `batch_size` is per worker.
      steps: the last global step, or None for whole epochs.
      evaluator: whether a separate process evaluates during training.
      scenario: the name of a fault scenario in `helpers.course.panel.scenarios`.

    Args:
      model_fn, input_fn: the model and the data to train.
      function: a function to call in every worker instead, as in `LocalCluster.run`.
      keras: the version of `tf.keras` for that function, 2 or 3 (default: as in
        `LocalCluster.run`).
      fault_injection: whether faults can be injected.

    Raises:
      ConfigError: `keras` is neither 2 nor 3.
    """

    strategy = Enum(STRATEGIES, STRATEGIES[0])
    workers = Int(2, min=1, max=1024)
    collective = Enum(COLLECTIVES, "AUTO")
    batch_size = Int(DEFAULT_PARAMS["batch_size"], min=1, max=2**31 - 1)
    learning_rate = Float(DEFAULT_PARAMS["learning_rate"], min=1e-6, max=1e6)
    epochs = Int(1, min=1, max=2**31 - 1)
    steps = Int(None, allow_none=True, min=1, max=2**31 - 1)
    evaluator = Bool(False)
    scenario = Enum([scenarios.NO_FAULT, *scenarios.SCENARIOS], scenarios.NO_FAULT)

    def __init__(
        self,
        model_fn: Callable[..., Any],
        input_fn: Callable[..., Any],
        function: Callable[..., Any] | None = None,
        keras: int | None = None,
        fault_injection: bool = False,
    ) -> None:
        super().__init__()
        keras = keras_version.default() if keras is None else keras
        if keras not in KERAS_VERSIONS:
            raise unknown_choice("keras", keras, KERAS_VERSIONS)
        self.model_fn = model_fn
        self.input_fn = input_fn
        self.function = function
        self.keras = keras
        self.fault_injection = fault_injection

    @validate("learning_rate")
    def _check_number(self, proposal: Any) -> float:
        """Rejects NaN, which a comparison with bounds does not detect."""
        if math.isnan(proposal["value"]):
            raise TraitError(_("it is not a number."))
        return proposal["value"]

    @observe("strategy")
    def _adapt_to_strategy(self, change: Any) -> None:
        """Resets choices that the new strategy does not support."""
        if self.unavailable_reason("collective", self.collective):
            self.collective = "AUTO"
        if self.strategy == ONE_DEVICE:
            self.workers = 1

    def update(self, **choices: Any) -> None:
        """Sets several choices. Epochs replace steps, and steps replace epochs.

        Raises:
          ConfigError: a name or a value is unknown.
        """
        if "epochs" in choices:
            choices = {**choices, "steps": choices.get("steps")}
        # The strategy comes first, because it resets unsupported choices, but not the ones passed
        # here.
        for name, value in sorted(choices.items(), key=lambda one: one[0] != "strategy"):
            if name not in self.names:
                raise unknown_choice("choice", name, self.names)
            try:
                setattr(self, name, value)
            except Exception as error:  # traitlets' TraitError, or an error of a comparison
                message = _("{name}={value!r} is invalid: {error}")
                raise ConfigError(message.format(name=name, value=value, error=error)) from None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the choices."""
        return FUNCTION_CHOICES if self.function else CHOICES

    def check(self) -> None:
        """Raises ConfigError if this machine cannot run a choice, with the reason."""
        for name in self.names:
            if reason := self.unavailable_reason(name, getattr(self, name)):
                raise ConfigError(reason)

    def grid(self, values: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
        """Every combination of several values of some choices, with the current other choices.

        The last choice changes fastest.

        Raises:
          ConfigError: there is no value, a choice is unknown, or this machine cannot run one of
            the combinations.
        """
        lists = {name: _values(name, given) for name, given in values.items()}
        found = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
        return [self._fill_defaults(combination) for combination in found]

    def _fill_defaults(self, some: Mapping[str, Any]) -> dict[str, Any]:
        """All choices, with some replaced, after a check."""
        trial = Choices(
            self.model_fn, self.input_fn, self.function, self.keras, self.fault_injection
        )
        trial.update(**self._chosen())
        trial.update(**some)
        trial.check()
        return trial._chosen()

    def _chosen(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.names}

    def unavailable_reason(self, name: str, value: Any) -> str | None:
        """The reason why this machine cannot run a choice, or None."""
        if name == "collective" and value == "NCCL" and (gpus := nvidia_gpus()) < self.workers:
            return _("NCCL needs an NVIDIA GPU for each worker; GPUs found: {count}.").format(
                count=gpus
            )
        if name == "collective" and value != "AUTO" and self.strategy != MULTI_WORKER:
            return _("{strategy} does not use a collective.").format(strategy=self.strategy)
        if name == "scenario":
            return scenarios.unavailable_reason(value, fault_injection=self.fault_injection)
        if name == "workers" and value > 1:
            if self.strategy == ONE_DEVICE:
                return _("OneDeviceStrategy trains on one device.")
            free = free_memory()
            need = needed_memory(len(self.planned_tasks(value)), forked=can_fork())
            if free is not None and free < need:
                return ngettext(
                    "{value} worker needs about {need} GB of memory, but {free} GB are free.",
                    "{value} workers need about {need} GB of memory, but {free} GB are free.",
                    value,
                ).format(
                    value=value, need=number(need / 1e9, ".1f"), free=number(free / 1e9, ".1f")
                )
        return None

    def notes(self) -> list[str]:
        """Notes on choices that are possible but not useful."""
        if self.workers <= (count := cores()):
            return []
        return [
            ngettext(
                "This machine has {count} core: the workers share it, so more of them are no "
                "faster.",
                "This machine has {count} cores: additional workers share them, so they are no "
                "faster.",
                count,
            ).format(count=count)
        ]

    def code(self, export: str | None = None) -> str:
        """A complete Python program that trains with the same choices.

        Args:
          export: a folder, into which the program then exports the training. The result is empty if
            the strategy cannot be exported.
        """
        if export and self.strategy in ONE_PROCESS:
            return ""
        group: dict[str, Any] = {"workers": self.workers}
        if self.strategy == MULTI_WORKER:
            group["collective"] = self.collective
        else:
            group["strategy"] = self.strategy
        if self.function:
            return calling_code(group, self.function, self.keras, export)
        options = self.train_options()
        return training_code(group, options, self.model_fn, self.input_fn, export)

    def planned_tasks(self, workers: int) -> list[TaskStatus]:
        """The tasks for a number of workers and the other choices."""
        return planned_tasks(workers, evaluator=self.evaluator, strategy=self.strategy)

    def train_options(self) -> dict[str, Any]:
        """The choices as keyword arguments of `LocalCluster.train`."""
        options: dict[str, Any] = {
            **({"steps": self.steps} if self.steps else {"epochs": self.epochs}),
            "params": with_defaults(
                {"batch_size": self.batch_size, "learning_rate": self.learning_rate}
            ),
            "save_checkpoints_steps": SAVE_STEPS,
        }
        return options | ({"evaluate": "sidecar"} if self.evaluator else {})


def _values(name: str, values: Any) -> list[Any]:
    """The values of a choice for consecutive runs."""
    if isinstance(values, str) or not isinstance(values, Iterable) or not (found := [*values]):
        message = _("{name}={values!r} is invalid: pass several values, such as {name}=(1, 2).")
        raise ConfigError(message.format(name=name, values=values))
    return found
