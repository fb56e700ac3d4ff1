"""`python -m helpers.worker` as started by a user, a pod or Slurm, without a supervisor."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers.errors import ConfigError, DataError, PackageError
from helpers.i18n import set_language
from helpers.protocol.job import FunctionJob, Job, estimator_job
from helpers.system.ports import free_ports, without_proxies
from helpers.tf_config import TFConfig, build_tf_configs
from helpers.tf_config.slurm import config_from_slurm
from helpers.worker.checkpoints import resume_step
from helpers.worker.standalone import EXIT_RETRYABLE, EventLogger, StepWatchdog
from tests.support import ROOT
from tests.support.functions import PARAMS, tiny_input_fn, tiny_model_fn
from tests.support.processes import wait_until
from tests.support.two_hosts import TwoHosts, why_not

SECONDS = 120.0  # a limit for everything here, on a busy machine too


@dataclass
class Command:
    """A worker started as a command, whose output goes to a file."""

    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text()

    def wait(self, seconds: float = SECONDS) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it did not end within {seconds} s:\n{self.text()[-3000:]}")


@dataclass
class Hands:
    """Starts workers, and finally ends those that still run."""

    folder: Path
    commands: list[Command] = field(default_factory=list)

    def start(
        self,
        job: Job,
        variables: Mapping[str, str],
        *more: str,
        run: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
    ) -> Command:
        number = len(self.commands)
        path, log = self.folder / f"{number}.pkl", self.folder / f"{number}.log"
        job.save(path)
        environ = {
            name: value
            for name, value in without_proxies(os.environ).items()
            if not name.startswith("SLURM_")
        }
        with log.open("wb") as output:
            process = run(
                [sys.executable, "-m", "helpers.worker", str(path), *more],
                env={**environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.commands.append(Command(process, log))
        return self.commands[-1]

    def start_all(self, job: Job, configs: Sequence[TFConfig], *more: str) -> list[Command]:
        return [self.start(job, {"TF_CONFIG": each.to_json()}, *more) for each in configs]


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    hands = Hands(tmp_path)
    yield hands
    for command in hands.commands:
        if command.process.poll() is None:
            os.killpg(command.process.pid, signal.SIGKILL)
        command.process.wait()


def training(hands: Hands, steps: int, **options: Any) -> Any:
    return estimator_job(
        tiny_model_fn,
        tiny_input_fn,
        model_dir=str(hands.folder / "model"),
        steps=steps,
        params=PARAMS,
        save_checkpoints_steps=100,
        **options,
    )


def on_loopback(tasks: int, **roles: Any) -> list[TFConfig]:
    return build_tf_configs([f"127.0.0.1:{port}" for port in free_ports(tasks)], **roles)


def test_two_workers_started_as_two_commands_train_to_the_end(hands: Hands) -> None:
    first, second = hands.start_all(training(hands, 1000), on_loopback(2))
    assert [first.wait(), second.wait()] == [0, 0], first.text()
    for text in (first.text(), second.text()):
        assert text.index("waiting for the other workers") < text.index("ready at step 0")
    assert "training to step 1000, global batch 10" in first.text()
    assert "checkpoint of step 1000" in first.text()
    assert re.search(r"step 1000/1000, loss [\d.e-]+, [\d,]+ examples/s", second.text())
    assert re.search(r"evaluation of step 1000: error [\d.e-]+", first.text())
    assert "checkpoint" not in second.text().partition("step")[2]


def test_chief_worker_and_evaluator_each_do_their_part(hands: Hands) -> None:
    work = training(hands, 1000, evaluate="sidecar")
    commands = hands.start_all(work, on_loopback(2, chief=True, evaluator=True))
    assert [command.wait() for command in commands] == [0, 0, 0]
    chief, worker, evaluator = (command.text() for command in commands)
    assert "This process is chief 0" in chief
    assert "checkpoint of step 1000" in chief
    assert "step 1000/1000" in worker
    assert "evaluation of step 1000" in evaluator


ALONE = '{"cluster": {"evaluator": ["host:2222"]}, "task": {"type": "evaluator", "index": 0}}'


def test_an_evaluator_with_a_cluster_of_its_own_evaluates_what_others_have_saved(
    hands: Hands, tmp_path: Path
) -> None:
    """As in the guides. It cannot count the steps of an epoch that others read in shards."""
    folder = str(tmp_path / "model")
    work = functools.partial(
        estimator_job, tiny_model_fn, tiny_input_fn, params=PARAMS, model_dir=folder
    )
    for config in on_loopback(1):
        trained = hands.start(work(steps=20, evaluate=None), {"TF_CONFIG": config.to_json()})
    assert trained.wait() == 0
    steps = hands.start(work(steps=20, evaluate="sidecar"), {"TF_CONFIG": ALONE})
    epochs = hands.start(work(epochs=1, evaluate="sidecar"), {"TF_CONFIG": ALONE})
    assert steps.wait() == 0
    assert "evaluation of step 20" in steps.text()
    assert epochs.wait() != 0
    assert "Train with steps=" in epochs.text()


@pytest.mark.parametrize(
    ("victim", "number"),
    [
        pytest.param(1, signal.SIGKILL, id="killed worker", marks=pytest.mark.faults),
        pytest.param(0, signal.SIGKILL, id="killed chief", marks=pytest.mark.faults),
        pytest.param(1, signal.SIGSTOP, id="frozen worker", marks=pytest.mark.faults),
        pytest.param(0, signal.SIGSTOP, id="frozen chief", marks=pytest.mark.faults),
    ],
)
def test_when_one_worker_is_lost_the_other_ends_and_both_go_on_from_the_checkpoint(
    hands: Hands, victim: int, number: signal.Signals
) -> None:
    configs = on_loopback(2)
    commands = hands.start_all(training(hands, 1_000_000), configs, "--step-timeout", "6")
    assert wait_until(lambda: resume_step(str(hands.folder / "model")) >= 200, SECONDS)
    os.kill(commands[victim].process.pid, number)
    survivor = commands[1 - victim]
    assert survivor.wait(60) == EXIT_RETRYABLE, survivor.text()
    os.kill(commands[victim].process.pid, signal.SIGKILL)
    commands[victim].wait()

    done = resume_step(str(hands.folder / "model"))
    again = hands.start_all(training(hands, done + 500), configs)
    assert [command.wait() for command in again] == [0, 0]
    for command in again:
        assert f"ready at step {done}:" in command.text()


@pytest.mark.faults
def test_in_the_shells_loop_of_the_guide_a_killed_worker_comes_back_by_itself(hands: Hands) -> None:
    guide = (ROOT / "docs" / "CLUSTERS.md").read_text("utf-8")
    [loop] = re.findall(r"^    (until .*?done)$", guide, re.MULTILINE | re.DOTALL)
    typed = "python -m helpers.worker /shared/payload.pkl"
    assert typed in loop
    script = ["sh", "-c", loop.replace(typed, '"$@"'), "sh"]

    def in_loop(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*script, *command], **options)

    steps = 5000
    both = [
        hands.start(
            training(hands, steps),
            {"TF_CONFIG": config.to_json()},
            *("--step-timeout", "6"),
            run=in_loop,
        )
        for config in on_loopback(2)
    ]
    assert wait_until(lambda: resume_step(str(hands.folder / "model")) >= 200, SECONDS)
    [worker] = psutil.Process(both[1].process.pid).children()
    worker.kill()
    assert [command.wait(2 * SECONDS) for command in both] == [0, 0]
    for command in both:
        ready = [int(step) for step in re.findall(r"ready at step (\d+)", command.text())]
        assert ready[0] == 0
        assert ready[-1] >= 200
        assert f"step {steps}/{steps}" in command.text()


def test_before_the_first_step_a_worker_waits_for_its_peers_without_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    watch = StepWatchdog(lambda event, **fields: None, seconds=60)

    def sleep(seconds: float) -> None:
        ticks.append(seconds)
        if len(ticks) == 1000:
            assert not ended
            watch("step", step=1)
        if len(ticks) > 2000:
            pytest.fail("it still waits")

    ticks: list[float] = []
    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(os, "_exit", ended.append)
    watch.watch()
    assert ended == [EXIT_RETRYABLE]
    assert 1000 + 60 <= len(ticks) <= 1000 + 62


@pytest.mark.faults
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_on_two_hosts_a_lost_host_ends_the_other_worker_and_both_go_on_again(hands: Hands) -> None:
    with TwoHosts() as hosts:
        configs = build_tf_configs([f"{hosts.address(host)}:2222" for host in (0, 1)])

        def start_both(steps: int) -> list[Command]:
            work = training(hands, steps)
            return [
                hands.start(
                    work,
                    {"TF_CONFIG": config.to_json()},
                    *("--step-timeout", "6"),
                    run=functools.partial(hosts.run, host),
                )
                for host, config in enumerate(configs)
            ]

        first, _second = start_both(1_000_000)
        assert wait_until(lambda: resume_step(str(hands.folder / "model")) >= 200, SECONDS)
        hosts.kill(1)
        assert first.wait(60) == EXIT_RETRYABLE, first.text()

        done = resume_step(str(hands.folder / "model"))
        again = start_both(done + 300)
        assert [command.wait() for command in again] == [0, 0], again[0].text()
        for command in again:
            assert f"ready at step {done}:" in command.text()


def test_an_error_that_would_come_again_ends_with_1(hands: Hands) -> None:
    [command] = hands.start_all(FunctionJob(fail), on_loopback(1))
    assert command.wait() == 1
    assert "ValueError: no good" in command.text()


def fail() -> None:
    raise ValueError("no good")


def test_a_tf_config_that_cannot_be_read_ends_with_1_and_one_sentence(hands: Hands) -> None:
    command = hands.start(FunctionJob(fail), {"TF_CONFIG": "{"})
    assert command.wait() == 1
    assert "TF_CONFIG is not JSON" in command.text()
    assert "Traceback" not in command.text()


def test_the_result_of_a_function_is_printed(hands: Hands) -> None:
    command = hands.start(FunctionJob(answer), {})
    assert command.wait() == 0
    assert 'result: {"answer": 42}' in command.text()


def answer() -> dict[str, int]:
    return {"answer": 42}


def test_it_speaks_the_language_of_the_notebook_that_started_it(hands: Hands) -> None:
    set_language("ko")
    try:
        command = hands.start(FunctionJob(answer), {})
    finally:
        set_language("en")
    assert command.wait() == 0
    assert '결과: {"answer": 42}' in command.text()


def test_ctrl_c_ends_it(hands: Hands) -> None:
    [command] = hands.start_all(training(hands, 1_000_000), on_loopback(1))
    assert wait_until(lambda: "step 1" in command.text(), SECONDS)
    os.kill(command.process.pid, signal.SIGINT)
    assert command.wait(30) == -signal.SIGINT  # a shell reports 130


def slurm(
    rank: int, hosts: str = "n[1-2]", counts: str = "1(x2)", tasks: int = 2
) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "7001",
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_NODELIST": hosts,
        "SLURM_STEP_TASKS_PER_NODE": counts,
    }


def test_two_tasks_of_slurm_train_without_a_tf_config(hands: Hands) -> None:
    work = training(hands, 300)
    both = [hands.start(work, slurm(rank, "127.0.0.1", "2")) for rank in (0, 1)]
    assert [command.wait() for command in both] == [0, 0], both[0].text()
    assert "This process is worker 1" in both[1].text()
    assert "evaluation of step 300" in both[0].text()


def test_slurms_order_of_hosts_is_kept() -> None:
    config = config_from_slurm(slurm(2, "n[9-10],gpu01", "2,1(x2)", tasks=4))
    assert config is not None
    hosts = [address.partition(":")[0] for address in config.cluster["worker"]]
    assert hosts == ["n9", "n9", "n10", "gpu01"]
    assert len(set(config.cluster["worker"])) == 4
    assert config.address == config.cluster["worker"][2]


@pytest.mark.parametrize("variables", [{}, {"SLURM_STEP_NUM_TASKS": "1"}])
def test_one_task_alone_is_no_cluster(variables: dict[str, str]) -> None:
    assert config_from_slurm(variables) is None


@pytest.mark.parametrize(
    "change",
    [
        {"SLURM_PROCID": ""},
        {"SLURM_STEP_NODELIST": "n[1-"},
        {"SLURM_STEP_TASKS_PER_NODE": "1(x"},
        {"SLURM_STEP_TASKS_PER_NODE": "1"},
        {"SLURM_PROCID": "5"},
    ],
    ids=str,
)
def test_what_slurm_would_not_say_is_refused_with_a_message(change: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        config_from_slurm({**slurm(0), **change})


def test_of_many_steps_about_one_a_second_and_the_last_are_printed() -> None:
    lines: list[str] = []
    report = EventLogger(lines.append)
    report("run_info", total_steps=500, global_batch=64)
    for step in range(1, 501):
        report("step", step=step, loss=0.5, examples_per_second=None if step == 1 else 9800.4)
    report("heartbeat")
    plan, first, last = (line.partition(" ")[2] for line in lines)
    assert plan == "training to step 500, global batch 64"
    assert first == "step 1/500, loss 0.5"
    assert last == "step 500/500, loss 0.5, 9,800 examples/s"


@pytest.mark.parametrize("kind", [DataError, PackageError])
def test_an_error_that_explains_itself_is_told_in_a_sentence(
    hands: Hands, kind: type[Exception]
) -> None:
    def explain() -> None:
        raise kind("The file is damaged. Copy it again.")

    command = hands.start(FunctionJob(explain), {})
    assert command.wait() == 1
    assert "The file is damaged. Copy it again." in command.text()
    assert "Traceback" not in command.text()
