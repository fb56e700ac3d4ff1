"""The first import, as a reader on Windows sees it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers import i18n
from helpers.errors import PlatformError
from helpers.system import windows

# A Python that reports to be on Windows, and lacks the modules that Windows does not have.
FAKE = """
import os, sys
sys.platform = "win32"
for name in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios"):
    sys.modules[name] = None
"""


def on_windows(code: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if name != i18n.LANGUAGE}
    return subprocess.run(
        [sys.executable, "-c", FAKE + code],
        cwd=folder,
        env=kept | environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "code",
    [
        "import helpers",
        "from helpers import init, print_tr",
        "from helpers import LocalCluster",
        "import helpers.estimator",
        "import helpers.keras_3",
    ],
)
def test_the_first_import_leads_to_linux_inside_windows(code: str, tmp_path: Path) -> None:
    done = on_windows(code, tmp_path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("helpers.errors.PlatformError: ")
    assert "wsl --install" in last and "win32" in last
    assert "fcntl" not in done.stderr


def test_it_is_an_import_error_too(tmp_path: Path) -> None:
    code = "try:\n    import helpers\nexcept ImportError as error:\n    print(error)"
    assert "wsl --install" in on_windows(code, tmp_path).stdout


SPEAKS = """
try:
    import helpers
except ImportError:
    print(sys.modules["helpers.i18n"].language())
"""


@pytest.mark.parametrize(
    ("folder", "chosen", "language"),
    [
        ("notebooks/ru", "", "ru"),
        ("notebooks/zh/exercises", "", "zh"),
        ("notebooks/ru", "ko", "ko"),
        ("notebooks/en", "", "en"),
        ("ru/lessons/mine", "", "en"),
        ("mine", "tlh", "en"),
    ],
)
def test_it_speaks_the_language_of_the_notebook(
    folder: str, chosen: str, language: str, tmp_path: Path
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    done = on_windows(SPEAKS, tmp_path / folder, **{i18n.LANGUAGE: chosen})
    assert done.stdout.split() == [language], done.stderr


@pytest.mark.parametrize(
    ("number", "language"), [(0x0419, "ru"), (0x0C0A, "es"), (0x0409, "en"), (0x0411, "en")]
)
def test_else_it_speaks_that_of_windows(
    number: int, language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = SimpleNamespace(GetUserDefaultUILanguage=lambda: number)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    monkeypatch.setenv(i18n.LANGUAGE, "")
    monkeypatch.chdir(tmp_path)
    try:
        with pytest.raises(PlatformError):
            windows.raise_unsupported()
        assert i18n.language() == language
    finally:
        i18n.set_language(i18n.ENGLISH)
