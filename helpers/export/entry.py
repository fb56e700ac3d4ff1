"""Writes the text of `train.py`: the reader's code, and the function that runs a task."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from helpers.errors import ConfigError
from helpers.export.collect import Collector
from helpers.export.targets import double_quoted
from helpers.export.values import ARRAYS
from helpers.i18n import _
from helpers.protocol.job import EstimatorJob, FunctionJob, takes_context
from helpers.strategies import MULTI_WORKER, PARAMETER_SERVER

HEADER = (
    '"""A training program written by `cluster.export`. README.md describes how to run it."""\n'
)
STRATEGIES = {
    MULTI_WORKER: '''\
def make_strategy():
    """Creates the strategy, and returns when all workers are connected."""
    implementation = tf.distribute.experimental.CommunicationImplementation.@COLLECTIVE@
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
''',
    PARAMETER_SERVER: '''\
def make_strategy():
    """Creates the strategy. The one of `tf.distribute` itself does not work with Estimator."""
    return tf.compat.v1.distribute.experimental.ParameterServerStrategy()
''',
}
LIMITS = ["epochs", "steps", "save_checkpoints_steps", "evaluate", "eval_steps"]
_DATA = f'_DATA = numpy.load(pathlib.Path(__file__).with_name("{ARRAYS}"))\n'
_SERVE = "parameter_servers.serve(cluster_config.ROLE, cluster_config.INDEX)"
_WAIT = "time.sleep(3)  # a slower worker may still read the last all-reduce from this process"


class Entry:
    """The text of `train.py` without its first lines.

    Args:
      collector: collects what the functions of the job use.
      has_servers: whether some tasks are parameter servers.

    Attributes:
      text: the source.

    Raises:
      ConfigError: a function cannot be exported, with the reason.
    """

    def __init__(
        self, job: EstimatorJob | FunctionJob, collector: Collector, *, has_servers: bool
    ) -> None:
        self._collector = collector
        self._has_servers = has_servers
        run = self._estimator(job) if isinstance(job, EstimatorJob) else self._function(job)
        self.text = self._text(job, run)

    def _estimator(self, job: EstimatorJob) -> str:
        """The lines of `run_task` for an Estimator."""
        if job.strategy not in STRATEGIES:
            message = _(
                "A program with {strategy} needs no cluster, so it cannot be exported. Choose "
                "MultiWorkerMirroredStrategy or ParameterServerStrategy."
            )
            raise ConfigError(message.format(strategy=job.strategy))
        functions = [_plain_name(self._collector, f) for f in (job.model_fn, job.input_fn)]
        params = self._collector.argument("params", dict(job.params))
        limits = [f"{name}={double_quoted(getattr(job, name))}," for name in LIMITS]
        lines = [
            *(f"{function}," for function in functions),
            "make_strategy,",
            "model_dir=cluster_config.MODEL_DIR,",
            f"params={params},",
            *limits,
        ]
        call = textwrap.indent("\n".join(lines), "    ")
        return f"training = multi_worker_estimator.Training(\n{call}\n)\ntraining.run()"

    def _function(self, job: FunctionJob) -> str:
        """The lines of `run_task` for any function."""
        for function, arguments in ((job.function, job.args), (job.evaluator_fn, ())):
            kwargs = job.kwargs if function is job.function else {}
            if function and takes_context(function, *arguments, **kwargs):
                raise _needs_context(function)
        call = _call(self._collector, job.function, job.args, job.kwargs)
        lines = [f'print("result:", {call}, flush=True)', _WAIT]
        if job.evaluator_fn is None:
            return "\n".join(lines)
        evaluate = f'print("result:", {_call(self._collector, job.evaluator_fn)}, flush=True)'
        rest = textwrap.indent("\n".join(lines), "    ")
        return f'if cluster_config.ROLE == "evaluator":\n    {evaluate}\nelse:\n{rest}'

    def _text(self, job: EstimatorJob | FunctionJob, run: str) -> str:
        """The text of `train.py` without its head."""
        collected, strategy = self._collector, ""
        own = ["time"] if _WAIT in run else []
        if isinstance(job, EstimatorJob):
            strategy = STRATEGIES[job.strategy].replace("@COLLECTIVE@", job.collective)
            own += ["multi_worker_estimator"]
        if collected.values.arrays:
            own += ["numpy", "pathlib"]
        if self._has_servers:
            own += ["parameter_servers"]
            roles = '("ps",)' if isinstance(job, EstimatorJob) else '("worker", "ps")'
            run = f"if cluster_config.ROLE in {roles}:\n    {_SERVE}\n    return\n{run}"
        imports = [*collected.imports, *(f"import {name}" for name in own)]
        if isinstance(job, EstimatorJob):
            imports.append("import tensorflow as tf")
        imports = sorted(set(imports), key=lambda line: (line.startswith("from"), line))
        assignments = "".join(f"{name} = {text}\n" for name, text in collected.assignments.items())
        if collected.values.arrays:
            assignments = f"{_DATA}{assignments}"
        task = (
            'def run_task():\n    """Runs the task of this process."""\n'
            f"{textwrap.indent(run, '    ')}\n"
        )
        parts = [*collected.definitions, strategy.rstrip("\n"), task.rstrip("\n")]
        end = 'if __name__ == "__main__":\n    run_task()\n'
        head = "\n".join(imports) + "\n" + (f"\n{assignments}" if assignments else "")
        return "\n\n\n".join([head.rstrip("\n"), *filter(None, parts), end])


def first_lines(shims: list[str]) -> str:
    """The first lines of `train.py`, which import the modules that must precede the others."""
    lines = [HEADER, "import cluster_config  # first, because TensorFlow reads what it sets"]
    lines += [f"import {name}  # before Keras and Estimator are used" for name in shims]
    return "\n".join(lines) + "\n"


def _call(
    collector: Collector, function: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = {}
) -> str:
    name = collector.function(function)
    arguments = [collector.argument(name, value) for value in args]
    arguments += [f"{key}={collector.argument(key, value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(arguments)})"


def _plain_name(collector: Collector, function: Any) -> str:
    if isinstance(function, functools.partial) or inspect.isfunction(function):
        return collector.function(function)
    return collector.function(getattr(function, "__func__", function))


def _needs_context(function: Any) -> ConfigError:
    message = _(
        "{function} takes the context of the course's cluster, which an exported program does not "
        "have. Remove the argument. Use tf.distribute.cluster_resolver.TFConfigClusterResolver() "
        "to get the role of the task, and print to report its progress."
    )
    return ConfigError(message.format(function=getattr(function, "__name__", function)))
