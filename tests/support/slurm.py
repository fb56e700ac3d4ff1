"""A Slurm of two nodes on this machine, from Debian's packages: slurmctld, slurmd, srun, munge.

Each node is a host of `TwoHosts`, with its own name, address and slurmd. The first one also has the
controller. As root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.two_hosts import TwoHosts
from tests.support.two_hosts import why_not as why_no_hosts

NODES = ("n1", "n2")
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "srun", "sbatch")
START_SECONDS = 30.0
# The node has its own name and /etc/hosts: by unshare(1), and `ip netns exec` for the mounts.
AS_NODE = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'
CONFIGURATION = """
ClusterName=lessons
SlurmctldHost=n1({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmctldTimeout=30
KillWait=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=n1 NodeAddr={controller} CPUs=2 RealMemory=1000
NodeName=n2 NodeAddr={other} CPUs=2 RealMemory=1000
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""


def why_not() -> str:
    """Why this machine cannot run Slurm, or an empty string."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} of slurmctld, slurmd, slurm-client and munge not installed"
    return why_no_hosts()


class Slurm:
    """Two nodes, n1 and n2, with two cores each. Leaving the block ends all their processes.

    Args:
      folder: for its configuration, state and logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts = TwoHosts()
        self._stack = ExitStack()

    def __enter__(self) -> Slurm:
        with self._stack as stack:
            stack.enter_context(self._hosts)
            self._configure()
            for node in NODES:
                (self._folder / f"spool-{node}").mkdir()
            self._start_munge(stack)
            self.run("n1", ["slurmctld", "-D"], stdout=subprocess.DEVNULL)
            for node in NODES:
                self.run(node, ["slurmd", "-D", "-N", node], stdout=subprocess.DEVNULL)
            self._wait()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def run(self, node: str, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts a program on a node."""
        as_node = ["unshare", "--uts", "sh", "-c", AS_NODE, "sh", node, str(self._file("hosts"))]
        environ = (
            os.environ | {"SLURM_CONF": str(self._file("slurm.conf"))} | options.pop("env", {})
        )
        return self._hosts.run(NODES.index(node), [*as_node, *command], env=environ, **options)

    def ask(self, *command: str, seconds: float = 300.0) -> str:
        """Returns the output of a command on the first node, including standard error."""
        with self.run(
            "n1", command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                return process.communicate(timeout=seconds)[0]
            finally:
                process.kill()

    def pids(self, node: str) -> set[int]:
        """The processes on a node."""
        return self._hosts.pids(NODES.index(node))

    def _file(self, name: str) -> Path:
        return self._folder / name

    def _configure(self) -> None:
        controller, other = self._hosts.address(0), self._hosts.address(1)
        text = CONFIGURATION.format(controller=controller, other=other, folder=self._folder)
        self._file("slurm.conf").write_text(text)
        # Set explicitly, because slurmd would detect it in /sys/fs/cgroup, which does not exist
        # here.
        self._file("cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._file("state").mkdir()
        self._file("hosts").write_text(f"127.0.0.1 localhost\n{controller} n1\n{other} n2\n")

    def _start_munge(self, stack: ExitStack) -> None:
        """Starts munge with the cluster's own key and socket. It listens on no network."""
        key = self._file("munge.key")
        subprocess.run(["mungekey", "--create", "--keyfile", str(key)], check=True)
        files = [
            f"--{name}-file={self._file(f'munge.{name}')}" for name in ("key", "log", "pid", "seed")
        ]
        socket = f"--socket={self._file('munge.socket')}"
        command = ["munged", "--foreground", "--force", *files, socket]
        munge = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(munge.wait)
        stack.callback(munge.kill)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.ask("sinfo", "--noheader", "-o", "%D %T").strip() != "2 idle":
            if time.monotonic() > deadline:
                raise TimeoutError(self._file("slurmctld.log").read_text()[-3000:])
            time.sleep(0.5)
