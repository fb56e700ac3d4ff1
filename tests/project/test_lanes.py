"""The lanes: each has its marker, target, description and place in CI, and no test is in two."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT, lanes
from tests.support.lanes import LANES, Lane

ENDED = re.compile(r"(\d+)(?:/\d+)? tests? collected")


def lane(name: str) -> Lane:
    [found] = [one for one in LANES if one.name == name]
    return found


def make(*arguments: str) -> str:
    """Returns the commands that make would run."""
    command = ["make", "-n", "--no-print-directory", *arguments]
    return subprocess.check_output(command, cwd=ROOT, text=True)


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_a_lane_has_a_target_that_selects_it(lane: Lane) -> None:
    commands = make(lane.target)
    assert not lane.marked or f"--lane={lane.name}" in commands  # "--lane benchmarks" is a path too
    assert " -k " not in commands
    assert ("--smoke" in make(lane.target, "SMOKE=1")) >= bool(lane.command)


def test_every_lane_is_described_and_nothing_else_is() -> None:
    page = (ROOT / "tests" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `make (test-[a-z0-9-]+)[^`]*` \| (.+?) \|", page, re.MULTILINE)
    assert dict(rows) == {one.target: one.description for one in LANES}
    assert len(rows) == len(LANES)


def test_a_marker_of_a_test_is_declared_as_a_lane_or_not_as_one() -> None:
    used = set()
    for path in (ROOT / "tests").rglob("*.py"):
        used |= set(re.findall(r"pytest\.mark\.(\w+)", path.read_text("utf-8")))
    pytests_own = {"parametrize", "skipif", "usefixtures"}
    derived = {"unit"}  # by tests/conftest.py
    assert used - pytests_own | derived == {*lanes.MARKED, *lanes.NO_LANES}
    assert [line.partition(":")[0] for line in lanes.markers()] == [*lanes.MARKED, *lanes.NO_LANES]


def test_make_test_and_the_lanes_select_each_test_once() -> None:
    assert lanes.lane_of([]) == lanes.lane_of(["english", "smoke"]) == "main"
    assert lanes.lane_of(["ray", "smoke"]) == "ray"
    assert lanes.lane_of(["browser", "slow"]) == "slow"
    with pytest.raises(ValueError, match="in 2 lanes: faults, ray"):
        lanes.lane_of(["ray", "faults"])


def test_the_tests_of_one_folder_are_divided_among_lanes() -> None:
    def collected(*options: str) -> int:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
        done = subprocess.run(
            [*command, "tests/project/test_public.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return int(found[1]) if (found := ENDED.search(done.stdout)) else 0

    every = [part for name in ("main", *lanes.MARKED) for part in ("--lane", name)]
    assert 0 < collected() < collected(*every)


def test_expressions_select_by_marker_and_shorten_only_what_has_a_short_form() -> None:
    main = lanes.expression(["main"])
    assert main.startswith("(not lessons and not grading and ")
    assert all(f"not {name}" in main for name in lanes.MARKED)
    assert lanes.expression(["ray"]) == "(ray and not slow)"
    assert lanes.expression(["ray", "slow"], smoke=True) == "(ray and not slow and smoke) or (slow)"
    assert lanes.expression(["faults"], smoke=True) == lanes.expression(["faults"])
    assert lanes.expression(["main", "all"]) == ""


def test_ci_begins_with_the_lanes_of_the_last_change() -> None:
    commits = [["helpers/keras_3/loss.py"], ["benchmarks/scale.py", "README.md"]]
    commands = [command for _minutes, command in lanes.plan(commits, 0)]
    assert commands[:3] == ["make test-keras-3", "make test-programs", "make test-benchmarks"]
    always = [one for one in LANES if one.minutes]
    assert sorted(commands) == sorted(one.short for one in always)
    assert not {"make test-slow", "make test-python"} & set(commands)


def test_all_lanes_have_their_turn_at_the_beginning() -> None:
    always = [one.short for one in LANES if one.minutes]
    first = [lanes.plan([], turn)[0][1] for turn in range(len(always))]
    assert first == always
    assert len(lanes.plan([], 3)) == len(always)


def test_a_changed_lesson_is_executed_in_one_of_its_languages() -> None:
    files = [f"notebooks/{language}/05_train.ipynb" for language in ("en", "ko")]
    files += ["notebooks/es/07_run.ipynb", "notebooks/solutions/08_x.ipynb", "notebooks/en/a.txt"]
    first = [lanes.plan([files], turn)[0] for turn in (0, 1)]
    assert first == [
        (3, 'make test-lessons LESSONS="ko-05 es-07"'),
        (3, 'make test-lessons LESSONS="en-05 es-07"'),
    ]
    assert '::test_the_lesson_runs_and_prints_what_is_stored[ko-05]" ' in make(
        "test-lessons", "LESSONS=ko-05 es-07"
    )


def test_if_most_lessons_changed_their_lane_comes_first() -> None:
    files = [f"notebooks/en/{number:02}_x.ipynb" for number in range(1, 13)]
    commands = [command for _minutes, command in lanes.plan([files], 5)]
    assert commands[0] == "make test-lessons"
    assert len(commands) == len({*commands})


def test_what_counts_as_changed_is_read_from_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        names = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True)

    git("init", "-q")
    for name in ("first", "second", "third"):
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-qm", name)
    monkeypatch.chdir(tmp_path)
    assert [[f for f in files if f] for files in lanes.recent_commits()] == [["third"], ["second"]]
    assert [[f for f in files if f] for files in lanes.recent_commits(1)] == [["third"]]


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_a_lane_names_files_that_exist(lane: Lane) -> None:
    assert bool(lane.paths) == bool(lane.minutes)
    assert all(list(ROOT.glob(path)) for path in lane.paths)
