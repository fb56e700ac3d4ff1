"""A job, the work of all tasks of a cluster, as the notebook sends it to the workers.

A job is data, and `helpers.worker.run_job` executes it.
"""

from __future__ import annotations

import inspect
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.errors import ConfigError, check_count, unknown_choice
from helpers.i18n import _
from helpers.protocol import payload
from helpers.protocol.portable import check_functions
from helpers.strategies import MIRRORED, MULTI_WORKER
from helpers.system import keras_version
from helpers.tf_config import PS, TFConfig

EVALUATE_CHOICES = ("after", "sidecar", None)
KERAS_VERSIONS = (2, 3)
GLOBAL, PER_WORKER = ELASTIC_BATCHES = ("global", "per_worker")


@dataclass(frozen=True)
class Elastic:
    """The data of a synchronous group whose number of workers can change.

    Attributes:
      shards: the number of workers of the largest group, each of which has a shard.
      batch: the batch that stays the same, one of `ELASTIC_BATCHES`.
    """

    shards: int
    batch: str = GLOBAL


class Job(ABC):
    """The base class of all jobs.

    Attributes:
      keras: the version of `tf.keras` in its workers, 2 or 3.
    """

    keras: int

    @abstractmethod
    def is_server(self, config: TFConfig) -> bool:
        """Whether a task only serves, so that it never ends by itself."""

    @property
    @abstractmethod
    def has_evaluator(self) -> bool:
        """Whether the job has one more process, the evaluator."""

    def save(self, path: str | Path) -> None:
        """Writes it to a file, a payload for `python -m helpers.worker`.

        Raises:
          ConfigError: a function refers to something that cannot be sent.
        """
        payload.save(self, path, keras=self.keras)


@dataclass(frozen=True)
class EstimatorJob(Job):
    """One Estimator training job, the same in every task.

    `estimator_job` creates it and documents the fields.
    """

    model_fn: Callable[..., Any]
    input_fn: Callable[..., Any]
    params: Mapping[str, Any]
    model_dir: str
    strategy: str
    collective: str
    steps: int | None
    epochs: int | None
    save_checkpoints_steps: int
    evaluate: str | None
    replicas: int = 1
    eval_steps: int | None = None
    trace_steps: range = range(0)
    elastic: Elastic | None = None
    keras = 2  # Estimator accepts no other

    @property
    def shards(self) -> int | None:
        """The number of shards of an elastic group."""
        return self.elastic.shards if self.elastic else None

    @property
    def whole_batches(self) -> bool:
        """Whether each worker of an elastic group trains on whole batches of `input_fn`."""
        return self.elastic is not None and self.elastic.batch == PER_WORKER

    def is_server(self, config: TFConfig) -> bool:
        """As `Job.is_server`, true for parameter servers."""
        return config.task.type == PS

    @property
    def has_evaluator(self) -> bool:
        """As `Job.has_evaluator`."""
        return self.evaluate == "sidecar"


def estimator_job(
    model_fn: Callable[..., Any],
    input_fn: Callable[..., Any],
    *,
    model_dir: str,
    strategy: str = MULTI_WORKER,
    collective: str = "AUTO",
    epochs: int | None = None,
    steps: int | None = None,
    params: Mapping[str, Any] | None = None,
    save_checkpoints_steps: int = 200,
    evaluate: str | None = "after",
    replicas: int = 1,
    eval_steps: int | None = None,
    trace_steps: range = range(0),
    elastic: Elastic | None = None,
) -> EstimatorJob:
    """Validates the arguments, and creates a job from them.

    Args: see `LocalCluster` and `LocalCluster.train`. `replicas` is the number in each process.
      `elastic` describes a group whose number of workers can change.
      Every task must be able to access `model_dir`.

    Raises:
      ConfigError: a value is invalid, or two values exclude each other.
    """
    if evaluate not in EVALUATE_CHOICES:
        raise unknown_choice("evaluate", evaluate, EVALUATE_CHOICES)
    counts = {"epochs": epochs, "steps": steps, "save_checkpoints_steps": save_checkpoints_steps}
    _check_counts(counts | {"eval_steps": eval_steps})
    check_params(params)
    _check_steps(epochs, steps, trace_steps)
    check_functions((model_fn, input_fn), tensors=strategy in (MULTI_WORKER, MIRRORED))
    return EstimatorJob(
        model_fn=model_fn,
        input_fn=input_fn,
        params=dict(params or {}),
        eval_steps=eval_steps,
        model_dir=model_dir,
        strategy=strategy,
        collective=collective,
        steps=steps,
        epochs=epochs,
        save_checkpoints_steps=save_checkpoints_steps,
        evaluate=evaluate,
        replicas=replicas,
        trace_steps=trace_steps,
        elastic=elastic,
    )


def _check_steps(epochs: int | None, steps: int | None, traced: object) -> None:
    """Raises ConfigError for both epochs and steps, or traced steps that are not a valid range."""
    if epochs is not None and steps is not None:
        message = _("epochs={epochs} and steps={steps} exclude each other: pass only one.")
        raise ConfigError(message.format(epochs=epochs, steps=steps))
    if not isinstance(traced, range) or traced.step != 1 or (traced and traced.start < 1):
        message = _(
            "trace_steps={steps!r:.60} must be a range of consecutive steps, counted from 1, such "
            "as range(20, 23)."
        )
        raise ConfigError(message.format(steps=traced))


def _check_counts(counts: Mapping[str, int | None]) -> None:
    """Raises ConfigError unless each count is None or a positive integer."""
    for name, value in counts.items():
        if value is not None:
            check_count(name, value)


def check_params(params: object) -> None:
    """Raises ConfigError unless `params` is None or a mapping."""
    if params is not None and not isinstance(params, Mapping):
        message = _(
            "params={params!r:.60} must be a dict. For an argparse.Namespace, pass vars(args)."
        )
        raise ConfigError(message.format(params=params))


@dataclass(frozen=True)
class FunctionJob(Job):
    """Any function of the reader, called once in every task.

    If it requires one more argument, the task's context is passed first. With parameter servers,
    only the chief calls it.

    Attributes:
      function: the function that workers, or the chief, call.
      evaluator_fn: the function that an evaluator calls, or None without an evaluator.
      keras: the version of Keras, by default the version of `tf.keras` in this process.
      collective: the collective of the cluster, which is in the context of the function.
      args, kwargs: the arguments of `function`.
      shards: the number of workers of the largest group, if it is elastic.

    Raises:
      ConfigError: there is no such Keras, or a function cannot be called with these arguments.
    """

    function: Callable[..., Any]
    evaluator_fn: Callable[..., Any] | None = None
    keras: int = field(default_factory=keras_version.default)
    collective: str = "AUTO"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    shards: int | None = None

    def __post_init__(self) -> None:
        if self.keras not in KERAS_VERSIONS:
            raise unknown_choice("keras", self.keras, KERAS_VERSIONS)
        takes_context(self.function, *self.args, **self.kwargs)
        if self.evaluator_fn is not None:
            takes_context(self.evaluator_fn)

    def is_server(self, config: TFConfig) -> bool:
        """As `Job.is_server`, true for workers and parameter servers of a coordinator."""
        return config.is_server

    @property
    def has_evaluator(self) -> bool:
        """As `Job.has_evaluator`."""
        return self.evaluator_fn is not None


def takes_context(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Whether a function requires one more argument, the context, before these.

    Raises:
      ConfigError: it cannot be called with these arguments, with or without the context.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions in C have none
        return False
    for before in ((), (None,)):
        with suppress(TypeError):
            signature.bind(*before, *args, **kwargs)
            return bool(before)
    message = _("{call} cannot be called with the arguments {arguments}.")
    texts = [*map(reprlib.repr, args), *(f"{k}={reprlib.repr(v)}" for k, v in kwargs.items())]
    name = getattr(function, "__name__", repr(function))
    plain = (one.replace(annotation=one.empty) for one in signature.parameters.values())
    call = f"{name}({', '.join(map(str, plain))})"
    raise ConfigError(message.format(call=call, arguments=f"({', '.join(texts)})"))
