"""Writes the folder of an exported program."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from helpers.errors import ConfigError, unknown_choice
from helpers.export.program import Program
from helpers.export.readme import readme
from helpers.export.requirements import requirements
from helpers.export.targets import RAY, TARGETS, Tasks, target_files
from helpers.export.values import ARRAYS, DATASETS, DATASETS_DIR
from helpers.i18n import _
from helpers.protocol.job import EstimatorJob, FunctionJob, estimator_job
from helpers.system import keras_version

IGNORED = shutil.ignore_patterns("__pycache__", "*.py")


def make_job(
    strategy: str,
    collective: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    options: Mapping[str, Any],
) -> EstimatorJob | FunctionJob:
    """The job of `train`, if the only positional argument is a function, or the job of `run`.

    Raises:
      ConfigError: the job is invalid.
    """
    if len(args) == 1 and callable(args[0]):
        return estimator_job(
            function,
            args[0],
            model_dir="model",
            strategy=strategy,
            collective=collective,
            **options,
        )
    kwargs = dict(options)
    evaluator_fn, keras = kwargs.pop("evaluator_fn", None), kwargs.pop("keras", None)
    keras = keras_version.default() if keras is None else keras
    return FunctionJob(function, evaluator_fn, keras, collective, args, kwargs)


def write(
    folder: str | Path, job: EstimatorJob | FunctionJob, tasks: Tasks, target: str = "script"
) -> Path:
    """Writes a program for a job into a new or empty folder.

    Args:
      target: one of `TARGETS`.

    Returns: the absolute path of the folder.

    Raises:
      ConfigError: the folder is not empty or not writable, there is no such target, or a function
        cannot be exported. Nothing is written then.
    """
    path = Path(folder).absolute()
    if target not in TARGETS:
        raise unknown_choice("target", target, TARGETS)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        message = _("{folder} exists and is not empty. Choose a new folder, or empty this one.")
        raise ConfigError(message.format(folder=path))
    program = Program(job, tasks)
    files = {**program.files, **target_files(target, tasks)}
    files["requirements.txt"] = requirements(
        program.modules, keras=job.keras, estimator=program.estimator, ray=target == RAY
    )
    files["README.md"] = readme(program, tasks, target)
    try:
        _write_files(path, files, program)
    except OSError as error:
        message = _("{folder} cannot be written: {reason}.")
        raise ConfigError(message.format(folder=path, reason=error.strerror)) from None
    return path


def _write_files(path: Path, files: dict[str, str], program: Program) -> None:
    path.mkdir(parents=True, exist_ok=True)
    collected = program.collector
    for module in collected.modules.values():
        if module.is_dir():  # files of a package that are not Python
            shutil.copytree(module, path / module.name, ignore=IGNORED, dirs_exist_ok=True)
    for name, text in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        if file.suffix == ".sh":
            file.chmod(0o755)
    if collected.values.arrays:
        import numpy as np

        np.savez(path / ARRAYS, **collected.values.arrays)
    if program.uses_datasets:
        _copy_datasets(path, files)


def _copy_datasets(path: Path, files: dict[str, str]) -> None:
    """Copies the bundled datasets that the program names, or all if it names none."""
    names = [file.name for file in DATASETS_DIR.iterdir() if file.is_dir()]
    named = [name for name in names if any(f'"{name}"' in text for text in files.values())]
    (path / DATASETS).mkdir()
    shutil.copy(DATASETS_DIR / "LICENSE.md", path / DATASETS)
    for name in named or names:
        # Copies without the times and permissions of an installed package.
        shutil.copytree(DATASETS_DIR / name, path / DATASETS / name, copy_function=shutil.copyfile)
