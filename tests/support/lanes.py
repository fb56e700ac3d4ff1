"""The lanes: tests beyond `make test`, when CI runs them, and how tests are selected.

A test belongs to `make test` or to one lane, by the marker of that name. A test that is also marked
`slow` belongs to the lane `slow` alone. `pytest --lane=NAME` selects the tests of a lane, and
`--smoke` its short form. `python -m tests.support.lanes plan` prints the plan of `.ci/run`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

MAIN, ALL, SLOW = "main", "all", "slow"
NO_LANES = {  # markers that select tests within a lane
    "english": "a lesson in English; the lanes with other versions run all of these",
    "smoke": "belongs to the short form of its lane",
    "unit": "starts no process and imports no TensorFlow; tests/support/units.py derives it",
}
COMMITS = 10  # the number of commits that count as recent
LESSON = re.compile(r"notebooks/(?!solutions)(\w+)/(\d\d)_\w+\.ipynb")


@dataclass(frozen=True)
class Lane:
    """Tests that `make test-NAME` runs.

    Attributes:
      name: the marker, if `marked`; lanes without one run tests of others with other versions.
      description: the subject of its tests.
      minutes: the time of its short form on two quiet cores; 0 if CI never runs it at a push.
      globs: of the files whose change is a reason to run it.
      command: the command for CI, if it is not the whole lane.
    """

    name: str
    description: str
    minutes: int
    globs: str = ""
    marked: bool = True
    command: str = ""

    @property
    def paths(self) -> list[str]:
        """The globs one by one."""
        return self.globs.split()

    @property
    def target(self) -> str:
        """The target of make."""
        return "test-" + self.name.replace("_", "-")

    @property
    def short(self) -> str:
        """The command that CI runs at a push."""
        return f"make {self.command or self.target}"


def _smoke(name: str) -> str:
    return f"test-{name} SMOKE=1"


LANES = (
    Lane(
        "lessons",
        "every lesson but the first, and the appendix, executed and compared; cells for GPUs",
        9,
        "helpers/course/* helpers/results/* tests/lessons/* notebooks/*/published_program.ipynb",
    ),
    Lane(
        "grading",
        "solutions and submissions executed by nbgrader in the sandbox, modules of projects",
        6,
        "helpers/course/exercises/* helpers/course/projects/* helpers/course/check.py "
        "tools/teaching/* notebooks/solutions/* tests/projects/* tests/teaching/*",
    ),
    Lane(
        "answers",
        "wrong and partly right answers to exercises executed; make test replays a record of them",
        4,
        "helpers/course/exercises/* helpers/course/check.py tests/exercises/* "
        "notebooks/solutions/*",
    ),
    Lane(
        "benchmarks",
        "benchmarks that start processes, at their smallest",
        3,
        "benchmarks/* tests/benchmarks/*",
    ),
    Lane(
        "faults",
        "faults under the other training API, faults at random, careless cells, long loops",
        8,
        "helpers/cluster/* helpers/worker/* helpers/worker_cells/* helpers/protocol/* "
        "tests/cluster/* tests/worker/* tests/worker_cells/* tests/support/faults.py "
        "benchmarks/chaos.py benchmarks/elastic.py",
    ),
    Lane(
        "keras_3",
        "long comparisons of two workers with one under Keras 3",
        5,
        "helpers/keras_3/* tests/keras_3/* tests/lessons/test_training_programs.py",
    ),
    Lane(
        "programs",
        "other people's programs, with real processes",
        4,
        "helpers/cluster/* helpers/keras_3/* helpers/worker/* helpers/export/* tests/export/*",
    ),
    Lane(
        "training",
        "accuracy after whole epochs, the load of the notebook's process, data of other formats, "
        "predicted memory",
        4,
        "helpers/worker/* helpers/course/data.py helpers/course/model.py helpers/course/panel/* "
        "helpers/course/memory_planner.py benchmarks/memory_planner.py",
    ),
    Lane(
        "browser",
        "the panel and worker cells in Chromium: JupyterLab, Notebook 7 and Voila",
        9,
        "helpers/course/* helpers/worker_cells/* helpers/worker/cells/* notebooks/panel.ipynb "
        "tests/panel/* tests/worker_cells/test_in_a_browser.py tests/support/browser.py",
    ),
    Lane(
        "soak",
        "five minutes of clusters that train, fail and are stopped; is anything left behind?",
        5,
        "helpers/cluster/* benchmarks/soak.py",
    ),
    Lane(
        "colab",
        "Python 3.12, TensorFlow 2.19 and the widgets of Colab",
        5,
        "tests/lessons/colab.txt tests/lessons/test_colab.py tools/l10n/install.py "
        "helpers/estimator/* helpers/system/*",
        command=_smoke("colab"),
    ),
    Lane(
        "tf215",
        "Python 3.11 or 3.10 and TensorFlow 2.15, the last version with its own Estimator: "
        "the numbers must be equal",
        5,
        "helpers/estimator/* helpers/system/* tests/estimator/* pyproject.toml",
        marked=False,
        command=_smoke("tf215"),
    ),
    Lane(
        "python",
        "another Python, 3.10 to 3.13",
        0,
        marked=False,
    ),
    Lane(
        "ray",
        "Ray on one machine and, as root, on two hosts, one of which is lost",
        5,
        "helpers/backends/ray/* tests/backends/test_ray*.py",
        command=_smoke("ray"),
    ),
    Lane(
        "slurm",
        "as root, slurmctld, slurmd, slurm-client and munge from Debian: "
        "a Slurm cluster with two nodes",
        2,
        "helpers/tf_config/* helpers/worker/* helpers/export/* tests/backends/test_slurm.py "
        "tests/export/*",
    ),
    Lane(
        "site",
        "Chromium: every page of the website, wide and narrow, light and dark",
        5,
        "tools/site/* tests/site/* docs/*.md",
        command=_smoke("site"),
    ),
    Lane(
        "degraded",
        "lessons 1, 5 and 8 without the features that macOS and containers lack",
        5,
        "helpers/system/* helpers/cluster/processes.py tests/degraded/* "
        "tests/support/missing_features/*",
        command=_smoke("degraded"),
    ),
    Lane(
        "docker",
        "as root, mmdebstrap and buildah from Debian: "
        "the Dockerfile, two containers as two workers",
        5,
        "Dockerfile .dockerignore tests/backends/test_image.py environment.sh",
        command=_smoke("docker"),
    ),
    Lane(
        "release",
        "workflows, forms, citation and Binder's files, checked by their own tools",
        2,
        ".github/* .binder/* CITATION.cff tests/project/test_public.py",
    ),
    Lane(
        "jupyterhub",
        "JupyterHub in Chromium: a teacher hands out and grades, two students submit",
        5,
        "tools/teaching/* tests/teaching/test_hub.py tests/support/hub.py",
        command=_smoke("jupyterhub"),
    ),
    Lane(
        SLOW,
        "hours: all lessons and exercises in all languages, all faults with 2 and 4 workers, leaks",
        0,
    ),
)
MARKED = tuple(lane.name for lane in LANES if lane.marked)
# `browser` is shortened only as a part of `colab`.
SHORTENED = ("english", "browser", *(lane.name for lane in LANES if lane.command))


def markers() -> Iterator[str]:
    """The lines for pytest's list of markers."""
    for lane in LANES:
        if lane.marked:
            yield f"{lane.name}: {lane.description}; make {lane.target}"
    for name, description in NO_LANES.items():
        yield f"{name}: {description}"


def expression(chosen: Sequence[str], smoke: bool = False) -> str:
    """The value of pytest's `-m` for these lanes. `main` is `make test`.

    With `smoke`, the lanes that have a short form are reduced to it.
    """
    if ALL in chosen:
        return ""
    return " or ".join(f"({_expression(name, smoke)})" for name in chosen)


def _expression(name: str, smoke: bool) -> str:
    if name == MAIN:
        return " and ".join(f"not {lane}" for lane in MARKED)
    one = SLOW if name == SLOW else f"{name} and not {SLOW}"
    return f"{one} and smoke" if smoke and name in SHORTENED else one


def lane_of(names: Iterable[str]) -> str:
    """The one lane of a test with these markers.

    Raises:
      ValueError: it has several.
    """
    found = set(names) & set(MARKED)
    if SLOW in found or not found:
        return SLOW if found else MAIN
    if len(found) > 1:
        raise ValueError(f"in {len(found)} lanes: {', '.join(sorted(found))}")
    return found.pop()


def changed(commits: Sequence[Sequence[str]]) -> list[Lane]:
    """The lanes with a file in one of the commits, of which the newest is first."""
    found = {
        lane: None
        for files in commits
        for lane in LANES
        if lane.minutes and any(fnmatch(file, path) for file in files for path in lane.paths)
    }
    return list(found)


def plan(commits: Sequence[Sequence[str]], turn: int) -> list[tuple[int, str]]:
    """The minutes and the command of each CI run after `make test`, in order.

    First the lanes of the changed files, then the others in turn, starting with number `turn`.
    """
    urgent = changed(commits)
    others = [lane for lane in LANES if lane.minutes and lane not in urgent]
    first = turn % max(1, len(others))
    lanes = [*urgent, *others[first:], *others[:first]]
    lessons = list(_lessons(commits, turn))
    if any(minutes > LANES[0].minutes for minutes, _command in lessons):
        lessons, lanes = [], sorted(lanes, key=lambda lane: lane is not LANES[0])  # it has all
    return [*lessons, *((lane.minutes, lane.short) for lane in lanes)]


def _lessons(commits: Sequence[Sequence[str]], turn: int) -> Iterator[tuple[int, str]]:
    """The changed lessons, each in one of the languages in which it has changed."""
    languages: dict[str, list[str]] = {}
    for file in sorted({file for files in commits for file in files}):
        if lesson := LESSON.fullmatch(file):
            languages.setdefault(lesson[2], []).append(lesson[1])
    names = [
        f"{found[(turn + int(number)) % len(found)]}-{number}"
        for number, found in languages.items()
    ]
    if names:
        yield 1 + len(names), f'make test-lessons LESSONS="{" ".join(names)}"'


def recent_commits(count: int = COMMITS) -> list[list[str]]:
    """The files of the last commits that this clone has, with the newest commit first."""
    command = ["git", "log", f"-{count}", "--name-only", "--format=%x00%P", "--no-renames"]
    text = subprocess.check_output([*command, "--first-parent", "-m"], text=True)
    commits = [part.split("\n") for part in text.split("\0")[1:]]
    # A commit without parents is the first one, or the end of a shallow clone. It lists all files.
    return [files for parents, *files in commits if parents]


def main() -> None:
    """Prints the plan for the current commit."""
    if sys.argv[1:] != ["plan"]:
        raise SystemExit("usage: python -m tests.support.lanes plan")
    commit = subprocess.check_output(["git", "rev-parse", "--short=7", "HEAD"], text=True)
    for minutes, command in plan(recent_commits(), int(commit, 16)):
        print(minutes, command)


if __name__ == "__main__":
    main()
