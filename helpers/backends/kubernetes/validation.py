"""The rules for a TFJob, each with its own message.

The first five are the rules of the operator's webhook, which checks `kubectl apply`
(pkg/webhooks/tensorflow/tfjob_webhook.go and pkg/webhooks/utils/utils.go in
kubeflow/training-operator 1.9). A job that violates one of the others is accepted there, and then
waits or fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from helpers.errors import ConfigError, unknown_choice
from helpers.i18n import _, join_items, ngettext

API_VERSION = "kubeflow.org/v1"
CONTAINER = "tensorflow"
WORKER = "helpers.worker"  # the program, in a container's command
ROLES = ("Chief", "Worker", "PS", "Evaluator")
RESTART_POLICIES = ("ExitCode", "Never", "OnFailure", "Always")
CLEAN_POD_POLICIES = ("Running", "All", "None")
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
MAX_NAME_LENGTH = 63
QUANTITY = re.compile(r"\d+(\.\d*)?([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")


def check_manifest(manifest: Any) -> None:
    """Raises ConfigError unless the manifest describes a TFJob that can work."""
    kind = get(manifest, "kind")
    if get(manifest, "apiVersion") != API_VERSION or kind != "TFJob":
        message = _(
            "The manifest has apiVersion and kind {version} {kind}. A TFJob has apiVersion "
            "kubeflow.org/v1 and kind TFJob."
        )
        raise ConfigError(message.format(version=get(manifest, "apiVersion"), kind=kind))
    replicas = get(manifest, "spec", "tfReplicaSpecs")
    if not isinstance(replicas, Mapping) or not replicas:
        message = _("The TFJob has no task: spec.tfReplicaSpecs needs Worker, Chief or both.")
        raise ConfigError(message)
    _check_roles(replicas)
    _check_name(get(manifest, "metadata", "name"), replicas)
    for role, spec in replicas.items():
        _check_containers(role, spec)
        _check_volumes(role, get(spec, "template", "spec"))
        policy = get(spec, "restartPolicy")
        if policy is not None and policy not in RESTART_POLICIES:
            raise unknown_choice("restartPolicy", policy, RESTART_POLICIES)
    clean = get(manifest, "spec", "runPolicy", "cleanPodPolicy")
    if clean is not None and clean not in CLEAN_POD_POLICIES:
        raise unknown_choice("cleanPodPolicy", clean, CLEAN_POD_POLICIES)


def get(value: Any, *keys: str) -> Any:
    """The value under `keys` of nested mappings, or None if a key is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _count(replicas: Mapping[str, Any], role: str) -> Any:
    return get(replicas[role], "replicas") if "replicas" in (replicas[role] or {}) else 1


def _check_roles(replicas: Mapping[str, Any]) -> None:
    if unknown := [role for role in replicas if role not in ROLES]:
        raise unknown_choice("tfReplicaSpecs", unknown[0], ROLES)
    for role in replicas:
        count = _count(replicas, role)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            message = _(
                "{role} has replicas={count!r}: use a whole number of at least 1, or leave it out."
            )
            raise ConfigError(message.format(role=role, count=count))
        if role in ("Chief", "Evaluator") and count > 1:
            message = ngettext(
                "The TFJob has {count} task of role {role}; there can be only one.",
                "The TFJob has {count} tasks of role {role}; there can be only one.",
                count,
            )
            raise ConfigError(message.format(role=role, count=count))
    if "PS" in replicas and "Chief" not in replicas:
        message = _(
            "The TFJob has parameter servers and no Chief. Parameter servers end only with the "
            "job, and the job ends with its chief. Add chief=True."
        )
        raise ConfigError(message)
    if "Chief" not in replicas and "Worker" not in replicas:
        message = _("The TFJob has no task that trains, only {roles}. Add workers.")
        raise ConfigError(message.format(roles=join_items(replicas)))


def _check_name(name: Any, replicas: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or not DNS_1035.fullmatch(name):
        message = _(
            "The name {name!r:.70} cannot be part of an address: use lower-case letters, digits "
            "and -, starting with a letter and ending with a letter or digit."
        )
        raise ConfigError(message.format(name=name))
    longest = max(
        (f"{name}-{role.lower()}-{_count(replicas, role) - 1}" for role in replicas), key=len
    )
    if len(longest) > MAX_NAME_LENGTH:
        message = ngettext(
            "The name of the pod {pod} would have {length} character, but at most {most} are "
            "allowed. Shorten the job's name.",
            "The name of the pod {pod} would have {length} characters, but at most {most} are "
            "allowed. Shorten the job's name.",
            len(longest),
        )
        values = {"pod": longest, "length": len(longest), "most": MAX_NAME_LENGTH}
        raise ConfigError(message.format(**values))


def _check_containers(role: str, spec: Any) -> None:
    containers = get(spec, "template", "spec", "containers")
    containers = containers if isinstance(containers, list) else []
    names = [get(container, "name") for container in containers]
    if CONTAINER not in names:
        message = _(
            "{role} has no container named {wanted}, and the operator sets TF_CONFIG only there."
        )
        if names:
            message = ngettext(
                "{role} has a container named {names}, but the operator sets TF_CONFIG only in one "
                "named {wanted}.",
                "{role} has containers named {names}, but the operator sets TF_CONFIG only in one "
                "named {wanted}.",
                len(names),
            )
        found = join_items(map(str, names))
        raise ConfigError(message.format(role=role, names=found, wanted=CONTAINER))
    for container in containers:
        image = get(container, "image")
        if not isinstance(image, str) or not image.strip():
            message = _("Container {name} of {role} has no image: specify one, such as {example}.")
            values = {"name": get(container, "name"), "role": role}
            raise ConfigError(message.format(example="registry.example/lessons:1", **values))
        for resource, amount in _amounts(container):
            if not QUANTITY.fullmatch(str(amount)):
                message = _(
                    "{role} requests {resource}={amount!r}, which is not a Kubernetes "
                    'quantity: write 2, 0.5, "500m" or "4Gi".'
                )
                values = {"role": role, "resource": resource, "amount": amount}
                raise ConfigError(message.format(**values))


def _check_volumes(role: str, pod: Any) -> None:
    """Checks that every volume is mounted, every mount has its volume, and one has the payload."""
    volumes = {get(volume, "name") for volume in _listed(pod, "volumes")}
    mounts = [
        mount for each in _listed(pod, "containers") for mount in _listed(each, "volumeMounts")
    ]
    mounts += [m for each in _listed(pod, "initContainers") for m in _listed(each, "volumeMounts")]
    mounted = {get(mount, "name") for mount in mounts}
    if unmounted := sorted(map(str, volumes - mounted)):
        message = _(
            "{role} has the volume {name}, which no container mounts: its files would stay in the "
            "pod and be lost. Add it to volumeMounts, or remove it."
        )
        raise ConfigError(message.format(role=role, name=unmounted[0]))
    if missing := sorted(map(str, mounted - volumes)):
        message = _("{role} mounts the volume {name}, which is not under volumes. Add it there.")
        raise ConfigError(message.format(role=role, name=missing[0]))
    for container in _listed(pod, "containers"):
        command = [*_listed(container, "command"), *_listed(container, "args")]
        payload = str(command[command.index(WORKER) + 1]) if WORKER in command[:-1] else None
        folders = [str(get(m, "mountPath")) for m in _listed(container, "volumeMounts")]
        if payload and not any(f"{payload}/".startswith(f"{f.rstrip('/')}/") for f in folders):
            message = _(
                "{role} reads the payload {payload}, which is in no volume that its container "
                "mounts ({folders}). Mount the shared volume above it."
            )
            values = {"role": role, "payload": payload, "folders": join_items(folders) or None}
            raise ConfigError(message.format(**values))


def _listed(value: Any, key: str) -> list[Any]:
    found = get(value, key)
    return found if isinstance(found, list) else []


def _amounts(container: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for part in ("requests", "limits"):
        amounts = get(container, "resources", part)
        yield from amounts.items() if isinstance(amounts, Mapping) else ()
