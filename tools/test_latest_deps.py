"""Tests the newest packages with lessons, rows of the compatibility table, the panel and Ray.

    python -m tools.test_latest_deps                            make test-latest
    python -m tools.test_latest_deps --lessons 01 --suites none
        make test-latest LESSONS=01 SUITES=none

It copies the course to .artefacts/latest, removes upper bounds from pyproject.toml, and creates an
environment with environment.sh. It prints a table. The exit code is 1 if something broke.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from benchmarks import compatibility
from tools import checkout
from tools.lessons.project import ToolError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".artefacts" / "latest"
NEVER_UPDATED = "tensorflow-estimator"  # there will be no later one
UPPER = {"<", "<=", "~=", "=="}
REPORTED_PACKAGES = (
    *("tensorflow", "keras", "tf-keras", "tensorflow-datasets", "ray"),
    *("ipywidgets", "ipykernel", "jupyterlab", "notebook", "nbclient", "voila"),
)
SUITES = {  # pytest's arguments
    "panel": ["tests/panel/test_kernel.py", "tests/panel/test_view.py"],
    "keras_3": ["tests/keras_3/test_keras_3.py"],
    "ray": ["--lane", "ray", "--smoke", "tests/backends/test_ray.py"],
}
ROWS = (*compatibility.CAPABILITIES, *SUITES)
SECONDS = 1800.0  # the timeout of one lesson or row


class TrialResult(NamedTuple):
    """The result of a lesson or a row. `reason` is empty if it passed."""

    what: str
    reason: str


def without_upper_bound(line: str) -> str:
    """A requirement without upper bounds."""
    wanted = Requirement(line)
    if wanted.name != NEVER_UPDATED:
        kept = [str(part) for part in wanted.specifier if part.operator not in UPPER]
        kept += [f">={part.version}" for part in wanted.specifier if part.operator in ("==", "~=")]
        wanted.specifier = SpecifierSet(",".join(kept))
    return str(wanted)


def requirements(pyproject: str) -> set[str]:
    """The requirements in the text of a pyproject.toml, including extras."""
    project = tomllib.loads(pyproject)["project"]
    return {*project["dependencies"], *chain(*project["optional-dependencies"].values())}


def unpin(pyproject: str) -> str:
    """The text of a pyproject.toml whose requirements have no upper bounds."""
    for line in requirements(pyproject):
        pyproject = pyproject.replace(json.dumps(line), json.dumps(without_upper_bound(line)))
    return pyproject


def make_environment(folder: Path) -> Path:
    """Copies the course, installs the newest packages, and returns its interpreter.

    Raises:
      ToolError: the course cannot be copied. subprocess.CalledProcessError: environment.sh failed,
        and printed the reason.
    """
    shutil.rmtree(folder, ignore_errors=True)
    checkout.copy_tracked_files(ROOT, folder)
    path = folder / "pyproject.toml"
    path.write_text(unpin(path.read_text("utf-8")), "utf-8")
    environ = {"EXTRAS": "test,ray", "VENV": ".venv", "PYTHON": sys.executable}
    command = ["env", *(f"{name}={value}" for name, value in environ.items()), "./environment.sh"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / ".venv" / "bin" / "python"


def versions(python: Path) -> dict[str, str]:
    """The monitored installed packages, with their versions."""
    code = (
        "import json; from importlib.metadata import distributions as all; "
        "print(json.dumps({d.name: d.version for d in all()}))"
    )
    installed = json.loads(subprocess.check_output([python, "-c", code], text=True))
    found = {str(canonicalize_name(name)): version for name, version in installed.items()}
    return {name: found[name] for name in REPORTED_PACKAGES if name in found}


def compile_lock() -> dict[str, str]:
    """The versions with which the course is tested under this Python."""
    lock = ROOT / "locks" / f"{sys.version_info.major}.{sys.version_info.minor}.txt"
    pinned = re.findall(r"^([\w.-]+)==([\w.]+)", lock.read_text("utf-8"), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    [ray] = map(Requirement, project["optional-dependencies"]["ray"])
    return {**dict(pinned), ray.name: str(ray.specifier).removeprefix("==")}


def try_lessons(python: Path, lessons: Sequence[str]) -> Iterator[TrialResult]:
    """Runs English lessons, by their numbers."""
    for lesson in lessons:
        command = [str(python), "-m", "tools.lessons.run", "--lesson", lesson]
        yield TrialResult(f"lesson {lesson}", _failure(command))


def try_rows(python: Path, rows: Sequence[str]) -> Iterator[TrialResult]:
    """Runs rows, which compare Estimator features with the tested TensorFlow, and suites."""
    for row in rows:
        if row in SUITES:
            command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITES[row]]
            yield TrialResult(row, _failure(command))
        else:
            yield TrialResult(row, _difference(str(python), row))


def table(before: dict[str, str], now: dict[str, str], outcomes: Sequence[TrialResult]) -> str:
    """The results as Markdown."""
    rows = [("package", "tested", "newest")]
    rows += [(name, before.get(name, "none"), version) for name, version in now.items()]
    results = [("what", "with the newest"), *((o.what, o.reason or "runs") for o in outcomes)]
    return f"{_markdown(rows)}\n{_markdown(results)}"


def _failure(command: Sequence[str]) -> str:
    """The last lines of a program that failed, or "" if it passed."""
    try:
        done = _run(command)
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS:.0f} s"
    if not done.returncode:
        return ""
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return "broke: " + re.sub(r"\x1b\[[\d;]*m", "", lines[-1] if lines else "no word")[:200]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program in the copy. After a timeout, all its child processes end with it."""
    with subprocess.Popen(
        command,
        cwd=FOLDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said = process.communicate(timeout=SECONDS)
        except BaseException:  # including Ctrl-C, which does not reach another session
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, *said)


def _difference(python: str, capability: str) -> str:
    """The difference of a feature's numbers from the numbers of the tested TensorFlow."""
    numbers: list[Any] = []
    for each in (sys.executable, python):
        with tempfile.TemporaryDirectory(prefix="newest-") as folder:
            try:
                numbers.append(compatibility.run(each, capability, Path(folder)))
            except RuntimeError as error:
                return f"broke with {'the newest' if each == python else 'the tested'}: {error}"
    difference = compatibility.difference(numbers[1], numbers[0])
    if difference is None:
        return "broke: another count of numbers"
    return "" if difference <= compatibility.TOLERANCE else f"broke: differs by {difference:.0e}"


def _markdown(rows: Sequence[tuple[str, ...]]) -> str:
    ruled = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in ruled)


def main(argv: list[str] | None = None) -> int:
    """Runs the command line, and returns 1 if something broke."""
    known = [path.name[:2] for path in sorted(ROOT.glob("notebooks/en/[0-9][0-9]_*.ipynb"))]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lessons", nargs="+", choices=[*known, "none"], default=known)
    parser.add_argument("--suites", nargs="+", choices=[*ROWS, "none"], default=ROWS)
    args = parser.parse_args(argv)
    try:
        python = make_environment(FOLDER)
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError:
        print("The newest packages cannot be installed together, see above.", file=sys.stderr)
        return 1
    outcomes = []
    for outcome in chain(
        try_lessons(python, [lesson for lesson in args.lessons if lesson != "none"]),
        try_rows(python, [row for row in args.suites if row != "none"]),
    ):
        print(outcome.what, outcome.reason or "runs", flush=True)
        outcomes.append(outcome)
    print(table(compile_lock(), versions(python), outcomes))
    return 1 if any(outcome.reason for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
