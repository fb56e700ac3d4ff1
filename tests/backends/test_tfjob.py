"""TFJobs, checked against the operator's own schema and the rules of its webhook."""

from __future__ import annotations

import copy
import gzip
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from helpers.backends.kubernetes.tfjob import USER, TFJob, tfjob
from helpers.errors import ConfigError
from helpers.tf_config import TFConfig
from tests.support import ROOT

CRD = Path(__file__).parent / "kubeflow.org_tfjobs_1.9.4.yaml.gz"
COMMON: dict[str, Any] = {
    "payload": "/shared/payload.pkl",
    "image": "registry.example/lessons:1",
    "pvc": "shared",
}
JOBS: dict[str, dict[str, Any]] = {
    "one worker": {"workers": 1},
    "chief and workers": {"chief": True, "workers": 3},
    "parameter servers": {"chief": True, "workers": 2, "ps": 2},
    "evaluator": {"workers": 2, "evaluator": True},
    "gpu": {"workers": 4, "gpus": 2, "cpu": "8", "memory": "32Gi"},
    "everything": {
        "chief": True,
        "workers": 2,
        "ps": 1,
        "evaluator": True,
        "cpu": 0.5,
        "memory": "1500M",
        "gpus": 1,
        "mount_path": "/data",
        "payload": "/data/a/payload.pkl",
        "namespace": "team",
        "restart_policy": "OnFailure",
        "clean_pod_policy": "All",
        "backoff_limit": 5,
        "deadline_seconds": 3600,
    },
}


def make(name: str) -> TFJob:
    return tfjob("mnist", **{**COMMON, **JOBS[name]})


@pytest.fixture(scope="module")
def schema() -> Any:
    """The schema of the custom resource, which allows no unknown key."""
    definition = next(yaml.safe_load_all(gzip.decompress(CRD.read_bytes())))
    [version] = definition["spec"]["versions"]
    assert version["name"] == "v1"
    return forbid_unknown_keys(version["schema"]["openAPIV3Schema"])


def forbid_unknown_keys(node: Any) -> Any:
    if isinstance(node, list):
        return [forbid_unknown_keys(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {key: forbid_unknown_keys(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        node.setdefault("additionalProperties", False)
    if node.get("x-kubernetes-int-or-string"):
        node.pop("pattern", None)  # applies to the string alone
    return node


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_valid_in_the_operators_schema(name: str, schema: Any) -> None:
    jsonschema.validate(yaml.safe_load(make(name).to_yaml()), schema)


@pytest.mark.parametrize(
    "path",
    [
        ["spec", "tfReplicaSpec"],
        ["spec", "runPolicy", "cleanPodPolcy"],
        ["spec", "tfReplicaSpecs", "Worker", "template", "spec", "volume"],
    ],
    ids=".".join,
)
def test_the_schema_catches_a_mistyped_key(path: list[str], schema: Any) -> None:
    manifest = manifest_of("one worker")
    node = manifest
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = {}
    with pytest.raises(jsonschema.ValidationError, match=path[-1]):
        jsonschema.validate(manifest, schema)


def manifest_of(name: str) -> Any:
    return copy.deepcopy(make(name).manifest)


def containers(manifest: Any, role: str = "Worker") -> Any:
    return manifest["spec"]["tfReplicaSpecs"][role]["template"]["spec"]["containers"]


def set_to(*path: str, value: Any) -> Callable[[Any], None]:
    def change(manifest: Any) -> None:
        for key in path[:-1]:
            manifest = manifest[key]
        manifest[path[-1]] = value

    return change


REPLICAS = ("spec", "tfReplicaSpecs")
BROKEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "another kind": (set_to("kind", value="PyTorchJob"), "PyTorchJob"),
    "no tasks": (set_to(*REPLICAS, value={}), "has no task"),
    "an upper-case name": (set_to("metadata", "name", value="MNIST"), "'MNIST'"),
    "a name that begins with a digit": (set_to("metadata", "name", value="1st"), "'1st'"),
    "a pod's name too long": (
        set_to("metadata", "name", value="a" * 60),
        "72 characters, but at most 63",
    ),
    "an unknown role": (set_to(*REPLICAS, "Workers", value={}), "tfReplicaSpecs='Workers'"),
    "two chiefs": (set_to(*REPLICAS, "Chief", "replicas", value=2), "2 tasks of role Chief"),
    "two evaluators": (
        set_to(*REPLICAS, "Evaluator", "replicas", value=2),
        "2 tasks of role Evaluator",
    ),
    "no workers": (set_to(*REPLICAS, "Worker", "replicas", value=0), "replicas=0"),
    "parameter servers alone": (
        lambda job: job["spec"]["tfReplicaSpecs"].pop("Chief"),
        "chief=True",
    ),
    "a container of another name": (
        lambda job: containers(job)[0].update(name="main"),
        r"a container named main, but",
    ),
    "no container": (lambda job: containers(job).clear(), r"no container named tensorflow"),
    "no image": (lambda job: containers(job)[0].pop("image"), "has no image"),
    "not a Kubernetes quantity": (
        lambda job: containers(job)[0]["resources"]["limits"].update(memory="4 GB"),
        "memory='4 GB'",
    ),
    "an unknown restart policy": (
        set_to(*REPLICAS, "Worker", "restartPolicy", value="Sometimes"),
        "restartPolicy='Sometimes'",
    ),
    "an unknown clean-up": (
        set_to("spec", "runPolicy", "cleanPodPolicy", value="Some"),
        "cleanPodPolicy='Some'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_job_is_refused_with_a_message(name: str) -> None:
    break_it, expected = BROKEN[name]
    manifest = manifest_of("everything")
    break_it(manifest)
    with pytest.raises(ConfigError, match=expected):
        TFJob.parse(yaml.safe_dump(manifest))


@pytest.mark.parametrize("text", ["", "just text", "[1, 2]", "kind: TFJob", "a: [", "spec: {}"])
def test_what_is_no_tfjob_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(ConfigError):
        TFJob.parse(text)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"payload": "/tmp/payload.pkl"}, "shared volume"),
        ({"workers": 0}, "workers=0"),
        ({"ps": 2}, "chief=True"),
        ({"gpus": -1}, "gpus=-1"),
        ({"memory": "lots"}, "memory='lots'"),
        ({"image": ""}, "has no image"),
        ({"deadline_seconds": 0}, "deadline_seconds=0"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_refused_with_a_message(changed: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        tfjob("mnist", **{**COMMON, **changed})


def test_the_text_can_be_read_back_and_repeats_nothing_by_reference() -> None:
    job = make("everything")
    assert TFJob.parse(job.to_yaml()) == job
    assert "&id" not in job.to_yaml()
    assert repr(job) == "TFJob(mnist: 1 Chief, 2 Worker, 1 PS, 1 Evaluator)"


def test_only_tasks_that_compute_get_gpus() -> None:
    manifest = manifest_of("everything")
    gets = {
        role: "nvidia.com/gpu" in containers(manifest, role)[0]["resources"]["limits"]
        for role in manifest["spec"]["tfReplicaSpecs"]
    }
    assert gets == {"Chief": True, "Worker": True, "PS": False, "Evaluator": False}


def test_an_evaluator_is_not_deleted_before_it_has_evaluated_the_last_checkpoint() -> None:
    assert manifest_of("evaluator")["spec"]["runPolicy"]["cleanPodPolicy"] == "None"
    assert manifest_of("parameter servers")["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"


def test_what_the_operator_puts_into_tf_config_is_understood() -> None:
    # As pkg/controller.v1/tensorflow/tensorflow.go writes it.
    text = (
        '{"cluster":{"chief":["mnist-chief-0.team.svc:2222"],"worker":["mnist-worker-0.team.svc:'
        '2222"]},"task":{"type":"worker","index":0},"environment":"cloud"}'
    )
    assert "mnist-chief-0.team.svc:2222" in TFConfig.parse(text).explain()


def test_the_dockerfile_copies_what_the_package_is_built_from(tmp_path: Path) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE)
    for name in " ".join(copied).split():
        source = ROOT / name
        copy_one = shutil.copytree if source.is_dir() else shutil.copy
        copy_one(source, tmp_path / name)
        assert f"!{name}\n" in (ROOT / ".dockerignore").read_text()
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "."]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert list(tmp_path.glob("*.whl"))
    assert f"USER {USER}\n" in dockerfile


def edited(change: Callable[[dict[str, Any]], Any]) -> str:
    """The text of a manifest in which the pod of the workers was changed."""
    manifest = copy.deepcopy(dict(make("chief and workers").manifest))
    change(manifest["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"])
    return yaml.safe_dump(manifest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda pod: pod["containers"][0].pop("volumeMounts"), "Worker has the volume shared"),
        (
            lambda pod: pod["volumes"].append({"name": "scratch", "emptyDir": {}}),
            "has the volume scratch, which no container mounts",
        ),
        (lambda pod: pod.pop("volumes"), "mounts the volume shared, which is not under volumes"),
        (
            lambda pod: pod["containers"][0]["volumeMounts"][0].update(mountPath="/other"),
            "reads the payload /shared/payload.pkl, which is in no volume",
        ),
    ],
)
def test_a_volume_that_is_not_mounted_is_named(
    change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        TFJob.parse(edited(change))


def test_of_several_documents_the_kinds_are_named_and_empty_ones_do_not_count() -> None:
    text = make("one worker").to_yaml()
    assert TFJob.parse(f"---\n{text}---\n").manifest == make("one worker").manifest
    claim = "apiVersion: v1\nkind: PersistentVolumeClaim\n---\n"
    with pytest.raises(ConfigError, match=r"2 YAML documents \(PersistentVolumeClaim, TFJob\)"):
        TFJob.parse(claim + text)
    with pytest.raises(ConfigError, match="apiVersion and kind None None"):
        TFJob.parse("")
