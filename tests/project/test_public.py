"""The files that a public repository needs: workflows, forms, citation, Binder, a container.

`make test-release` runs the checks that need their own checkers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ROOT, published
from tests.support.lanes import LANES
from tools.l10n import install
from tools.lessons import notebook
from tools.lessons.project import Project

PROJECT = Project.load(ROOT)
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = [
    path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]
PINNED = re.compile(r"actions/[a-z-]+@(v\d+|[0-9a-f]{40})")


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def steps(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The steps of a workflow, each with the name of its job."""
    for name, job in load(path)["jobs"].items():
        yield from ((name, step) for step in job["steps"])


def test_the_workflows_and_forms_are_there() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "release", "site", "versions"]
    assert [path.stem for path in FORMS] == ["fault", "question", "translation"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_do_little_and_uses_pinned_actions(path: Path) -> None:
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    writers = [name for name, job in workflow["jobs"].items() if "permissions" in job]
    assert set(writers) <= {"publish"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    used = [step["uses"] for _job, step in steps(path) if "uses" in step]
    assert used
    assert all(PINNED.fullmatch(name) for name in used)
    for _job, step in steps(path):
        assert "${{" not in step.get("run", ""), "what others write must not become a command"


def test_what_publishes_runs_none_of_our_code() -> None:
    for path in WORKFLOWS:
        for job, step in steps(path):
            if job == "publish":
                assert not re.search(r"make|python|\.ci|checkout", str(step)), step


def test_the_workflows_call_what_exists() -> None:
    runs = [step.get("run", "") for path in WORKFLOWS for _job, step in steps(path)]
    called = set(re.findall(r"\bmake ([a-z0-9-]+)", "\n".join(runs)))
    matrix = load(GITHUB / "workflows" / "ci.yml")["jobs"]["lane"]["strategy"]["matrix"]
    lanes = {name.split()[0] for name in matrix["lane"]}
    lanes |= {entry["lane"].split()[0] for entry in matrix["include"]}
    assert {"release", "test-latest"} <= called
    assert lanes == {lane.target for lane in LANES}
    subprocess.run(["make", "-n", *called], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    for script in (".ci/run", ".ci/packages", "environment.sh"):
        assert os.access(ROOT / script, os.X_OK)
        assert any(script in run for run in runs)


def test_what_is_asked_for_by_hand_must_be_numbers(tmp_path: Path) -> None:
    runs = [step.get("run", "") for _job, step in steps(GITHUB / "workflows" / "versions.yml")]
    [script] = [run for run in runs if "make test-latest" in run]
    (tmp_path / "make").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "make").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"

    def said(lessons: str) -> str:
        environ = {**os.environ, "PATH": path, "LESSONS": lessons}
        command = ["bash", "-e", "-c", script]
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        ).stdout

    assert said("01 05") == "test-latest PYTHON=python LESSONS=01 05\n"
    assert said("") == "test-latest PYTHON=python LESSONS=\n"
    for wrong in ("01; ls", "$(shell ls)", "`ls`", "01\nls"):
        assert said(wrong) == "Numbers of lessons, as 01 05\n"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_what_is_needed(path: Path) -> None:
    form = load(path)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len(set(names)) == len(names) >= 2
    assert all("label" in field["attributes"] for field in fields)
    assert any(field["validations"]["required"] for field in fields)


def test_the_form_for_faults_shows_a_command_that_finds_the_course() -> None:
    [versions] = [field for field in load(FORMS[0])["body"] if field.get("id") == "versions"]
    assert "placeholder" not in versions["attributes"], "it cannot be copied"
    [pattern] = re.findall(r'`%pip list \| grep -iE "(.+)"`', versions["attributes"]["description"])
    for line in (f"{install.DISTRIBUTION} 0.1.0", "tf_keras 2.21.0", "tensorflow 2.21.0", "ray 2"):
        assert re.match(pattern, line, re.IGNORECASE)


def test_the_form_for_translations_knows_every_language_and_lesson() -> None:
    fields = {field.get("id"): field for field in load(FORMS[2])["body"]}
    assert list(fields) == ["language", "lesson", "cell", "said", "better"]
    languages = fields["language"]["attributes"]["options"]
    assert [re.findall(r"\((..)\)", option) for option in languages] == [
        [lang] for lang in PROJECT.released
    ]
    lessons = [domain for domain in PROJECT.notebooks_in("en") if re.match(r"\d\d_", domain)]
    wanted = []
    for domain in lessons:
        title = next(notebook.prose(notebook.read(PROJECT.notebook(domain))))
        wanted.append(f"{int(domain[:2])}. {notebook.source(title).splitlines()[0].lstrip('# ')}")
    assert fields["lesson"]["attributes"]["options"][: len(wanted)] == wanted


def test_a_container_of_ci_may_limit_the_memory_of_others() -> None:
    jobs = load(GITHUB / "workflows" / "ci.yml")["jobs"].values()
    assert len(jobs) == 2
    assert all("--cgroupns=host" in job["container"]["options"] for job in jobs)


def test_the_citation_names_the_version_and_nobody_who_is_not() -> None:
    cited = load(ROOT / "CITATION.cff")
    assert cited["version"] == PROJECT.version
    assert cited.get("repository-code", "") == PROJECT.repository
    assert [set(author) for author in cited["authors"]] == [{"name"}]


def test_a_container_for_developers_is_set_up_as_any_machine() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert container["postCreateCommand"] == "./environment.sh"
    settings = container["customizations"]["vscode"]["settings"]
    assert settings["python.defaultInterpreterPath"].endswith("/.venv/bin/python")


def test_binder_gets_the_packages_of_the_environment() -> None:
    """From a separate folder. Otherwise Binder would build the Dockerfile, which has no Jupyter."""
    assert (ROOT / "Dockerfile").exists()
    binder, whole = load(ROOT / ".binder" / "environment.yml"), load(ROOT / "environment.yml")
    left_out = [
        line for line in whole["dependencies"][2]["pip"] if line.startswith(("nbval", "-e"))
    ]
    assert len(left_out) == 2
    for line in left_out:
        whole["dependencies"][2]["pip"].remove(line)
    assert binder == whole


@pytest.mark.release
def test_what_binder_runs_at_the_end_installs_the_course(tmp_path: Path) -> None:
    course = published.copy_of_course(tmp_path / "course")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "kernel"], check=True)
    path = f"{tmp_path / 'kernel' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = [course / ".binder" / "postBuild"]
    subprocess.run(command, cwd=course, env={**os.environ, "PATH": path}, check=True)
    python = tmp_path / "kernel" / "bin" / "python"
    code = f"{install.cell(Project(ROOT), str)}\nimport helpers; print(helpers.__file__)"
    told = subprocess.check_output([python, "-I", "-c", code], cwd=tmp_path, text=True)
    assert told.strip() == str(course / "helpers" / "__init__.py")


@pytest.mark.release
def test_binder_takes_that_folder_and_not_the_dockerfile(tmp_path: Path) -> None:
    course = published.copy_of_course(tmp_path / "course")

    def dockerfile() -> str:
        command = [tool("jupyter-repo2docker"), "--no-build", "--debug", str(course)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr

    text = dockerfile()
    assert ".binder/environment.yml" in text
    assert ".binder/postBuild" in text
    shutil.rmtree(course / ".binder")
    assert ".binder" not in dockerfile()


def tool(name: str) -> str:
    """A checker of the extra `release`."""
    return str(Path(sys.executable).with_name(name))


def verdict(*command: str) -> int:
    return subprocess.run(
        [tool(command[0]), *command[1:]], capture_output=True, check=False
    ).returncode


@pytest.mark.release
def test_actionlint_finds_nothing_in_the_workflows_and_something_in_a_wrong_one(
    tmp_path: Path,
) -> None:
    assert verdict("actionlint", *map(str, WORKFLOWS)) == 0
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text("utf-8").replace("runs-on", "run-on"))
    assert verdict("actionlint", str(wrong)) == 1


@pytest.mark.release
@pytest.mark.parametrize(
    ("schema", "paths", "field"),
    [
        ("vendor.github-workflows", WORKFLOWS, "jobs"),
        ("vendor.github-issue-forms", FORMS, "body"),
        ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"], "blank_issues"),
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"], "authors"),
    ],
)
def test_each_file_is_of_its_form_and_a_wrong_one_is_not(
    schema: str, paths: list[Path], field: str, tmp_path: Path
) -> None:
    for path in paths:
        assert verdict("check-jsonschema", "--builtin-schema", schema, str(path)) == 0, path
        wrong = tmp_path / f"{path.stem}.yml"
        wrong.write_text(path.read_text("utf-8").replace(f"\n{field}", f"\nx{field}"))
        if path.stem == "config":
            wrong.write_text("blank_issues_enabled: perhaps\n")
        assert verdict("check-jsonschema", "--builtin-schema", schema, str(wrong)) == 1, path
