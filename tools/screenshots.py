"""Creates the README's screenshots in `docs/pictures`, with JupyterLab in a real Chromium.

    python -m tools.screenshots [panel laboratory lesson] [--lang en ru]

The screenshots show the panel during a run and the fault-injection lab after a freeze, in each
language. They show new training runs, so they differ each time. Another one shows the stored lesson
1 in three scripts.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support import browser as b
from tools.lessons.project import SOURCE, Project

ROOT = Path(__file__).resolve().parents[1]
LESSON = "01_train_on_two_workers.ipynb"
DOCUMENTS, LANGUAGES = ROOT / "docs", [SOURCE, *Project.load(ROOT).languages]
SCRIPTS = ("ru", "zh", "ko")
MARGIN = 12  # pixels around a panel
SECONDS = 180
CELL = """
from helpers import init
from helpers.course.panel import Panel
init(lang="{lang}")
panel = Panel({choices})
panel
"""


def panel(browser: Any, lang: str, path: Path) -> None:
    """A screenshot of two workers in the middle of their second epoch."""
    with _panel(browser, lang, 'collective="RING", epochs=2') as tab:
        tab.locator(".mwl-run").click()
        b.soon(lambda: _step(tab) > 600, "a step of the second epoch", SECONDS)
        _shot(tab.locator(".mwl-panel"), path)


def laboratory(browser: Any, lang: str, path: Path) -> None:
    """A screenshot of a frozen worker and its report."""
    choices = 'fault_injection=True, collective="RING", scenario="pause"'
    with _panel(browser, lang, choices) as tab:
        tab.locator(".mwl-run").click()
        b.soon(lambda: tab.locator(".mwl-story li").count() > 0, "a story", SECONDS)
        b.soon(lambda: tab.locator(".mwl-run").is_enabled(), "the end of it", SECONDS)
        tab.wait_for_timeout(500)
        _shot(tab.locator(".mwl-laboratory"), path)


def lesson(browser: Any, path: Path) -> None:  # one picture for all languages
    """A picture of the stored first figure of lesson 1 in three scripts, side by side."""
    shots = []
    for lang in SCRIPTS:
        folder = ROOT / "notebooks" / lang
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / LESSON).write_bytes((folder / LESSON).read_bytes())
            with b.jupyterlab(Path(place)) as lab, b.page(browser, []) as tab:
                tab.set_viewport_size({"width": 900, "height": 1100})
                b.open_notebook(tab, lab, LESSON)
                tab.evaluate("window.jupyterapp.commands.execute('application:toggle-left-area')")
                figure = tab.locator(".jp-OutputArea img").first
                figure.evaluate("image => image.scrollIntoView({block: 'center'})")
                tab.wait_for_timeout(1000)
                shots.append(tab.locator(".jp-NotebookPanel-notebook").screenshot())
    with b.page(browser, []) as tab:
        tab.set_viewport_size({"width": 1560, "height": 700})
        images = "".join(
            f'<img width="500" src="data:image/png;base64,{base64.b64encode(shot).decode()}">'
            for shot in shots
        )
        tab.set_content(f'<div style="display:flex;gap:16px;padding:8px">{images}</div>')
        tab.locator("div").screenshot(path=path)
    downscale(path)


IN_EACH_LANGUAGE: Mapping[str, Callable[[Any, str, Path], None]] = {
    "panel": panel,
    "laboratory": laboratory,
}
SCREENSHOTS = (*IN_EACH_LANGUAGE, "lesson")


def _step(tab: Any) -> int:
    """The step that the first worker has reached."""
    bar = tab.locator(".mwl-bar").first
    return int(bar.get_attribute("aria-valuenow") or 0)


@contextmanager
def _panel(browser: Any, lang: str, choices: str) -> Iterator[Any]:
    """A page with a panel whose Run button is enabled."""
    with tempfile.TemporaryDirectory() as place:
        b.write_notebook(Path(place) / "panel.ipynb", CELL.format(lang=lang, choices=choices))
        with b.jupyterlab(Path(place)) as lab, b.page(browser, []) as tab:
            b.open_and_run(tab, lab, "panel.ipynb")
            b.soon(lambda: tab.locator(".mwl-run").is_enabled(), "an enabled Run button")
            yield tab


def _shot(element: Any, path: Path) -> None:
    """Stores a picture of an element with a margin."""
    element.scroll_into_view_if_needed()
    element.evaluate(f"element => element.style.padding = '{MARGIN}px'")
    element.screenshot(path=path)
    downscale(path)


def downscale(path: Path) -> None:
    """Reduces a picture of a page to 256 colors, including rare ones, without visible changes."""
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    few.save(path, optimize=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*SCREENSHOTS, []], help="the screenshots (default: all)"
    )
    parser.add_argument("--lang", nargs="+", default=LANGUAGES, choices=LANGUAGES)
    args = parser.parse_args(argv)
    names = args.names or SCREENSHOTS
    with b.running_chromium() as browser:
        for lang in args.lang:
            for name in (name for name in names if name in IN_EACH_LANGUAGE):
                IN_EACH_LANGUAGE[name](browser, lang, _path(name, lang))
        if "lesson" in names:
            lesson(browser, _path("lesson"))
    return 0


def _path(name: str, lang: str = SOURCE) -> Path:
    """The path of a picture."""
    path = DOCUMENTS / ("" if lang == SOURCE else lang) / "pictures" / f"{name}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    print(path)
    return path


if __name__ == "__main__":
    sys.exit(main())
