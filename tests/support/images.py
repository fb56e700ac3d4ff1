"""The Dockerfile as an image, and its containers, by Debian's buildah and mmdebstrap. As root.

No image registry is used: the base is a Debian from the repository that apt uses. A container has
its own root, user and limits. The caller chooses its network.
"""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.processes import wait_until

PROGRAMS = ("mmdebstrap", "buildah")
PACKAGES = "python3,python3-pip,python3-venv,python-is-python3,ca-certificates"
NAME, BASE = "localhost/lessons:1", "localhost/base:1"
# The configuration with which pip finds packages on this machine and inside the build.
PIP_FILES = ("/etc/pip.conf", "/etc/ssl/certs")
CGROUP = Path("/sys/fs/cgroup")
PERIOD = 100_000  # microseconds
MIN_MEMORY = 2**20  # bytes, to detect whether there are limits
_numbers = itertools.count()


def why_not() -> str:
    """Why this machine cannot build images, or an empty string."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    if os.geteuid() != 0:
        return "only root may make containers with limits"
    try:
        Limits(MIN_MEMORY, 1.0).close()
    except OSError as error:
        # For example, in a container with its own control groups (Docker without --cgroupns=host).
        return f"no container can be given limits here: {error}"
    return ""


class Image:
    """The image, built as with `docker build`. Leaving the block removes all of it.

    Args:
      folder: for the image and its containers, some 12 GB.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Image:
        # Here, and not by the creator of the folder, because ordinary removal may fail on layers.
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        base = self._folder / "base.tar"
        debian = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}"]
        subprocess.run([*debian, "bookworm", str(base)], check=True)
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, str(base), "/")
        # Otherwise Debian's pip only installs into virtual environments.
        self.buildah("config", "--env", "PIP_BREAK_SYSTEM_PACKAGES=1", container)
        self.buildah("commit", "--quiet", "--rm", container, BASE)
        files = [f"--volume={path}:{path}:ro" for path in PIP_FILES if os.path.exists(path)]
        isolation = ["--isolation=chroot", f"--build-arg=BASE={BASE}", f"--tag={NAME}"]
        self.buildah("build", *isolation, *files, str(ROOT))
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def container(self, *, memory: int | None = None, cores: float | None = None) -> Container:
        """Starts a container with a limit of memory in bytes and of CPU time in cores."""
        made = Container(self, self.buildah("from", NAME), Limits(memory, cores))
        self._stack.callback(made.close)
        return made

    def buildah(self, *arguments: str) -> str:
        """Returns the output of a buildah command."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"buildah {' '.join(arguments)}: {(done.stdout + done.stderr)[-3000:]}")
        return done.stdout.strip()

    def command(self, *arguments: str) -> list[str]:
        """A buildah command that uses this image's own storage."""
        places = [f"--root={self._folder / 'root'}", f"--runroot={self._folder / 'run'}"]
        return ["buildah", *places, "--storage-driver=vfs", *arguments]


class Container:
    """One container of an image, in which programs run as the image's user."""

    def __init__(self, image: Image, name: str, limits: Limits) -> None:
        self._image = image
        self._name = name
        self._limits = limits
        self._started: list[subprocess.Popen[Any]] = []

    def command(self, program: Sequence[str], shared: Path, **environ: str) -> list[str]:
        """The command that starts a program in it. `shared` is its folder /shared."""
        variables = [f"--env={name}={value}" for name, value in environ.items()]
        options = ["--isolation=chroot", f"--volume={shared}:/shared", *variables]
        return [*self._image.command("run", *options, self._name, "--"), *program]

    def enter(self) -> None:
        """Applies its limits to this process, which is about to start a program in it."""
        self._limits.enter()

    def ask(self, program: Sequence[str], shared: Path, text: str = "", **environ: str) -> str:
        """Returns the output of a program that reads this text, including standard error."""
        with subprocess.Popen(
            self.command(program, shared, **environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=self.enter,  # noqa: PLW1509  # it writes a file, and no thread here has it
            text=True,
        ) as process:
            self._started.append(process)
            return process.communicate(text, timeout=300)[0]

    @property
    def size(self) -> int:
        """Bytes in its files."""
        root = self._image.buildah("mount", self._name)
        told = subprocess.run(
            ["du", "-sx", "--block-size=1", root], capture_output=True, check=True
        )
        self._image.buildah("umount", self._name)
        return int(told.stdout.split()[0])

    def close(self) -> None:
        """Ends its remaining processes. Its files are removed with the image's folder."""
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self._limits.close()


class Limits:
    """Control groups that limit a container's memory and cores, of version 1 or 2."""

    def __init__(self, memory: int | None, cores: float | None) -> None:
        name = f"lessons-{os.getpid()}-{next(_numbers)}"
        quota = None if cores is None else int(cores * PERIOD)
        limits = [
            (CGROUP / "memory" / name, "memory.limit_in_bytes", memory),
            (CGROUP / "cpu" / name, "cpu.cfs_quota_us", quota),
        ]
        if not all(group.parent.exists() for group, _file, _value in limits):
            limits = [(CGROUP / name, "memory.max", memory), (CGROUP / name, "cpu.max", quota)]
        self._groups = list(dict.fromkeys(group for group, _file, _value in limits))
        try:
            for group in self._groups:
                group.mkdir()
            for group, file, value in limits:
                if value is not None:
                    (group / file).write_text(str(value))
        except OSError:
            self.close()
            raise

    def enter(self) -> None:
        """Adds this process and all its future children."""
        for group in self._groups:
            (group / "cgroup.procs").write_text("0")

    def close(self) -> None:
        for group in self._groups:
            # A group whose last process has just ended is busy for a moment.
            if not wait_until(functools.partial(_removed, group), 10.0):
                raise TimeoutError(f"{group} has processes: {(group / 'cgroup.procs').read_text()}")


def _removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
