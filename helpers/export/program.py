"""Writes the program `train.py` and the modules that it imports."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from helpers.errors import ConfigError
from helpers.export import bundle
from helpers.export.collect import Collector, imported_modules, module_files
from helpers.export.requirements import tensorflow_version
from helpers.export.targets import Tasks, fill, with_constants
from helpers.export.values import ARRAYS
from helpers.i18n import _
from helpers.protocol.job import EstimatorJob, FunctionJob, takes_context
from helpers.strategies import MULTI_WORKER, PARAMETER_SERVER
from helpers.system.keras_version import LAST_TF_WITH_ESTIMATOR

HEADER = (
    '"""A training program that `cluster.export` has written. README.md describes its use."""\n'
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


class Program:
    """The Python files of an exported program.

    Args:
      job: the training.
      tasks: its tasks.

    Attributes:
      files: the text of each file, by its path.
      collector: what they use: arrays, datasets and modules of the reader.
      estimator: whether it uses `tf.estimator`.
      modules: the modules that the program imports.
      uses_datasets: whether it reads the bundled datasets.

    Raises:
      ConfigError: a function cannot be exported, with the reason.
    """

    def __init__(self, job: EstimatorJob | FunctionJob, tasks: Tasks) -> None:
        self.collector = Collector()
        self._tasks = tasks
        self._is_server_part = tasks.ps > 0
        run = self._estimator(job) if isinstance(job, EstimatorJob) else self._function(job)
        body = self._body(job, run)
        local = {name: path for name, path in self.collector.modules.items()}
        copied = {
            (path.name if path.is_file() else str(file.relative_to(path.parent))): (
                self.collector.without_helpers(file.read_text("utf-8"), file.name)
            )
            for path in local.values()
            for file in module_files(path)
        }
        texts = [body, *copied.values()]
        self.estimator = isinstance(job, EstimatorJob) or any("tf.estimator" in t for t in texts)
        has_fix = any(_uses_keras_3(text, job.keras) for text in texts)
        new = tensorflow_version() > LAST_TF_WITH_ESTIMATOR
        shims = [bundle.ESTIMATOR] if self.estimator and new else []
        if has_fix and new:
            shims.append(bundle.KERAS_3)
            self.collector.bundles.add(bundle.KERAS_3)
        self.files = {
            "train.py": _head(shims) + body,
            "cluster_config.py": with_constants(
                "cluster_config.py",
                PARAMETER_SERVERS=tasks.ps,
                EVALUATOR=tasks.evaluator,
                LEGACY_KERAS=("1" if job.keras == 2 else "0") if new else None,
            ),
            **copied,
        }
        if self._is_server_part:
            self.files["parameter_servers.py"] = fill("parameter_servers.py")
        if isinstance(job, EstimatorJob):
            self.files["multi_worker_estimator.py"] = fill("multi_worker_estimator.py")
        if bundle.ESTIMATOR in shims:
            self.files |= bundle.estimator_files()
        for name in sorted(self.collector.bundles):
            self.files |= bundle.BUNDLES[name].files()
        self.uses_datasets = self.collector.values.uses_datasets or bundle.LESSONS in (
            self.collector.bundles
        )
        self.modules = {
            module
            for path, text in self.files.items()
            for module in imported_modules(ast.parse(text))
            if not self._is_own(module)
        }

    def _is_own(self, module: str) -> bool:
        top = module.partition(".")[0]
        return f"{top}.py" in self.files or any(path.startswith(f"{top}/") for path in self.files)

    def _estimator(self, job: EstimatorJob) -> str:
        """The lines of `run_task` for an Estimator."""
        if job.strategy not in STRATEGIES:
            message = _(
                "A program with {strategy} needs no cluster, so it cannot be exported. Choose "
                "MultiWorkerMirroredStrategy or ParameterServerStrategy."
            )
            raise ConfigError(message.format(strategy=job.strategy))
        functions = [_plain_name(self.collector, f) for f in (job.model_fn, job.input_fn)]
        params = self.collector.argument("params", dict(job.params))
        limits = [f"{name}={_quoted(getattr(job, name))}," for name in LIMITS]
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
        call = _call(self.collector, job.function, job.args, job.kwargs)
        lines = [f'print("result:", {call}, flush=True)', _WAIT]
        if job.evaluator_fn is None:
            return "\n".join(lines)
        evaluate = f'print("result:", {_call(self.collector, job.evaluator_fn)}, flush=True)'
        rest = textwrap.indent("\n".join(lines), "    ")
        return f'if cluster_config.ROLE == "evaluator":\n    {evaluate}\nelse:\n{rest}'

    def _body(self, job: EstimatorJob | FunctionJob, run: str) -> str:
        """The text of `train.py` without its head."""
        collected, strategy = self.collector, ""
        own = ["time"] if _WAIT in run else []
        if isinstance(job, EstimatorJob):
            strategy = STRATEGIES[job.strategy].replace("@COLLECTIVE@", job.collective)
            own += ["multi_worker_estimator"]
        if collected.values.arrays:
            own += ["numpy", "pathlib"]
        if self._is_server_part:
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


_DATA = f'_DATA = numpy.load(pathlib.Path(__file__).with_name("{ARRAYS}"))\n'
_SERVE = "parameter_servers.serve(cluster_config.ROLE, cluster_config.INDEX)"
_WAIT = "time.sleep(3)  # a slower worker may still read the last all-reduce from this process"


def _head(shims: list[str]) -> str:
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


def _uses_keras_3(text: str, keras: int) -> bool:
    """Whether a source uses Keras 3, as `keras`, which is always Keras 3, or as `tf.keras`."""
    imported = {module.partition(".")[0] for module in imported_modules(ast.parse(text))}
    return "keras" in imported or (keras == 3 and "keras" in text)


def _quoted(value: object) -> str:
    return repr(value).replace("'", '"')


def _needs_context(function: Any) -> ConfigError:
    message = _(
        "{function} takes the context of the course's cluster, which an exported program does not "
        "have. Remove the argument. tf.distribute.cluster_resolver.TFConfigClusterResolver() "
        "returns the role of the task, and print reports its progress."
    )
    return ConfigError(message.format(function=getattr(function, "__name__", function)))
