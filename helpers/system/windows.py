"""The error on Windows, which explains where the lessons run."""

from __future__ import annotations

import ctypes
import locale
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from helpers.errors import PlatformError
from helpers.i18n import LANGUAGE, _, languages, set_language


def raise_unsupported() -> NoReturn:
    """Raises PlatformError, in the reader's language."""
    set_language(_user_language())
    message = _(
        "The lessons start and stop processes in ways that Windows does not support "
        "(sys.platform={value!r}). Use Linux inside Windows. Open PowerShell as administrator, "
        "type `wsl --install`, and restart the machine. Then open Ubuntu from the Start menu, "
        "copy the folder of the lessons into it, and type `make jupyterlab` there."
    )
    raise PlatformError(message.format(value="win32"))


def _user_language() -> str:
    """The language that was set, or the language of the notebook's folder or of Windows."""
    known = languages()
    for name in _hints():
        code = name.replace("-", "_").partition("_")[0].lower()
        if code in known:
            return code
    return "en"


def _hints() -> Iterator[str]:
    yield os.environ.get(LANGUAGE, "")
    yield from reversed(Path.cwd().parts[-2:])  # notebooks/ru, or notebooks/ru/exercises
    with suppress(AttributeError):  # a process that only pretends to run on Windows
        windll: Any = ctypes.windll  # type: ignore[attr-defined,unused-ignore]
        yield locale.windows_locale.get(windll.kernel32.GetUserDefaultUILanguage(), "")
