"""The files that start an exported program, with programs that train nothing."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from helpers import TFConfig, TFJob, config_from_slurm
from helpers.export.targets import PORT, Tasks, target_files, with_constants
from tests.backends.test_tfjob import CRD, forbid_unknown_keys

TASKS = {
    "two workers": Tasks(2, 0, False),
    "an evaluator": Tasks(2, 0, True),
    "parameter servers": Tasks(2, 2, False),
    "everything": Tasks(3, 1, True, gpus=True),
}
KUBERNETES = Path(__file__).parent / "kubernetes_1.37_job_and_service.json.gz"


def files(tmp_path: Path, target: str, tasks: Tasks) -> Path:
    """The folder with the files of a target."""
    for name, text in target_files(target, tasks).items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def config_of(folder: Path, tasks: Tasks, environ: Mapping[str, str]) -> TFConfig:
    """The TF_CONFIG that `cluster_config.py` computes from an environment."""
    text = with_constants(
        "cluster_config.py", PARAMETER_SERVERS=tasks.ps, EVALUATOR=tasks.evaluator
    )
    (folder / "cluster_config.py").write_text(text, "utf-8")
    program = "import os, cluster_config; print(os.environ['TF_CONFIG'])"
    without = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=folder, env={**without, **environ}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return TFConfig.parse(done.stdout)


@pytest.mark.parametrize("name", TASKS)
def test_each_task_gets_its_role(tmp_path: Path, name: str) -> None:
    tasks = TASKS[name]
    addresses = [f"host{k}:1" for k in range(tasks.count)]
    environ = {"TASK_ADDRESSES": " ".join(addresses)}
    configs = [
        config_of(tmp_path, tasks, environ | {"TASK_NUMBER": str(number)})
        for number in range(tasks.count)
    ]
    roles = ["chief 0"] * (tasks.ps > 0) + [f"worker {k}" for k in range(tasks.workers)]
    roles += [f"ps {k}" for k in range(tasks.ps)] + ["evaluator 0"] * tasks.evaluator
    assert [str(config.task) for config in configs] == roles
    for config, address in zip(configs, addresses, strict=True):
        assert config.cluster == configs[0].cluster
        assert str(config.task) == "evaluator 0" or config.address == address


@pytest.mark.parametrize("layout", ["1(x3)", "2,1", "2(x2),1(x2)"])
def test_slurms_variables_give_the_addresses_of_the_course(tmp_path: Path, layout: str) -> None:
    nodes = {"1(x3)": "n[8-10]", "2,1": "n[9-10]", "2(x2),1(x2)": "n[08-10],gpu"}[layout]
    hosts = {"n[8-10]": "n8 n9 n10", "n[9-10]": "n9 n10"}.get(nodes, "n08 n09 n10 gpu")
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\n[ "$*" = "show hostnames {nodes}" ] && echo {hosts}\n')
    scontrol.chmod(0o755)
    count = {"1(x3)": 3, "2,1": 3}.get(layout, 6)
    variables = {
        "SLURM_JOB_ID": "777",
        "SLURM_PROCID": "1",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_TASKS": str(count),
        "SLURM_STEP_TASKS_PER_NODE": layout,
        "SLURM_DISTRIBUTION": "block",
    }
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    found = config_of(tmp_path, TASKS["two workers"], variables | path)
    assert found == config_from_slurm(variables)


def test_without_a_cluster_the_program_explains_how_to_start_it(tmp_path: Path) -> None:
    (tmp_path / "cluster_config.py").write_text(with_constants("cluster_config.py"))
    left_out = ("TF_CONFIG", "TASK_ADDRESSES", "SLURM_STEP_NODELIST")
    environ = {k: v for k, v in os.environ.items() if k not in left_out}
    command = [sys.executable, "cluster_config.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "README.md lists the ways" in done.stderr


def launch(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(program, "utf-8")
    command = ["bash", "launch.sh"]
    environ = os.environ | {"PYTHON": sys.executable}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_scripts_are_valid_and_launch_starts_all_tasks(tmp_path: Path) -> None:
    folder = files(tmp_path, "slurm", TASKS["two workers"])
    for script in ("launch.sh", "job.sbatch"):
        subprocess.run(["bash", "-n", script], cwd=folder, check=True)
    program = "import os; print(os.environ['TASK_NUMBER'], 'of', os.environ['TASK_ADDRESSES'])"
    done = launch(folder, program)
    assert done.returncode == 0, done.stderr
    lines = [(folder / f"task-{k}.log").read_text().split() for k in range(2)]
    assert [line[0] for line in lines] == ["0", "1"]
    assert lines[0][2:] == lines[1][2:] and len(set(lines[0][2:])) == 2
    assert lines[0][2] in done.stdout


def test_launch_restarts_all_tasks_after_a_failure_and_ends_those_that_wait(
    tmp_path: Path,
) -> None:
    folder = files(tmp_path, "script", TASKS["two workers"])
    program = (
        "import os, pathlib, time\n"
        "number = os.environ['TASK_NUMBER']\n"
        "starts = pathlib.Path('starts-' + number)\n"
        "starts.open('a').write(str(os.getpid()) + '\\n')\n"
        "count = len(starts.read_text().split())\n"
        "if number == '1' and count < 3:\n"
        "    while not pathlib.Path('starts-0').exists(): time.sleep(0.01)\n"
        "    time.sleep(0.2); raise SystemExit(7)\n"
        "if count < 3: time.sleep(1000)\n"
    )
    done = launch(folder, program)
    assert done.returncode == 0
    assert done.stderr.count("failed with code 7") == 2
    pids = (folder / "starts-0").read_text().split()
    assert len(pids) == 3
    assert not any(Path("/proc", pid).exists() for pid in pids)
    done = launch(folder, "raise SystemExit(9)")
    assert done.returncode == 9 and done.stderr.count("failed with code 9") == 4


@cache
def schema_of_tfjob() -> Any:
    """The schema of a TFJob, which allows no unknown key."""
    definition = next(yaml.safe_load_all(gzip.decompress(CRD.read_bytes())))
    return forbid_unknown_keys(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


@cache
def schema_of(kind: str) -> Any:
    """The schema of Kubernetes for "batch.v1.Job" or "core.v1.Service" without unknown keys."""
    schema = json.loads(gzip.decompress(KUBERNETES.read_bytes()))
    return schema | {"$ref": f"#/$defs/io.k8s.api.{kind}"}


def plain_manifests(folder: Path) -> tuple[Any, Any]:
    """The Service and the Job of `job.yaml`."""
    service, job = yaml.safe_load_all((folder / "job.yaml").read_text("utf-8"))
    return service, job


@pytest.mark.parametrize("name", TASKS)
def test_the_manifests_are_valid(tmp_path: Path, name: str) -> None:
    tasks = TASKS[name]
    folder = files(tmp_path, "kubernetes", tasks)
    job = TFJob.parse((folder / "tfjob.yaml").read_text("utf-8"))
    jsonschema.validate(job.manifest, schema_of_tfjob())
    replicas = job.manifest["spec"]["tfReplicaSpecs"]
    assert {role: spec["replicas"] for role, spec in replicas.items()} == tasks.roles
    computing = {role for role in replicas if "nvidia.com/gpu" in str(replicas[role])}
    assert computing == (replicas.keys() & {"Chief", "Worker"} if tasks.gpus else set())

    service, plain = plain_manifests(folder)
    jsonschema.validate(service, schema_of("core.v1.Service"))
    jsonschema.validate(plain, schema_of("batch.v1.Job"))
    assert (plain["apiVersion"], plain["kind"]) == ("batch/v1", "Job")
    assert plain["spec"]["completionMode"] == "Indexed"
    assert plain["spec"]["completions"] == plain["spec"]["parallelism"] == tasks.count
    pod = plain["spec"]["template"]["spec"]
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    label = {"batch.kubernetes.io/job-name": plain["metadata"]["name"]}
    assert service["spec"]["selector"] == label
    environ = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    # The names that Kubernetes gives to the pods of an indexed Job in a Service.
    names = [f"training-{k}.training:{PORT}" for k in range(tasks.count)]
    assert environ["TASK_ADDRESSES"].split() == names
    limits = pod["containers"][0]["resources"]["limits"]
    assert ("nvidia.com/gpu" in limits) == tasks.gpus
    first = config_of(tmp_path, tasks, environ | {"JOB_COMPLETION_INDEX": "0"})
    assert first.address == names[0]


@pytest.mark.parametrize("path", ["spec.completionsMode", "spec.template.spec.volume", "specs"])
def test_the_schema_of_a_job_rejects_a_mistyped_key(tmp_path: Path, path: str) -> None:
    _service, job = plain_manifests(files(tmp_path, "kubernetes", TASKS["two workers"]))
    *parents, last = path.split(".")
    node = job
    for key in parents:
        node = node[key]
    node[last] = {}
    with pytest.raises(jsonschema.ValidationError, match=last):
        jsonschema.validate(job, schema_of("batch.v1.Job"))


def test_the_schema_of_a_service_rejects_a_mistyped_key(tmp_path: Path) -> None:
    service, _job = plain_manifests(files(tmp_path, "kubernetes", TASKS["two workers"]))
    service["spec"]["clusterIp"] = "None"
    with pytest.raises(jsonschema.ValidationError, match="clusterIp"):
        jsonschema.validate(service, schema_of("core.v1.Service"))


def test_ray_gets_the_number_of_workers(tmp_path: Path) -> None:
    folder = files(tmp_path, "ray", Tasks(5, 0, False))
    source = (folder / "ray_train.py").read_text("utf-8")
    assert "\nWORKERS = 5\n" in source
    compile(source, "ray_train.py", "exec")
