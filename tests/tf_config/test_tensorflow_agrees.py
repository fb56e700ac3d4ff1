"""A `TF_CONFIG` that `TFConfig.parse` accepts means the same to both readers in TensorFlow."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from helpers.errors import ConfigError
from helpers.tf_config import CHIEF, EVALUATOR, PS, WORKER, TFConfig

TEXTS = 300
NO_CHIEF = 'must have one "chief" node'  # RunConfig without a strategy; with one, worker 0 is chief
GOOD = ["h0:2222", "h1:2222", "h2.example.com:2222", "10.0.0.3:2222", "[fe80::1]:2222", "h_5:1"]
BAD = ["::1:2222", "0.0.0.0:2222", "[::]:2222", "$HOST:2222", "http://h:1", "h", "h:0", "", 2222]
JOBS = [CHIEF, WORKER, WORKER, WORKER, PS, EVALUATOR, "master", "workers"]
KEYS = ["cluster"] * 26 + ["sparseCluster", "clusters", "Cluster", "cluster_spec"]
INDICES: list[Any] = [0, 0, 0, 1, 1, 2, "0", "1", -1, 1.0, True, None, "x"]
EXTRA = {"environment": "cloud", "rpc_layer": "grpc", "job": {"region": "r"}, "replica": 1}


def generate_text(draw: random.Random) -> str:
    """A `TF_CONFIG`. About half are right, the others have one or more common mistakes."""
    if draw.random() < 0.05:
        return draw.choice(["", " ", "{}", "null", "[]", "1", "{'cluster': {}}", '{"task": null}'])
    value: dict[str, Any] = {}
    if draw.random() < 0.85:
        value[draw.choice(KEYS)] = generate_cluster(draw)
    if draw.random() < 0.95:
        cluster = next(iter(value.values()), None)
        value[draw.choice(["task"] * 19 + ["tasks"])] = generate_task(draw, cluster)
    for key in draw.sample(sorted(EXTRA), draw.choice([0, 0, 0, 1, 2])):
        value[key] = EXTRA[key]
    return json.dumps(value)


def generate_cluster(draw: random.Random) -> Any:
    if draw.random() < 0.05:
        return draw.choice([None, [], {}, "h0:2222", {"worker": "h0:2222"}, {"worker": {}}])
    addresses: list[Any] = draw.sample(GOOD, len(GOOD))
    if draw.random() < 0.1:
        addresses[draw.randrange(3)] = draw.choice([*BAD, addresses[-1]])
    common = [{WORKER: 2}, {CHIEF: 1, WORKER: 2}, {CHIEF: 1, WORKER: 2, PS: 1}, {CHIEF: 1, PS: 1}]
    sizes = draw.choice(common)
    if draw.random() < 0.15:
        sizes = {draw.choice(JOBS): draw.randint(0, 2) for _ in range(draw.randint(1, 3))}
    cluster: dict[str, Any] = {}
    for job, size in sizes.items():
        cluster[job], addresses = addresses[:size], addresses[size:]
        if draw.random() < 0.2:
            first = draw.choice([0, 0, 1])
            cluster[job] = {str(first + k): each for k, each in enumerate(cluster[job])}
    return cluster


def generate_task(draw: random.Random, cluster: Any) -> Any:
    members = [
        {"type": job, "index": index}
        for job, tasks in (cluster if isinstance(cluster, dict) else {}).items()
        for index in range(len(tasks))
    ]
    if members and draw.random() < 0.85:
        return draw.choice([*members, {"type": EVALUATOR, "index": 0}])
    if draw.random() < 0.05:
        return draw.choice([{}, {"type": "worker"}, {"index": 0}, "worker", ["worker", 0]])
    return {"type": draw.choice([*JOBS, WORKER, CHIEF, PS]), "index": draw.choice(INDICES)}


def read_by_resolver() -> dict[str, Any]:
    """The content of the environment according to `TFConfigClusterResolver`."""
    from helpers.estimator import tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    cluster = resolver.cluster_spec().as_dict()
    return {"cluster": cluster, "task": (resolver.task_type, resolver.task_id)}


def read_by_estimator() -> dict[str, Any]:
    """The content of the environment according to `RunConfig`."""
    from helpers.estimator import tf

    config = tf.estimator.RunConfig()
    return {
        "cluster": config.cluster_spec.as_dict(),
        "task": (config.task_type, config.task_id),
        "chief": config.is_chief,
        "workers": config.num_worker_replicas,
        "ps": config.num_ps_replicas,
    }


def expected_of_resolver(config: TFConfig) -> dict[str, Any]:
    cluster = config.spec
    if config.task.type == EVALUATOR and not cluster:
        cluster = json.loads(config.to_json())["cluster"]
    return {"cluster": cluster, "task": (config.task.type, config.task.index)}


def expected_of_estimator(config: TFConfig) -> dict[str, Any]:
    evaluates = config.task.type == EVALUATOR  # not a member of the cluster
    return {
        "cluster": {} if evaluates else config.spec,
        "task": (config.task.type, config.task.index),
        "chief": config.task == config.chief and not evaluates,
        "workers": 0 if evaluates else sum(t.type != PS for t in config.tasks) or 1,
        "ps": 0 if evaluates else sum(t.type == PS for t in config.tasks),
    }


def compare(text: str, config: TFConfig, monkeypatch: pytest.MonkeyPatch) -> str:
    """Passes an accepted text to TensorFlow, and returns which of its readers agreed."""
    value = json.loads(text) if text.strip() else {}
    if not text.strip() or "sparseCluster" in value:  # the worker passes these on in another form
        text = "{}" if config == TFConfig() else config.to_json()
        value = json.loads(text)
    monkeypatch.setenv("TF_CONFIG", text)
    found, expected = read_by_resolver(), expected_of_resolver(config)
    if "task" not in value:
        expected["task"] = (None, None)  # the resolver leaves the default to the strategy
    if own := value.get("cluster", {}).get(EVALUATOR):
        expected["cluster"] = {EVALUATOR: list(own.values() if isinstance(own, dict) else own)}
    found["cluster"] = {job: tasks for job, tasks in found["cluster"].items() if tasks}
    assert found == expected, text
    try:
        read = read_by_estimator()
    except ValueError as error:
        assert NO_CHIEF in str(error), (text, error)
        assert CHIEF not in config.cluster, text
        return "resolver alone"
    read["cluster"] = {job: tasks for job, tasks in read["cluster"].items() if tasks}
    assert read == expected_of_estimator(config), text
    return "both"


def test_what_is_accepted_means_the_same_to_tensorflow_and_the_rest_has_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(34)
    outcomes: Counter[str] = Counter()
    reasons: set[str] = set()
    for _number in range(TEXTS):
        text = generate_text(draw)
        try:
            config = TFConfig.parse(text)
        except ConfigError as error:
            outcomes["refused"] += 1
            reasons.add(str(error)[:30])
            assert len(str(error)) > 40 and str(error).rstrip()[-1] in ".)", error
        else:
            outcomes[compare(text, config, monkeypatch)] += 1
            assert TFConfig.parse(config.to_json()) == config, text
    assert min(outcomes[kind] for kind in ("refused", "resolver alone", "both")) > 30, outcomes
    assert sum(outcomes.values()) == TEXTS


SINGLE = '{"cluster": {"chief": ["h0:1"]}, "task": {"type": "chief", "index": 0}}'


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        SINGLE,
        '{"cluster": {"chief": ["h0:1"], "worker": {"1": "h1:1"}, "ps": ["h2:1"]}, '
        '"task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": {"3": "h1:1"}, "ps": ["h2:1"]}, '
        '"task": {"type": "worker", "index": 3}}',
        '{"sparseCluster": {"worker": {"1": "h1:1"}, "ps": ["h2:1"]}, '
        '"task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": {}, "ps": ["h2:1"]}, "task": {"type": "ps", "index": 0}}',
        '{"cluster": {"worker": {"0": "h0:1", "1": "h1:1"}}, '
        '"task": {"type": "worker", "index": 1}}',
    ],
)
def test_the_forms_that_operators_write_are_read_as_tensorflow_reads_them(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(text, TFConfig.parse(text), monkeypatch)
