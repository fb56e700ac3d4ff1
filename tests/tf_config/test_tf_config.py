from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.errors import ConfigError
from helpers.tf_config import EVALUATOR, PS, WORKER, Task, TFConfig, build_tf_configs, normalize_env

HOSTS = st.from_regex(r"[a-z][a-z0-9-]{0,10}(\.[a-z]{2,5})?", fullmatch=True)
ADDRESSES = st.builds("{}:{}".format, HOSTS, st.integers(1, 65535))


@st.composite
def clusters(draw: st.DrawFn) -> list[TFConfig]:
    addresses = draw(st.lists(ADDRESSES, min_size=1, max_size=8, unique=True))
    chief = draw(st.booleans()) and len(addresses) > 1
    ps = draw(st.integers(0, len(addresses) - 1 - int(chief)))
    return build_tf_configs(addresses, chief=chief, ps=ps, evaluator=draw(st.booleans()))


@given(clusters())
def test_what_is_built_can_be_written_and_read_back(configs: list[TFConfig]) -> None:
    for config in configs:
        assert TFConfig.parse(config.to_json()) == config


@given(clusters())
def test_every_process_has_its_own_task_and_the_same_cluster(configs: list[TFConfig]) -> None:
    assert len({config.task for config in configs}) == len(configs)
    assert len({json.dumps(dict(config.cluster)) for config in configs}) == 1
    members = [config for config in configs if config.task.type != EVALUATOR]
    assert [config.task for config in members] == configs[0].tasks
    assert len({config.address for config in members}) == len(members)


@given(clusters())
def test_exactly_one_process_is_the_chief(configs: list[TFConfig]) -> None:
    assert sum(config.task == config.chief for config in configs) == 1


@given(clusters())
def test_the_explanation_names_everyone_this_process_waits_for(configs: list[TFConfig]) -> None:
    for config in configs:
        text = config.explain()
        if config.task.type in (EVALUATOR, PS):
            assert "not wait for any" in text
            continue
        for other in config.tasks:
            if other.type == PS or PS not in config.cluster:
                assert f"{other} ({config.address_of(other)})" in text or other == config.task


@given(clusters())
def test_no_worker_beside_parameter_servers_is_said_to_wait_for_another(
    configs: list[TFConfig],
) -> None:
    """TensorFlow's device filters separate them: see the test with RunConfig."""
    for config in configs:
        if PS in config.cluster and config.task.type == WORKER:
            text = config.explain()
            others = [task for task in config.tasks if task.type == WORKER and task != config.task]
            assert not [task for task in others if f"{task} (" in text]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | ADDRESSES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cluster", "task", "type", "index", "worker", "chief", "ps"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
)


@given(JSON.map(json.dumps) | st.text())
def test_any_text_is_read_or_refused_with_a_message(text: str) -> None:
    try:
        config = TFConfig.parse(text)
    except ConfigError as error:
        assert len(str(error)) > 30
        assert str(error).rstrip()[-1] in ".)"
    else:
        assert config.explain()


def text_of(cluster: Any, task: Any = None) -> str:
    return json.dumps({"cluster": cluster, "task": task or {"type": "worker", "index": 0}})


ONE = {"worker": ["a:1"]}
MALFORMED = {
    "not JSON": ("{'cluster': 1}", "is not JSON"),
    "nested too deeply": ("[" * 100_000, "is not JSON"),
    "no object": ("[1]", "must be a JSON object"),
    "no task": (json.dumps({"cluster": ONE}), 'has no "task"'),
    "task without index": (text_of(ONE, {"type": "worker"}), 'needs both "type" and "index"'),
    "index out of range": (
        text_of(ONE, {"type": "worker", "index": 1}),
        "the last is 0",
    ),
    "negative index": (text_of(ONE, {"type": "worker", "index": -1}), "is -1"),
    "index that is no number": (
        text_of(ONE, {"type": "worker", "index": "x"}),
        "must be a whole number",
    ),
    "index true": (text_of(ONE, {"type": "worker", "index": True}), "must be a whole number"),
    "second evaluator": (
        text_of(ONE, {"type": "evaluator", "index": 1}),
        "tasks of job evaluator",
    ),
    "a type that is no name": (text_of(ONE, {"type": ["worker"], "index": 0}), "must be a name"),
    "task of a job that is not there": (
        text_of(ONE, {"type": "ps", "index": 0}),
        '"cluster" has only worker',
    ),
    "duplicate addresses": (text_of({"worker": ["a:1", "a:1"]}), "have the same address 'a:1'"),
    "duplicate across jobs": (
        text_of({"chief": ["a:1"], "worker": ["a:1"]}),
        "chief 0 and worker 0",
    ),
    "evaluator inside cluster": (
        text_of({**ONE, "evaluator": ["b:1"]}),
        'leave it out of "cluster"',
    ),
    "two chiefs": (text_of({"chief": ["a:1", "b:1"]}), "2 chiefs"),
    "the old name master": (text_of({"master": ["a:1"]}), 'old name of "chief"'),
    "unknown job": (text_of({"workers": ["a:1"]}), "job 'workers'"),
    "empty job": (text_of({"worker": []}), "is empty"),
    "cluster that is a list": (text_of(["a:1"]), "must map job names"),
    "addresses that are a string": (text_of({"worker": "a:1"}), "must be a list"),
    "no port": (text_of({"worker": ["a"]}), 'must be "host:port"'),
    "port that is no number": (text_of({"worker": ["a:x"]}), "port 'x'"),
    "port 0": (text_of({"worker": ["a:0"]}), "port '0'"),
    "port too large": (text_of({"worker": ["a:65536"]}), "port '65536'"),
    "a URL": (text_of({"worker": ["http://a:1"]}), "not a host name"),
    "IPv6 without brackets": (text_of({"worker": ["fe80::1:2222"]}), "Write [fe80::1]:port"),
    "every interface": (text_of({"worker": ["0.0.0.0:2222"]}), "means every interface"),
    "every interface of IPv6": (text_of({"worker": ["[::]:2222"]}), "means every interface"),
    "a variable": (text_of({"worker": ["$HOST:2222"]}), "variable that was not replaced"),
    "a placeholder": (text_of({"worker": ["<host>:2222"]}), "variable that was not replaced"),
    "no IP address": (text_of({"worker": ["10.0.0.300:2222"]}), "not a host name"),
    "brackets without IPv6": (text_of({"worker": ["[host]:2222"]}), "not a host name"),
    "same host in other letters": (text_of({"worker": ["a:1", "A:1"]}), "have the same address"),
    "a misspelt cluster": (
        json.dumps({"clusters": ONE, "task": {"type": "worker", "index": 0}}),
        "a key 'clusters' that TensorFlow ignores",
    ),
    "a misspelt task": (json.dumps({"Task": {"type": "worker", "index": 1}}), "a key 'Task'"),
    "a ps without cluster": (
        json.dumps({"task": {"type": "ps", "index": 0}}),
        'has no "cluster": this process would train alone',
    ),
    "a master without cluster": (
        json.dumps({"cluster": {}, "task": {"type": "master", "index": 0}}),
        'has no "cluster"',
    ),
    "an evaluator without cluster": (
        json.dumps({"task": {"type": "evaluator", "index": 0}}),
        "or a cluster of only the evaluator",
    ),
    "task null": (json.dumps({"task": None}), 'needs both "type" and "index"'),
    "the chief of dynamic workers": (
        json.dumps({"sparseCluster": {"worker": {}}, "task": {"type": "chief", "index": 0}}),
        "it lists no task",
    ),
    "sparse and not": (
        json.dumps({"sparseCluster": {}, "cluster": {}, "task": {"type": "chief", "index": 0}}),
        'both "cluster" and "sparseCluster"',
    ),
    "a sparse index that is no number": (text_of({"worker": {"one": "a:1"}}), "the index 'one'"),
    "a sparse index twice": (text_of({"worker": {"1": "a:1", "01": "b:1"}}), "the index '01'"),
    "a sparse index too large": (text_of({"worker": {"9" * 30: "a:1"}}), "from 0 to 99999"),
    "workers that train together": (
        text_of({"worker": {"1": "a:1"}}, {"type": "worker", "index": 1}),
        "does not list every worker from 0 to 1",
    ),
    "a sparse worker without itself": (
        text_of({"worker": {"1": "a:1"}, "ps": ["b:1"]}),
        "has no address for worker 0",
    ),
    "sparse parameter servers": (text_of({**ONE, "ps": {"1": "b:1"}}), "address of ps 0"),
    "an address that is a number": (text_of({"worker": [2222]}), "is 2222"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_each_mistake_has_a_message_of_its_own(name: str) -> None:
    text, expected = MALFORMED[name]
    with pytest.raises(ConfigError) as caught:
        TFConfig.parse(text)
    assert expected in str(caught.value)


def test_no_tf_config_is_a_process_alone() -> None:
    assert TFConfig.from_env({}) == TFConfig()
    assert "trains alone" in TFConfig().explain()


DYNAMIC = {"worker": {"3": "w:1"}, "ps": ["p:1", "q:1"]}


@pytest.mark.parametrize("key", ["cluster", "sparseCluster"])
def test_a_dynamic_worker_has_its_own_address_and_those_of_the_servers(key: str) -> None:
    task = Task("worker", 3)
    config = TFConfig.parse(json.dumps({key: DYNAMIC, "task": {"type": "worker", "index": 3}}))
    assert config.is_dynamic
    assert config.address == "w:1"
    assert config.tasks == [task, Task("ps", 0), Task("ps", 1)]
    assert "p:1" in config.explain() and "q:1" in config.explain()
    assert TFConfig.parse(config.to_json()) == config


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", None),
        ("{}", "{}"),
        (text_of(ONE), text_of(ONE)),
        (
            json.dumps({"sparseCluster": DYNAMIC, "task": {"type": "ps", "index": 0}}),
            text_of(DYNAMIC, {"type": "ps", "index": 0}),
        ),
    ],
)
def test_a_worker_hands_tensorflow_the_text_that_it_can_read(
    text: str, written: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    normalize_env()
    assert os.environ.get("TF_CONFIG") == written


def test_too_few_addresses_are_refused() -> None:
    with pytest.raises(ConfigError, match="too few"):
        build_tf_configs(["a:1"], chief=True, ps=1)


def test_an_index_written_as_text_is_read_as_tensorflow_reads_it() -> None:
    config = TFConfig.parse(text_of({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": "1"}))
    assert config.task == Task("worker", 1)


@pytest.mark.parametrize("chief", [False, True])
def test_tensorflows_own_resolver_agrees(chief: bool) -> None:
    configs = build_tf_configs(["a:1", "b:2", "c:3"], chief=chief, ps=1)
    script = (
        "import tensorflow as tf\n"
        "r = tf.distribute.cluster_resolver.TFConfigClusterResolver()\n"
        "print('>', r.task_type, r.task_id, r.cluster_spec().task_address(r.task_type, r.task_id))"
    )
    config = configs[1]
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TF_CONFIG": config.to_json()},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    expected = f"> {config.task.type} {config.task.index} {config.address}"
    assert expected in done.stdout


ALONE = {"cluster": {"evaluator": ["host:2222"]}, "task": {"type": "evaluator", "index": 0}}


def test_an_evaluator_may_have_a_cluster_of_its_own_as_the_guides_write_it() -> None:
    config = TFConfig.parse(json.dumps(ALONE))
    assert (config.cluster, config.task) == ({}, Task(EVALUATOR, 0))
    assert "is the evaluator" in config.explain()


def test_an_evaluator_among_others_or_at_no_address_is_a_mistake() -> None:
    for cluster in ({"evaluator": ["nowhere"]}, {"worker": ["a:1"], "evaluator": ["b:1"]}):
        with pytest.raises(ConfigError):
            TFConfig.parse(json.dumps({**ALONE, "cluster": cluster}))
