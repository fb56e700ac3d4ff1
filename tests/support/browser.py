"""Real JupyterLab, Notebook and Voila servers on loopback, and a real Chromium."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import ipywidgets  # type: ignore[import-untyped]
import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tests.support import ROOT

sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright

# Extensions that may be on the machine, and fail to load outside JupyterLab 4.6.
LAB_ONLY = ("@jupyter/nbgrader", "@jupyter-notebook/lab-extension", "jupyterlab_pygments")
# Every cell is in the page, visible or not, without dialogs and downloads.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
SHOTS = ROOT / ".artefacts"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
# Errors of other projects without consequences: from Notebook 7.6 when it opens any notebook, and
# from ipywidgets 7 when it searches for MathJax 2 to typeset a description.
KNOWN = ["(reading 'schema')"] + ["(reading 'Queue')"] * ipywidgets.__version__.startswith("7.")
SECONDS = 60
AS_IT_IS = (
    "from helpers import init",
    "WORKERS",
)  # how a lesson's set-up cells begin
KERNEL_IS_READY = """async () => {
    const app = window.jupyterapp;
    await app.restored;
    const panel = app.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
}"""
RUN_ALL = "void jupyterapp.commands.execute('notebook:run-all-cells')"


def chromium() -> str | None:
    """The browser's program, if it is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="Chromium is not installed"),
]


@contextmanager
def running_chromium() -> Iterator[Any]:
    """A browser without a window, for `page`."""
    with sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield program
        program.close()


def write_notebook(path: Path, *cells: str) -> None:
    """Writes a notebook of code cells."""
    _write(path, [nbformat.v4.new_code_cell(cell) for cell in cells])


def write_stored_notebook(path: Path, outputs: Sequence[Mapping[str, Any]]) -> None:
    """Writes a notebook that was run on another machine: cells with these outputs."""
    v4 = nbformat.v4
    cells = [
        v4.new_code_cell("...", execution_count=k, outputs=[v4.new_output("display_data", output)])
        for k, output in enumerate(outputs, 1)
    ]
    _write(path, cells)


def _write(path: Path, cells: list[Any]) -> None:
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, path)


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Serves `folder` in JupyterLab and yields the address, for `open_notebook`."""
    with _jupyter("jupyterlab", "LabApp", folder) as address:
        yield f"{address}/lab/workspaces/{{workspace}}/tree/"


@contextmanager
def notebook7(folder: Path) -> Iterator[str]:
    """Serves `folder` in Notebook and yields the address, for `open_notebook`."""
    with _jupyter("notebook", "JupyterNotebookApp", folder) as address:
        yield f"{address}/notebooks/"


@contextmanager
def voila(notebook: Path, folder: Path, *options: str) -> Iterator[str]:
    """Serves one notebook as a page and yields the address."""
    others = [f"--VoilaConfiguration.extension_denylist={name}" for name in LAB_ONLY]
    command = ["voila", "--Voila.ip=127.0.0.1", *others, *options, str(notebook)]
    with _server(command, folder) as address:
        yield address


@contextmanager
def page(browser: Any, problems: list[str], *, dark: bool = False) -> Iterator[Any]:
    """A new page without internet access, which appends console errors to `problems`."""

    def note(text: str) -> None:
        if not any(known in text for known in KNOWN):
            problems.append(text)

    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": 1280, "height": 1400}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(SECONDS * 1000)
    with closing(context):
        context.route(lambda url: "127.0.0.1" not in url, lambda route: route.fulfill(body=""))
        tab = context.new_page()
        tab.on("console", lambda line: note(line.text) if line.type == "error" else None)
        tab.on("pageerror", lambda error: note(error.stack or str(error)))
        try:
            yield tab
        except BaseException:
            save_shot(tab, f"failed-{round(time.time())}")
            raise


def shorten(lesson: Path, path: Path) -> None:
    """Copies a lesson up to its panel, without the code that trains before it."""
    notebook = nbformat.read(lesson, as_version=4)
    last = next(k for k, cell in enumerate(notebook.cells) if "Panel(" in cell.source)
    notebook.cells = notebook.cells[: last + 1]
    for cell in notebook.cells[:-1]:
        if cell.cell_type == "code" and not cell.source.startswith(AS_IT_IS):
            cell.source, cell.outputs = _preparation(cell.source), []
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    nbformat.write(notebook, path)


def _preparation(source: str) -> str:
    """The imports and functions of a cell, and the choice of the language."""
    source = TransformerManager().transform_cell(source)  # a line that begins with % is not Python
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    kept = [
        node
        for node in ast.parse(source).body
        if isinstance(node, kinds) or ast.unparse(node).startswith("init(")
    ]
    return "\n".join(ast.get_source_segment(source, node) or "" for node in kept)


def open_notebook(tab: Any, server: str, notebook: str) -> None:
    """Opens a notebook, alone on the page."""
    tab.goto(server.format(workspace=uuid.uuid4().hex) + notebook)
    tab.wait_for_function("window.jupyterapp?.shell?.currentWidget?.context")


def wait_for_kernel(tab: Any) -> None:
    """Waits until the kernel of the open notebook can run cells."""
    tab.evaluate(KERNEL_IS_READY)


def open_and_run(tab: Any, server: str, notebook: str) -> None:
    """Opens a notebook and runs all its cells."""
    open_notebook(tab, server, notebook)
    run_all(tab)


def run_all(tab: Any) -> None:
    """Runs all cells of the open notebook."""
    wait_for_kernel(tab)
    tab.evaluate(RUN_ALL)


def soon(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> float:
    """Polls until the condition holds, and returns the elapsed seconds."""
    start = time.monotonic()
    while not condition():
        took = time.monotonic() - start
        assert took < seconds, f"after {seconds} s not seen: {what}"
        time.sleep(0.03)
    return time.monotonic() - start


def save_shot(tab: Any, name: str) -> None:
    """Saves a screenshot of the page."""
    SHOTS.mkdir(exist_ok=True)
    tab.screenshot(path=SHOTS / f"{name}.png")


def write_settings(folder: Path, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes settings of JupyterLab's plugins to its settings folder."""
    for name, values in settings.items():
        file = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))


@contextmanager
def _jupyter(module: str, app: str, folder: Path) -> Iterator[str]:
    options = [f"--{app}.expose_app_in_browser=True", f"--ServerApp.root_dir={folder}"]
    options += ["--IdentityProvider.token=", "--ServerApp.ip=127.0.0.1", "--allow-root"]
    write_settings(folder / "jupyter" / "settings", SETTINGS)
    with _server([module, *options], folder) as address:
        yield address


@contextmanager
def _server(command: list[str], folder: Path) -> Iterator[str]:
    port = free_port()
    with open(folder / f"{command[0]}.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, f"--port={port}", "--no-browser"],
            cwd=folder,
            env=_environment(folder),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        soon(lambda: answers(port) or process.poll() is not None, f"{command[0]} on {port}")
        assert process.poll() is None, (folder / f"{command[0]}.log").read_text()[-3000:]
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and its kernels: first with SIGTERM, then with SIGKILL."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environment(folder: Path) -> dict[str, str]:
    """An environment without the user's own settings and kernels."""
    names = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    own = {f"JUPYTER_{name}": str(folder / "jupyter" / name.lower()) for name in names}
    own["JUPYTERLAB_SETTINGS_DIR"] = str(folder / "jupyter" / "settings")
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    return {**os.environ, **own, "IPYTHONDIR": str(folder / "ipython")}


def free_port() -> int:
    """Returns a port of loopback that is currently free."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def answers(port: int) -> bool:
    """Whether a server listens on the port."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
        return True
    return False
