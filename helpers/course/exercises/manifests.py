"""The task of exercise 7 on a TFJob."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helpers.backends.kubernetes.tfjob import TFJob
from helpers.backends.kubernetes.validation import CONTAINER
from helpers.course.criteria import Criterion, Exercise, expect, hide_all, identity
from helpers.errors import ConfigError
from helpers.i18n import _, gettext_noop

Case = Mapping[str, Any]


def _check_pods(job: Any, case: Case) -> None:
    """Raises `CheckFailed` unless every role exists, and every pod can read its payload."""
    replicas = _replicas(job)
    counts = {role: spec.get("replicas", 1) for role, spec in replicas.items()}
    expect(
        counts == case["counts"],
        expected=case["counts"],
        found=counts,
        hint=_("Fix the existing roles, and do not add or remove any."),
    )
    for role, spec in replicas.items():
        pod = spec["template"]["spec"]
        expect(
            _claim(pod) == case["claim"],
            expected=_("{path} in the claim {claim}, for {role}").format(
                path=case["payload"], claim=case["claim"], role=role
            ),
            found={"volumes": pod.get("volumes")},
            hint=_("On which volume does each pod look for the payload?"),
        )


def _replicas(job: Any) -> Mapping[str, Any]:
    """The roles of a TFJob. If the job is invalid, raises `CheckFailed`."""
    hint = _("Keep the object that `yaml.safe_load` has returned, and fix its contents.")
    try:
        manifest = TFJob(job).manifest
    except ConfigError as error:
        expect(False, expected=_("a valid TFJob"), found=str(error), hint=hint)
        raise
    replicas: Mapping[str, Any] = manifest["spec"]["tfReplicaSpecs"]
    return replicas


def _claim(pod: Mapping[str, Any]) -> str | None:
    """The volume claim that contains the payload of a pod, or None."""
    [container] = [one for one in pod["containers"] if one["name"] == CONTAINER]
    payload = str(container["command"][-1])
    volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        if payload.startswith(f"{mount['mountPath'].rstrip('/')}/"):
            claim = volumes.get(mount["name"], {}).get("persistentVolumeClaim", {})
            return str(claim.get("claimName"))
    return None


def _check_restart_policy(job: Any, case: Case) -> None:
    """Raises `CheckFailed` unless pods are restarted if, and only if, a restart helps."""
    for role, spec in _replicas(job).items():
        expect(
            spec.get("restartPolicy") == "ExitCode",
            expected=_(
                "pods of {role} that are restarted after exit code 138, and not after 1"
            ).format(role=role),
            found={"restartPolicy": spec.get("restartPolicy")},
            hint=_("Which policy depends on the exit code of a pod?"),
        )


MENDED_JOB = Exercise(
    identity,
    (
        Criterion(1, gettext_noop("All pods share the folder of the payload."), _check_pods),
        Criterion(1, gettext_noop("Pods are restarted if that helps."), _check_restart_policy),
    ),
    {"counts": {"Chief": 1, "Worker": 3}, "claim": "shared", "payload": "/shared/payload.pkl"},
    visible_case=hide_all,
)
