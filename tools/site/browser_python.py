"""The Python that runs in a browser: Pyodide, with the modules that experiments and exercises need.

Pyodide comes from npm, so the site needs no other host. Its core has no NumPy, and simulations need
none. Few servers compress WebAssembly, so the files are compressed here. With xz, they are a
quarter smaller than with gzip. Browsers cannot read xz, so xz-decompress comes from npm as well.
The standard library is reduced to the modules that the simulations import, and compiled. The
program is reduced to the functions that simulations and answers call (reduced_program.py).
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.l10n import catalog
from tools.lessons import notebook
from tools.lessons.project import HELPERS, Project, ToolError
from tools.site import exercises, reduced_program

PYODIDE, XZ = "pyodide", "xz-decompress"
VERSIONS = {PYODIDE: "314.0.7", XZ: "0.2.3"}
PREFIX = Path(sys.prefix) / "pyodide"  # where npm installs them
FOLDER = "python"  # within the site
PACKER = Path(__file__).with_name("pack_python.mjs")
WORKER = Path(__file__).with_name("theme") / "python" / "worker.mjs"
# Not .gz: some servers would declare such a file as compressed, and the browser would unpack it.
PACKED = ".packed"
COMPRESSED = ".xz"
DICTIONARY = 1 << 24  # bytes that a browser needs to decompress; all of the largest file
LOADER, SCRIPT, PROGRAM = "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm"
COMPLETE = "pyodide.complete.wasm"  # the program for what the reduced one cannot do
DECOMPRESSOR = f"{XZ}.js"
LIBRARIES = "python_stdlib.zip", "course.zip"
LOCK = "pyodide-lock.json"
USAGE = "usage.json"  # what pack_python.mjs found out
NOTICE = """Pyodide {version} (https://pyodide.org), Mozilla Public License 2.0, with the unchanged
source at https://github.com/pyodide/pyodide. It contains Python (https://python.org), PSF License.
{program} lacks the functions that this site does not call; {complete} is unchanged.
xz-decompress {xz} (https://github.com/httptoolkit/xz-decompress), MIT License.
"""


def write(project: Project, site: Path) -> None:
    """Writes the files of the browser's Python into a site.

    Raises:
      ToolError: npm or Node.js is missing or failed.
    """
    packages, folder = install(), site / FOLDER
    package = packages / PYODIDE
    folder.mkdir(exist_ok=True)
    write_program(package, project, folder)
    loader = (package / LOADER).read_text("utf-8")
    (folder / LOADER).write_text(loader.partition("//# sourceMappingURL")[0], "utf-8")
    decompressor = (packages / XZ / "dist" / "package" / f"{XZ}.min.js").read_text("utf-8")
    # In a module, `this` is undefined at the top.
    (folder / DECOMPRESSOR).write_text(decompressor.replace("(this,", "(globalThis,"), "utf-8")
    shutil.copy(WORKER, folder)
    lock = json.loads((package / LOCK).read_text("utf-8"))
    (folder / LOCK).write_text(json.dumps({**lock, "packages": {}}), "utf-8")
    with zipfile.ZipFile(folder / LIBRARIES[1]) as course:
        modules = {name.replace(".pyc", ".py") for name in course.namelist()}
    for name in LIBRARIES:
        write_compressed(folder / name, (folder / name).read_bytes())
        (folder / name).unlink()
    for lang in project.released:
        messages = catalog.read(project.catalog(HELPERS, lang), lang)
        used = (one for one in messages if one.id and modules & {file for file, _ in one.locations})
        content = catalog.compiled(catalog.from_messages(used, lang))
        write_compressed(folder / f"{lang}.mo", content)
    notice = NOTICE.format(
        version=VERSIONS[PYODIDE], program=PROGRAM, complete=COMPLETE, xz=VERSIONS[XZ]
    )
    (folder / "NOTICE.txt").write_text(notice, "utf-8")


def write_program(package: Path, project: Project, folder: Path) -> None:
    """Writes `SCRIPT`, `PROGRAM`, `COMPLETE` and `LIBRARIES`.

    Raises:
      ToolError: Node.js is missing, or a simulation failed in its Python.
    """
    complete = (package / PROGRAM).read_bytes()
    with TemporaryDirectory() as temporary:
        counting, inputs = Path(temporary, "counting"), Path(temporary, "inputs")
        shutil.copytree(package, counting)
        inputs.mkdir()
        (counting / PROGRAM).write_bytes(reduced_program.counting(complete))
        for lang in project.released:
            content = catalog.compiled(catalog.read(project.catalog(HELPERS, lang), lang))
            (inputs / f"{lang}.mo").write_bytes(content)
        (inputs / "answers.json").write_text(json.dumps(_answers(project)), "utf-8")
        _run(["node", PACKER, counting, project.root, folder, inputs])
    usage = json.loads((folder / USAGE).read_text("utf-8"))
    (folder / USAGE).unlink()
    reduced = reduced_program.reduced(complete, set(usage["called"]), usage["unused"])
    script = reduced_program.without_unused_exports((package / SCRIPT).read_text("utf-8"))
    for name, content in ((PROGRAM, reduced), (COMPLETE, complete), (SCRIPT, script.encode())):
        write_compressed(folder / name, content)


def _answers(project: Project) -> list[tuple[str, str, str]]:
    """The arguments of `check_answer` for each task: without an answer, and with the solution."""
    folders = (project.root / "notebooks" / name for name in ("en/exercises", "solutions"))
    return [
        (exercises.task_of(cell), before, notebook.source(cell))
        for folder in folders
        for path in sorted(folder.glob("*.ipynb"))
        for cell, before in exercises.answer_cells(notebook.read(path))
    ]


def write_packed(path: Path, content: bytes) -> None:
    """Writes a file that any browser decompresses itself: gzip, with `PACKED` after its name."""
    packed = path.with_name(path.name + PACKED)
    packed.parent.mkdir(parents=True, exist_ok=True)
    packed.write_bytes(gzip.compress(content, mtime=0))


def write_compressed(path: Path, content: bytes) -> None:
    """Writes a file for the browser's Python, with `COMPRESSED` after its name."""
    method = {
        "id": lzma.FILTER_LZMA2,
        "preset": lzma.PRESET_DEFAULT | lzma.PRESET_EXTREME,
        "dict_size": DICTIONARY,
    }
    found = lzma.compress(content, check=lzma.CHECK_CRC32, filters=[method])
    path.with_name(path.name + COMPRESSED).write_bytes(found)


def size(site: Path, lang: str) -> int:
    """The bytes that a browser loads to run Python in a language."""
    names = [SCRIPT, PROGRAM, *LIBRARIES, f"{lang}.mo"]
    paths = [site / FOLDER / f"{name}{COMPRESSED}" for name in names]
    paths += [site / FOLDER / name for name in (LOADER, DECOMPRESSOR, WORKER.name)]
    return sum(path.stat().st_size for path in paths if path.exists())


def install() -> Path:
    """The folder of the npm packages, which are installed the first time.

    Raises:
      ToolError: npm is missing, or it failed.
    """
    packages = PREFIX / "node_modules"
    manifests = {name: packages / name / "package.json" for name in VERSIONS}
    found = {
        name: json.loads(path.read_text("utf-8"))["version"]
        for name, path in manifests.items()
        if path.exists()
    }
    if found != VERSIONS:
        options = ["--silent", "--no-fund", "--no-audit", "--no-save", "--omit=optional"]
        wanted = [f"{name}@{version}" for name, version in VERSIONS.items()]
        _run(["npm", "install", *options, "--prefix", PREFIX, *wanted])
    return packages


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
