"""The Python files of an exported program."""

from __future__ import annotations

import ast

from helpers.export import bundle
from helpers.export.collect import Collector, imported_modules, module_files
from helpers.export.entry import Entry, first_lines
from helpers.export.requirements import tensorflow_version
from helpers.export.targets import Tasks, fill, with_constants
from helpers.protocol.job import EstimatorJob, FunctionJob
from helpers.system.keras_version import LAST_TF_WITH_ESTIMATOR


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

    Raises:
      ConfigError: a function cannot be exported, with the reason.
    """

    def __init__(self, job: EstimatorJob | FunctionJob, tasks: Tasks) -> None:
        self.collector = Collector()
        body = Entry(job, self.collector, has_servers=tasks.ps > 0).text
        copied = self._copied_modules()
        texts = [body, *copied.values()]
        self.estimator = job.keras == 2 and (
            isinstance(job, EstimatorJob) or any("tf.estimator" in text for text in texts)
        )
        shims = self._shims(texts, job.keras)
        self.files = {
            "train.py": first_lines(shims) + body,
            "cluster_config.py": _cluster_config(tasks, job.keras),
            **copied,
        }
        if tasks.ps:
            self.files["parameter_servers.py"] = fill("parameter_servers.py")
        if isinstance(job, EstimatorJob):
            self.files["multi_worker_estimator.py"] = fill("multi_worker_estimator.py")
        if bundle.ESTIMATOR in shims:
            self.files |= bundle.estimator_files()
        for name in sorted(self.collector.bundles):
            self.files |= bundle.BUNDLES[name].files()
        found = [m for text in self.files.values() for m in imported_modules(ast.parse(text))]
        self.modules = {module for module in found if not self._has_module(module)}

    @property
    def uses_datasets(self) -> bool:
        """Whether it reads the bundled datasets."""
        return self.collector.values.uses_datasets or bundle.LESSONS in self.collector.bundles

    def _copied_modules(self) -> dict[str, str]:
        """The text of each file of the reader's modules, by its path."""
        return {
            str(file.relative_to(path.parent)): self.collector.without_helpers(
                file.read_text("utf-8"), file.name
            )
            for path in self.collector.modules.values()
            for file in module_files(path)
        }

    def _shims(self, texts: list[str], keras: int) -> list[str]:
        """The modules that must be imported first, because they change Keras or TensorFlow."""
        if not _is_new():
            return []
        shims = [bundle.ESTIMATOR] if self.estimator else []
        if any(_uses_keras_3(text, keras) for text in texts):
            shims.append(bundle.KERAS_3)
            self.collector.bundles.add(bundle.KERAS_3)
        return shims

    def _has_module(self, module: str) -> bool:
        top = module.partition(".")[0]
        return f"{top}.py" in self.files or any(path.startswith(f"{top}/") for path in self.files)


def _cluster_config(tasks: Tasks, keras: int) -> str:
    legacy = ("1" if keras == 2 else "0") if _is_new() else None
    return with_constants(
        "cluster_config.py",
        PARAMETER_SERVERS=tasks.ps,
        EVALUATOR=tasks.evaluator,
        LEGACY_KERAS=legacy,
    )


def _is_new() -> bool:
    """Whether the installed TensorFlow has Keras 3 and no Estimator."""
    return tensorflow_version() > LAST_TF_WITH_ESTIMATOR


def _uses_keras_3(text: str, keras: int) -> bool:
    """Whether a source uses Keras 3, as `keras`, which is always Keras 3, or as `tf.keras`."""
    imported = {module.partition(".")[0] for module in imported_modules(ast.parse(text))}
    return "keras" in imported or (keras == 3 and "keras" in text)
