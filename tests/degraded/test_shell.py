"""The set-up only needs the tools of macOS: its sh, the BSD tools, and make 3.81."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.support import ROOT

ONLY_GNU = re.compile(
    r"readlink -f|realpath|\bsed -i|sed .*-r |date (-d|--)|stat -c|\btac\b|\btimeout\b|\bnproc\b"
    r"|xargs -r|grep -\w*P|cp --|ls --|sort -V|mktemp( -d)?\)|head -n -|\.ONESHELL|\$\(file "
)
ONLY_BASH_4 = re.compile(r"\bdeclare -A|\bmapfile\b|\breadarray\b|\$\{\w+(,,|\^\^)|\[\[|&>>|\|&")


@pytest.mark.parametrize("name", ["environment.sh", "Makefile"])
def test_no_tool_is_asked_for_what_only_gnu_can(name: str) -> None:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    assert len(lines) > 100
    found = [line for line in lines if ONLY_GNU.search(line) or ONLY_BASH_4.search(line)]
    assert not found


@pytest.mark.parametrize(("features", "option"), [("output-sync", "--output-sync"), ("jobs", "")])
def test_jobs_take_turns_to_print_where_make_can_do_that(features: str, option: str) -> None:
    told = make("--eval", 'tell: ; @echo "$(SYNC)"', "tell", f".FEATURES={features}")
    assert told.strip() == option


def make(*arguments: str, **environ: str) -> str:
    """Returns the output of make, independent of a make that runs these tests."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    alone.pop("MFLAGS", None)
    return subprocess.check_output(
        ["make", *arguments], cwd=ROOT, env={**alone, **environ}, text=True
    )


def test_no_lane_takes_the_environment_of_another() -> None:
    """CI removes it at the end of a lane."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipes = re.findall(r"^test-[a-z0-9]+:.*\n((?:\t.*\n)+)", makefile, re.M)
    used = [set(re.findall(r"\.venv-[\w$()]+", recipe)) for recipe in recipes]
    names = [name for one in used for name in one]
    assert len(names) == len(set(names)) == 7


@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"]])
def test_the_set_up_is_understood_by_plain_shells(shell: list[str]) -> None:
    done = subprocess.run(
        [*shell, "-n", "environment.sh"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
