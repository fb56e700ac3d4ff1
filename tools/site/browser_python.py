"""The Python that runs in a browser: Pyodide, with the modules that experiments and exercises need.

Pyodide comes from npm, so the site needs no other host. Its core has no NumPy, and simulations need
none. The files are packed with gzip, because not every server compresses WebAssembly. The standard
library is reduced to the modules that the simulations import, and compiled.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tools.l10n import catalog
from tools.lessons.project import HELPERS, Project, ToolError

VERSION = "314.0.7"
PACKAGE = Path(sys.prefix) / "pyodide"  # where npm installs it
FOLDER = "python"  # within the site
PACKER = Path(__file__).with_name("pack_python.mjs")
WORKER = Path(__file__).with_name("theme") / "python" / "worker.mjs"
# Not .gz: some servers would declare such a file as compressed, and the browser would unpack it.
PACKED = ".packed"
LOADER, PROGRAM = "pyodide.mjs", ("pyodide.asm.mjs", "pyodide.asm.wasm")
LIBRARIES = "python_stdlib.zip", "course.zip"
LOCK = "pyodide-lock.json"
NOTICE = """Pyodide {version} (https://pyodide.org), Mozilla Public License 2.0, with the unchanged
source at https://github.com/pyodide/pyodide. It contains Python (https://python.org), PSF License.
"""


def write(project: Project, site: Path) -> None:
    """Writes the files of the browser's Python into a site.

    Raises:
      ToolError: npm or Node.js is missing or failed.
    """
    package, folder = install(), site / FOLDER
    folder.mkdir(exist_ok=True)
    pack(package, project.root, folder)
    for name in PROGRAM:
        write_packed(folder / name, (package / name).read_bytes())
    loader = (package / LOADER).read_text("utf-8")
    (folder / LOADER).write_text(loader.partition("//# sourceMappingURL")[0], "utf-8")
    shutil.copy(WORKER, folder)
    lock = json.loads((package / LOCK).read_text("utf-8"))
    (folder / LOCK).write_text(json.dumps({**lock, "packages": {}}), "utf-8")
    with zipfile.ZipFile(folder / LIBRARIES[1]) as course:
        modules = {name.replace(".pyc", ".py") for name in course.namelist()}
    for name in LIBRARIES:
        write_packed(folder / name, (folder / name).read_bytes())
        (folder / name).unlink()
    for lang in project.released:
        messages = catalog.read(project.catalog(HELPERS, lang), lang)
        used = (one for one in messages if one.id and modules & {file for file, _ in one.locations})
        content = catalog.compiled(catalog.from_messages(used, lang))
        write_packed(folder / f"{lang}.mo", content)
    (folder / "NOTICE.txt").write_text(NOTICE.format(version=VERSION), "utf-8")


def write_packed(path: Path, content: bytes) -> None:
    """Writes a file that the browser unpacks, with the suffix `PACKED` added to its name."""
    packed = path.with_name(path.name + PACKED)
    packed.parent.mkdir(parents=True, exist_ok=True)
    packed.write_bytes(gzip.compress(content, mtime=0))


def size(site: Path, lang: str) -> int:
    """The bytes that a browser loads to run Python in a language."""
    names = [*PROGRAM, *LIBRARIES, f"{lang}.mo"]
    paths = [site / FOLDER / f"{name}{PACKED}" for name in names]
    paths += [site / FOLDER / name for name in (LOADER, WORKER.name)]
    return sum(path.stat().st_size for path in paths if path.exists())


def install() -> Path:
    """The folder of the npm package, which is installed the first time.

    Raises:
      ToolError: npm is missing, or it failed.
    """
    package = PACKAGE / "node_modules" / "pyodide"
    manifest = package / "package.json"
    if manifest.exists() and json.loads(manifest.read_text("utf-8"))["version"] == VERSION:
        return package
    options = ["--silent", "--no-fund", "--no-audit", "--no-save", "--omit=optional"]
    _run(["npm", "install", *options, "--prefix", PACKAGE, f"pyodide@{VERSION}"])
    return package


def pack(package: Path, root: Path, folder: Path) -> None:
    """Writes `LIBRARIES`: the modules of the standard library and of the course, compiled.

    Raises:
      ToolError: Node.js is missing, or a simulation failed in its Python.
    """
    _run(["node", PACKER, package, root, folder])


def _run(command: Iterable[str | Path]) -> None:
    name, *arguments = map(str, command)
    # The environment of the site brings Node.js along, but need not be activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which(name, path=path)
    if program is None:
        raise ToolError(f"{name} is missing. Install Node.js, or build the site with: make site")
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise ToolError(f"{name} failed for the browser's Python:\n{done.stdout}{done.stderr}")
