"""The image of the Dockerfile, and its containers as workers: `make test-docker`, as root."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.tf_config import build_tf_configs
from tests.support import images
from tests.support.images import Container, Image, why_not
from tests.support.two_hosts import TwoHosts
from tests.support.two_hosts import why_not as why_no_hosts

pytestmark = pytest.mark.docker
GB = 10**9
USER = 1000  # of the Dockerfile
CONTAINER_TIMEOUT = 240.0

# Written in the image itself, as in docs/CLUSTERS.md: the payload contains the functions.
WRITE_PAYLOAD = """
from helpers import estimator_job, input_fn, model_fn

params = {"batch_size": 64, "max_examples": 6400}
job = estimator_job(
    model_fn, input_fn, model_dir="/shared/model", steps=200, params=params, evaluate=None
)
job.save("/shared/payload.pkl")
"""


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    if reason := why_not():
        pytest.skip(reason)
    # Not tmp_path, because pytest keeps the last three and an image is large.
    with tempfile.TemporaryDirectory(prefix="image-") as folder, Image(Path(folder)) as built:
        yield built


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that belongs to the image's user, like the volume of a cluster."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    volume = tmp_path / "shared"
    volume.mkdir()
    subprocess.run(["chown", str(USER), str(volume)], check=True)
    return volume


def run_code(container: Container, shared: Path, code: str) -> str:
    return container.ask(["python", "-"], shared, textwrap.dedent(code))


@pytest.mark.smoke
def test_the_image_is_no_larger_than_its_packages_need(image: Image) -> None:
    assert image.container().size < 2.5 * GB


@pytest.mark.smoke
def test_two_containers_train_as_two_workers(image: Image, shared: Path) -> None:
    if reason := why_no_hosts():
        pytest.skip(reason)
    printed = run_code(image.container(), shared, WRITE_PAYLOAD)
    assert (shared / "payload.pkl").exists(), printed
    assert (shared / "payload.pkl").stat().st_uid == USER
    with TwoHosts() as hosts:
        configs = build_tf_configs([f"{hosts.address(host)}:2222" for host in (0, 1)])
        program = ["python", "-m", "helpers.worker", "/shared/payload.pkl"]
        logs = [shared / f"log-{host}" for host in (0, 1)]
        tasks = []
        for host, (config, log) in enumerate(zip(configs, logs, strict=True)):
            container = image.container(memory=2 * GB, cores=1)
            command = container.command(program, shared, TF_CONFIG=config.to_json())
            with log.open("w") as file:
                output = {"stdout": file, "stderr": subprocess.STDOUT}
                task = hosts.run(host, command, **output, preexec_fn=container.enter)
            tasks.append(task)
        codes = [task.wait(CONTAINER_TIMEOUT) for task in tasks]
    assert codes == [0, 0], [log.read_text()[-2000:] for log in logs]
    assert (shared / "model" / "model.ckpt-200.index").stat().st_uid == USER


def seconds_until_ready(command: list[str]) -> float:
    """Seconds from the start of a worker until it reports that it is ready to train."""
    began = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout
        printed = ""
        for line in process.stdout:
            printed += line
            if "ready at step" in line:
                took = time.monotonic() - began
                process.stdout.read()
                return took
    raise AssertionError(printed)


def test_a_worker_in_a_container_starts_as_one_outside_does(image: Image, shared: Path) -> None:
    """In turns. The additional time depends on the machine and is printed (`pytest -rP`)."""
    container, outside = image.container(), shared.parent / "outside"
    outside.mkdir()
    code = WRITE_PAYLOAD.replace("steps=200", "steps=1")
    run_code(container, shared, code)
    subprocess.run([sys.executable, "-c", code.replace("/shared", str(outside))], check=True)
    program = ["python", "-m", "helpers.worker", "/shared/payload.pkl"]
    bare = [sys.executable, *program[1:3], str(outside / "payload.pkl")]
    ratios = []
    for _turn in range(3):
        shutil.rmtree(shared / "model", ignore_errors=True)
        shutil.rmtree(outside / "model", ignore_errors=True)
        inside = seconds_until_ready(container.command(program, shared))
        ratios.append(inside / seconds_until_ready(bare))
    print("times a bare worker's:", *(f"{ratio:.2f}" for ratio in sorted(ratios)))


def test_a_container_has_the_memory_and_the_cores_that_it_is_given(
    image: Image, shared: Path
) -> None:
    container = image.container(memory=GB, cores=0.5)
    printed = run_code(
        container,
        shared,
        """
        from helpers import LocalCluster
        from helpers.errors import ConfigError
        from helpers.system import machine

        print("cores", machine.cores(), "free", machine.free_memory() <= 10**9)
        try:
            LocalCluster(workers=64)
        except ConfigError as error:
            print(error)
        """,
    )
    assert "cores 1 free True" in printed
    assert "workers=64" in printed and "memory" in printed, printed


def test_a_worker_that_takes_more_memory_than_its_container_has_is_named(
    image: Image, shared: Path
) -> None:
    printed = run_code(
        image.container(memory=2 * GB),
        shared,
        """
        from helpers import LocalCluster
        from helpers.errors import ClusterError

        def greedy(context):
            held = []
            while True:
                held.append(bytearray(b"x" * 10**8))

        with LocalCluster(workers=2, max_restarts=1) as cluster:
            try:
                cluster.run(greedy)
            except ClusterError as error:
                print(type(error).__name__, error)
        """,
    )
    assert "because memory ran out" in printed, printed


def test_where_isolation_is_refused_the_cluster_says_that_its_ports_are_open(
    image: Image, shared: Path
) -> None:
    printed = run_code(
        image.container(),
        shared,
        """
        import os
        from helpers import LocalCluster, input_fn, model_fn

        with LocalCluster(workers=2) as cluster:
            print(os.getuid(), cluster.run(os.getuid))
            params = {"batch_size": 64, "max_examples": 640}
            print(cluster.train(model_fn, input_fn, params=params, steps=5).warnings)
        """,
    )
    assert f"{USER} [{USER}, {USER}]" in printed, printed
    assert "ports are open to the network" in printed, printed


def test_where_no_container_can_be_given_limits_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container of version 2 with its own control groups, in which no such file exists."""
    monkeypatch.setattr(shutil, "which", lambda program: program)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(images, "CGROUP", tmp_path)
    monkeypatch.setattr(Path, "write_text", refuse)
    assert why_not().startswith("no container can be given limits here: [Errno 13]")
    assert not [*tmp_path.iterdir()], "a control group is left"


def refuse(path: Path, _text: str) -> int:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
