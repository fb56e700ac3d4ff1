"""A `TFJob`, with which Kubeflow's training operator runs a training job on Kubernetes.

The manifest has API version kubeflow.org/v1, of the operator's 1.9 line. The newer Trainer, version
2, has no runtime for TensorFlow. Each pod runs `python -m helpers.worker PAYLOAD`, and the operator
sets its `TF_CONFIG`. docs/CLUSTERS.md describes all steps from a cluster to a finished job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from helpers.backends.kubernetes.validation import API_VERSION, CONTAINER, check_manifest, get
from helpers.errors import ConfigError, check_count, not_installed
from helpers.i18n import _, join_items, labeled, ngettext

REQUIREMENT = "pyyaml>=6,<7"  # of the extra `kubernetes` in pyproject.toml

try:
    import yaml
except ModuleNotFoundError:
    raise not_installed("PyYAML", REQUIREMENT) from None

GPU = "nvidia.com/gpu"
KIND = "TFJob"
USER = 1000  # of the Dockerfile


@dataclass(frozen=True)
class TFJob:
    """A validated manifest.

    Attributes:
      manifest: the content of `to_yaml`: mappings, lists, strings and numbers.

    Raises:
      ConfigError: the operator would reject it, or it could not work.
    """

    manifest: Mapping[str, Any]

    def __post_init__(self) -> None:
        check_manifest(self.manifest)

    @classmethod
    def parse(cls, text: str) -> TFJob:
        """Reads and checks the text of a manifest, such as one you have edited."""
        try:
            documents = [one for one in yaml.safe_load_all(text) if one is not None]
        except yaml.YAMLError as error:
            raise ConfigError(_("The manifest is not YAML: {error}").format(error=error)) from None
        if len(documents) > 1:
            kinds = join_items(str(get(one, "kind")) for one in documents)
            message = ngettext(
                "The text has {count} YAML document ({kinds}), separated by ---. Pass only "
                "the TFJob.",
                "The text has {count} YAML documents ({kinds}), separated by ---. Pass only "
                "the TFJob.",
                len(documents),
            )
            raise ConfigError(message.format(count=len(documents), kinds=kinds))
        return cls(documents[0] if documents else {})

    def to_yaml(self) -> str:
        """The text for `kubectl apply -f`."""
        return yaml.safe_dump(self.manifest, sort_keys=False)

    def __repr__(self) -> str:
        replicas = self.manifest["spec"]["tfReplicaSpecs"]
        roles = join_items(f"{spec.get('replicas', 1)} {role}" for role, spec in replicas.items())
        return f"TFJob({labeled(self.manifest['metadata']['name'], roles)})"


def tfjob(
    name: str,
    payload: str,
    *,
    image: str,
    pvc: str,
    mount_path: str = "/shared",
    workers: int = 2,
    chief: bool = False,
    ps: int = 0,
    evaluator: bool = False,
    cpu: int | float | str = 2,
    memory: str = "4Gi",
    gpus: int = 0,
    namespace: str = "default",
    restart_policy: str = "ExitCode",
    clean_pod_policy: str | None = None,
    backoff_limit: int = 3,
    deadline_seconds: int | None = None,
) -> TFJob:
    """Creates the manifest of a job that runs a payload.

    Args:
      name: the job's name. Pods are named `<name>-worker-0` and so on.
      payload: the path, inside the pods, of the file that `estimator_job(...).save` wrote. It and
        the job's `model_dir` must be in the shared volume.
      image: a container image with this package, as built from the Dockerfile.
      pvc: the PersistentVolumeClaim of the shared volume, mounted at `mount_path`. All pods write
        to it, so it needs the access mode ReadWriteMany.
      workers, chief, ps, evaluator: the tasks. Parameter servers need a chief.
      cpu, memory: the resources of each pod, as Kubernetes quantities: 2, 0.5, "500m", "4Gi".
      gpus: NVIDIA GPUs of each chief and worker.
      restart_policy: "ExitCode" restarts a pod that ends with 128 or more, as the worker does for
        errors that a restart may fix. Other values are "Never", "OnFailure" and "Always".
      clean_pod_policy: the pods to delete at the end: "Running", "All" or "None". The default is
        "Running", because parameter servers never end by themselves. For an evaluator without them
        it is "None", because the evaluator still has to evaluate the last checkpoint.
      backoff_limit: the number of restarts before the job fails.
      deadline_seconds: the time limit of the job, unlimited by default.

    Raises:
      ConfigError: the operator would reject the job, or it could not work.
    """
    _check_counts(gpus=gpus or None, deadline_seconds=deadline_seconds)
    if not chief:
        check_count("workers", workers)
    counts = {"Chief": int(chief), "Worker": workers, "PS": ps, "Evaluator": int(evaluator)}
    limits: dict[str, Any] = {"cpu": cpu if isinstance(cpu, int) else str(cpu), "memory": memory}
    replicas = {}
    for role in (role for role, count in counts.items() if count):
        more = {GPU: gpus} if gpus and role in ("Chief", "Worker") else {}
        template = _pod(image, payload, pvc, mount_path, {**limits, **more})
        about = {"replicas": counts[role], "restartPolicy": restart_policy}
        replicas[role] = {**about, "template": template}
    clean = clean_pod_policy or ("None" if evaluator and not ps else "Running")
    run_policy: dict[str, Any] = {"cleanPodPolicy": clean, "backoffLimit": backoff_limit}
    if deadline_seconds is not None:
        run_policy["activeDeadlineSeconds"] = deadline_seconds
    spec = {"runPolicy": run_policy, "tfReplicaSpecs": replicas}
    metadata = {"name": name, "namespace": namespace}
    return TFJob({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec})


def _check_counts(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None:
            check_count(name, value)


def _pod(
    image: str, payload: str, pvc: str, mount_path: str, limits: dict[str, Any]
) -> dict[str, Any]:
    """A pod template. Its resource limits are also its requests."""
    if not payload.startswith(f"{mount_path.rstrip('/')}/"):
        message = _("payload={payload!r} is not in the shared volume: put it under {mount}.")
        raise ConfigError(message.format(payload=payload, mount=mount_path))
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["python", "-m", "helpers.worker", payload],
        "resources": {"limits": limits},
        "volumeMounts": [{"name": "shared", "mountPath": mount_path}],
    }
    volume = {"name": "shared", "persistentVolumeClaim": {"claimName": pvc}}
    return {
        # If Istio runs, its sidecar would intercept the workers' traffic, and outlive them.
        "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
        "spec": {
            # All as one user, because the payload can be read only by its owner.
            "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER},
            "automountServiceAccountToken": False,  # training has no use for Kubernetes' API
            "containers": [container],
            "volumes": [volume],
        },
    }
