"""The rules for the project's own files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from helpers.backends.ray.cluster import REQUIREMENT
from helpers.system.keras_version import ESTIMATOR_VERSION, LAST_TESTED
from tests.support import ROOT
from tools import release

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


EXTRAS = PROJECT["optional-dependencies"]


def asked_by(extra: str) -> list[str]:
    """The requirements of an extra, of the extras that it includes, and of the base."""
    lines, including = list(PROJECT["dependencies"]), [extra]
    while including:
        for line in EXTRAS[including.pop()]:
            if Requirement(line).name == PROJECT["name"]:
                including += Requirement(line).extras
            else:
                lines.append(line)
    return list(dict.fromkeys(lines))


def requirements(lines: list[str], python: str) -> dict[str, Requirement]:
    """The requirements in `lines` that apply to a Python, as "3.11", by name."""
    found = [Requirement(line) for line in lines]
    wanted = [r for r in found if not r.marker or r.marker.evaluate({"python_version": python})]
    assert len({r.name for r in wanted}) == len(wanted)
    return {r.name: r for r in wanted}


def pinned(lines: list[str], python: str) -> dict[str, str]:
    return {name: str(r.specifier) for name, r in requirements(lines, python).items()}


def test_environment_yml_gives_the_pins_of_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, *conda, by_pip = environment["dependencies"]
    assert "-e .[course]" in by_pip["pip"]
    installed = [*conda, *(line for line in by_pip["pip"] if not line.startswith("-e "))]
    nbval = [line for line in EXTRAS["test"] if line.startswith("nbval")]
    ours = asked_by("notebooks") + nbval
    assert pinned(installed, "3.12") == pinned(ours, "3.12")
    assert python == "python=3.12"


def test_ray_is_asked_for_as_the_extra_does() -> None:
    assert PROJECT["optional-dependencies"]["ray"] == [REQUIREMENT]


def test_nobody_is_told_to_install_the_package_by_its_name_alone() -> None:
    """It is not on any index, so a stranger could register the name with malicious code."""
    by_name = re.compile(r"pip install [^\n`]*?(?<![\w/.-])" + PROJECT["name"] + r"(?! @)")
    kinds = ("*.md", "docs/*.md", "docs/*/*.md", "locales/*/*.md", "helpers/**/*.py")
    paths = [path for kind in kinds for path in ROOT.glob(kind)]
    paths += [*ROOT.glob("notebooks/en/**/*.ipynb"), *ROOT.glob("notebooks/solutions/**/*.ipynb")]
    assert len(paths) > 150
    assert by_name.search(f'pip install -q "{PROJECT["name"]}[ray]"')
    assert not [path for path in paths if by_name.search(path.read_text("utf-8"))]


def test_the_installed_packages_meet_every_range() -> None:
    lines = asked_by("notebooks")
    here = ".".join(map(str, sys.version_info[:2]))
    for name, requirement in requirements(lines, here).items():
        assert metadata.version(name) in requirement.specifier, requirement


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_each_python_gets_a_tensorflow_that_was_tested(python: str) -> None:
    wanted = requirements(asked_by("tensorflow"), python)
    accepted, refused = ["2.15.1", "2.16.2", "2.19.0", "2.21.0"], ["2.15.0", "2.22.0"]
    assert all(version in wanted["tensorflow"].specifier for version in accepted)
    assert not [version for version in refused if version in wanted["tensorflow"].specifier]
    lock = (ROOT / "locks" / f"{python}.txt").read_text("utf-8")
    newest = ".".join(map(str, LAST_TESTED))
    assert f"\ntensorflow=={newest}." in lock and f"\ntf-keras=={newest}." in lock
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]
    assert f"{python}.1" in SpecifierSet(PROJECT["requires-python"])


def test_the_ranges_end_with_the_newest_tensorflow_that_helpers_estimator_knows() -> None:
    wanted = requirements(asked_by("estimator"), "3.13")
    major, minor = LAST_TESTED
    for name in ("tensorflow", "tf-keras"):
        assert f"{major}.{minor}.5" in wanted[name].specifier
        assert f"{major}.{minor + 1}.0" not in wanted[name].specifier
    assert ESTIMATOR_VERSION in wanted["tensorflow-estimator"].specifier


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("wheel") / "source"
    ignored = shutil.ignore_patterns(".venv*", ".git", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=ignored)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "."],
        cwd=copy,
        check=True,
    )
    return next(copy.glob("*.whl"))


def test_a_wheel_carries_all_of_helpers_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "helpers/datasets/mnist/3.0.1/mnist-train.tfrecord-00000-of-00001" in names
    assert "helpers/datasets/LICENSE.md" in names
    assert "helpers/locale/ko/LC_MESSAGES/helpers.mo" in names
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "helpers").rglob("*.py")}
    assert len(modules) > 80
    assert {name for name in names if name.endswith(".py")} == modules


IMPORT_ALL = """
import importlib, pkgutil, sys
import helpers

assert helpers.__file__.startswith(sys.prefix), helpers.__file__
names = [found.name for found in pkgutil.walk_packages(helpers.__path__, "helpers.")]
for name in names:
    if name.endswith(".__main__"):
        continue  # a program
    try:
        importlib.import_module(name)
    except ImportError as error:
        extra = name.startswith("helpers.backends.ray.") and error.name == "ray"
        if not extra and name != "helpers.keras_3":  # which refuses Keras 2
            raise
print(len(names))
"""


def test_every_module_of_a_wheel_can_be_imported_without_the_repository(
    wheel: Path, tmp_path: Path
) -> None:
    """In a separate environment with access to our packages, but not to our `helpers`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "new"], check=True)
    [packages] = (tmp_path / "new" / "lib").glob("python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib"))  # without its .pth files
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
    subprocess.run([*install, str(packages), str(wheel)], check=True)
    done = subprocess.run(
        [tmp_path / "new" / "bin" / "python", "-c", IMPORT_ALL],
        cwd=tmp_path,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 80


NO_INDEX = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_RETRIES": "0",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
    "PIP_NO_CACHE_DIR": "1",
}


def run_setup(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    for name in ("environment.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return subprocess.run(
        ["sh", "environment.sh"],
        cwd=folder,
        env={**os.environ, "VENV": ".venv", "PIP_CONSTRAINT": "", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_the_lock_of_each_python_is_what_pyproject_asks_for(python: str) -> None:
    text = (ROOT / "locks" / f"{python}.txt").read_text("utf-8")
    assert "://" not in text, "a lock names no index"
    entries = re.split(r"\n(?=\S)", text.strip())
    assert len(entries) > 150
    assert all("--hash=sha256:" in entry for entry in entries)
    locked = {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for entry in entries
        if (requirement := Requirement(entry.partition(" \\")[0])).marker is None
        or requirement.marker.evaluate({"python_version": python, "python_full_version": python})
    }
    for name, wanted in requirements(asked_by("test"), python).items():
        assert locked[canonicalize_name(name)] in wanted.specifier, "make update-lock"


def test_a_folder_of_packages_for_another_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "offline" / "3.99").mkdir(parents=True)
    done = run_setup(tmp_path, PYTHON=sys.executable)
    assert done.returncode == 1
    assert "holds no packages for Python" in done.stderr and "3.99" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_folder_without_packages_is_named(tmp_path: Path) -> None:
    (tmp_path / "offline").mkdir()
    done = run_setup(tmp_path, PYTHON=sys.executable)
    assert done.returncode == 1
    assert re.search(r"holds no packages for Python 3\.\d+\. Run make offline", done.stderr)
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_what_is_locked_is_installed_from_the_folder_alone(installer: str, tmp_path: Path) -> None:
    """With a few packages instead of some hundred."""
    version = ".".join(map(str, sys.version_info[:2]))
    folder = tmp_path / "offline" / version
    folder.mkdir(parents=True)
    lines = []
    for name in ("uv", "setuptools", "wheel", "packaging"):
        found = metadata.version(name)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
        subprocess.run([*command, f"{name}=={found}"], check=True)
        [path] = folder.glob(f"{name}-*")
        lines.append(f"{name}=={found} --hash=sha256:{sha256(path.read_bytes()).hexdigest()}\n")
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / f"{version}.txt").write_text("".join(lines))
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "__init__.py").write_text("")
    (tmp_path / "README.md").write_text("")
    done = run_setup(tmp_path, PYTHON=sys.executable, INSTALLER=installer, **NO_INDEX)
    assert done.returncode == 0, done.stderr
    code = "import helpers, importlib.metadata as m; print(m.version('wheel'), helpers.__file__)"
    python = tmp_path / ".venv" / "bin" / "python"
    told = subprocess.check_output([python, "-c", code], cwd=tmp_path.parent, text=True)
    assert told.split() == [metadata.version("wheel"), str(tmp_path / "helpers" / "__init__.py")]
    again = run_setup(tmp_path, PYTHON=sys.executable, INSTALLER=installer, **NO_INDEX)
    assert (again.returncode, again.stderr) == (0, "")


def test_set_up_without_a_suitable_python_says_so(tmp_path: Path) -> None:
    done = run_setup(tmp_path, PYTHON="/no/such/python")
    assert done.returncode == 1
    assert "the lessons need Python 3.10, 3.11, 3.12 or 3.13" in done.stderr


def test_a_python_that_cannot_make_environments_is_not_taken(tmp_path: Path) -> None:
    """Like the Python of Debian and Ubuntu, where ensurepip is part of python3-venv."""
    (tmp_path / "ensurepip.py").write_text("raise ModuleNotFoundError('ensurepip')")
    done = run_setup(tmp_path, PYTHON=sys.executable, PYTHONPATH=str(tmp_path), **NO_INDEX)
    assert done.returncode == 1
    assert "sudo apt install python3-venv" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_an_environment_that_cannot_be_made_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "venv.py").write_text("if __name__ == '__main__': raise SystemExit('Why.\\n\\n')")
    done = run_setup(tmp_path, PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "Python could not create .venv: Why. (full log: " in done.stderr


def test_set_up_makes_the_environment_where_it_is_asked_to(tmp_path: Path) -> None:
    done = run_setup(tmp_path, PYTHON=sys.executable, VENV=".venv312", **NO_INDEX)
    assert "Creating .venv312 with Python" in done.stderr
    assert (tmp_path / ".venv312/bin/python").exists()
    assert not (tmp_path / ".venv").exists()


def test_set_up_without_room_says_so(tmp_path: Path) -> None:
    done = run_setup(tmp_path, PYTHON=sys.executable, NEEDED_MB="999999999")
    assert done.returncode == 1
    assert "Not enough disk space" in done.stderr


def test_set_up_without_a_network_says_so(tmp_path: Path) -> None:
    done = run_setup(tmp_path, PYTHON=sys.executable, **NO_INDEX)
    assert done.returncode == 1
    assert "no package index responds" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lang", "xx"], "no lessons in 'xx'. Choose LESSON_LANG="),
        (["--lesson", "99"], "no lesson '99'. Choose LESSON=01"),
    ],
)
def test_a_lesson_that_does_not_exist_is_named(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.lessons.run", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def core_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel without the course, built like a release."""
    folder = tmp_path_factory.mktemp("core")
    source = folder / "source"
    ignored = shutil.ignore_patterns("__pycache__", "course", "datasets")
    shutil.copytree(ROOT / "helpers", source / "helpers", ignore=ignored)
    for name in ("LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, source)
    release.build_core_wheel(source, folder, "315532800")
    [wheel] = folder.glob("*.whl")
    return wheel


def test_the_core_is_a_small_wheel_without_the_course(core_wheel: Path) -> None:
    assert core_wheel.name.startswith("multiworker_core-")
    assert core_wheel.stat().st_size < 1_000_000
    with zipfile.ZipFile(core_wheel) as archive:
        names = archive.namelist()
        [about] = [name for name in names if name.endswith("/METADATA")]
        text = archive.read(about).decode()
    assert {"helpers/cluster/local.py", "helpers/locale/ko/LC_MESSAGES/helpers.mo"} <= set(names)
    assert not [name for name in names if name.startswith(("helpers/course", "helpers/datasets"))]
    base = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, re.MULTILINE)
    assert sorted(base) == ["cloudpickle", "tqdm"]
    assert 'Requires-Dist: multiworker-core[tensorflow]; extra == "estimator"' in text


WITHOUT_TENSORFLOW = """
import sys
import helpers
from helpers import TFConfig, TFJob, tfjob

cluster, task = '{"worker": ["a:1", "b:1"]}', '{"type": "worker", "index": 1}'
config = TFConfig.parse(f'{{"cluster": {cluster}, "task": {task}}}')
assert config.task.index == 1
job = tfjob("lessons", "/shared/payload.pkl", image="registry.example/lessons:1", pvc="shared")
assert TFJob.parse(job.to_yaml()).manifest["kind"] == "TFJob"
try:
    from helpers import input_fn
except ImportError as error:
    assert "is part of the course" in str(error), error
else:
    raise AssertionError("input_fn without the course")
absent = {"tensorflow", "tf_keras", "tensorflow_datasets", "matplotlib", "ipywidgets"}
assert not absent & set(sys.modules)
print("done")
"""


def test_the_core_reads_tf_config_and_manifests_without_tensorflow(
    core_wheel: Path, tmp_path: Path
) -> None:
    target = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target)]
    subprocess.run([*install, str(core_wheel)], check=True)
    for name in ("cloudpickle", "tqdm", "yaml", "_yaml"):
        shutil.copytree(Path(sysconfig.get_path("purelib")) / name, target / name)
    done = subprocess.run(
        [sys.executable, "-S", "-c", WITHOUT_TENSORFLOW],  # -S: without our packages
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "done\n"
