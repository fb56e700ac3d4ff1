"""Writes the hashes of the Keras functions that `helpers.keras_3` replaces, or checks a release.

    python -m tools.keras_sources                    writes helpers/keras_3/tested_sources.py, for
                                                     the functions replaced in the installed Keras
    python -m tools.keras_sources 3.16.0             prints the functions that 3.16.0 has changed
    python -m tools.keras_sources keras-nightly      the same for the newest pre-release

pip downloads each release into a temporary folder, and it is not imported. The exit code is 1 if a
function has changed. Write the table only after `python -m benchmarks.keras_3` has passed with each
release in `RELEASES`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from helpers.keras_3 import versions

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "helpers" / "keras_3" / "tested_sources.py"
RELEASES = ("3.10.0", "3.11.3", "3.12.4", "3.13.2", "3.14.1", "3.15.1")
HEADER = '''"""Hashes of the tested sources of replaced functions.

`python -m tools.keras_sources` writes this module. Each function of
`helpers.keras_3.versions.REPLACED` is followed by hashes of its source, each with the first
release that has this source.
"""

# ruff: noqa: E501  # names cannot be wrapped

from __future__ import annotations

from collections.abc import Mapping

TESTED_SOURCES: Mapping[str, Mapping[str, str]] = {
'''


LOOK = """
import json, sys, types
import keras
def functions():
    found = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith("keras.src."):
            continue
        for key, value in vars(module).items():
            if getattr(value, "__module__", None) != name and isinstance(value, type):
                continue
            if isinstance(value, type):
                for attribute, method in vars(value).items():
                    if isinstance(method, types.FunctionType):
                        found[value, attribute] = method
            elif isinstance(value, types.FunctionType):
                found[name, key] = value
    return found
before = functions()
owners = {owner for owner, _name in before}
import helpers.keras_3
replaced = set()
for (owner, name), function in functions().items():
    original = before.get((owner, name))
    if function is original or owner not in owners:
        continue
    if original is None and isinstance(owner, type):  # it was inherited
        bases = (before.get((base, name)) for base in owner.__mro__[1:])
        original = next((base for base in bases if base), None)
    if original:
        replaced.add(f"{original.__module__}.{original.__qualname__}")
print(json.dumps(sorted(replaced)))
"""


def replaced() -> list[str]:
    """The names of the functions of the installed Keras that `helpers.keras_3` replaces."""
    environ = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def download(requirement: str, folder: Path) -> Path:
    """Unpacks a release of Keras from its wheel, and returns the folder that contains `keras`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--ignore-requires-python", "--only-binary=:all:", "--dest", str(folder)]
    pre = ["--pre"] if "nightly" in requirement else []
    subprocess.run([*command, *pre, requirement], check=True)
    [wheel] = folder.glob("*.whl")
    print(wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def table(found: Mapping[str, Mapping[str, str | None]]) -> str:
    """The source of the module `tested_sources`, with the hashes of each release."""
    lines = [HEADER]
    for name in sorted(next(iter(found.values()))):
        lines.append(f'    "{name}": {{\n')
        last = None
        for release, hashes in found.items():
            if hashes[name] not in (None, last):
                last = hashes[name]
                lines.append(f'        "{release.rpartition(".")[0]}": "{last}",\n')
        lines.append("    },\n")
    return "".join([*lines, "}\n"])


def main(arguments: list[str]) -> int:
    """Runs the command line, and returns the exit code."""
    found: dict[str, Mapping[str, str | None]] = {}
    changed: list[str] = []
    names = () if arguments else replaced()
    for release in arguments or RELEASES:
        requirement = release if release[0].isalpha() else f"keras=={release}"
        with tempfile.TemporaryDirectory() as folder:
            root = download(requirement, Path(folder))
            found[release] = versions.hashes(root, names)
            if arguments:
                changed += versions.changed_functions(root)
    for name in changed:
        print(f"changed: {name}")
    if arguments:
        print("nothing changed" * (not changed) or f"{len(changed)} functions have changed")
    else:
        TABLE.write_text(table(found), "utf-8")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
