"""Draws every figure in every language, and finds texts that do not fit.

    python -m tools.check_figures [--output .artefacts/pictures] [--lang en ru zh ko es]

A real Chromium draws them with its fonts, on a light and a dark sheet for each language, such as
figures-ru-dark.png. It is an error if a text is cut off by the edge of its drawing, leaves its box,
overlaps another text or a line, or has divided words. The error names the figure, the language and
the text.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from helpers.course import figures as f
from helpers.i18n import ENGLISH, language, languages, set_language
from tools.l10n import course_map
from tools.lessons import notebook
from tools.lessons.project import Project

ROOT = Path(__file__).resolve().parents[1]
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
PAPER = {"light": "#ffffff", "dark": "#111418"}  # background colors, by the system's color scheme
IMAGE = re.compile(r'<img [^>]*src="data:image/svg[^>]*>')
WIDTH = 1580  # of a sheet, in pixels, with two figures side by side

# In `helpers.course.figures.elements`, a room is a frame with its texts, and a way is a line that
# must not cross any text. A word divided by `text_metrics` contains U+2010. An image is opened
# first, because its content is not accessible. A browser's line of text is higher than its letters,
# whose height is about the font size.
MEASURE = """() => {
  const found = [];
  const note = (card, text, what) => found.push([card.dataset.name, text, what]);
  const boxed = r => ({left: r.left, right: r.right, top: r.top, bottom: r.bottom});
  const inside = (r, o) => r.left >= o.left - 1 && r.right <= o.right + 1
    && r.top >= o.top - 1 && r.bottom <= o.bottom + 1;
  const meet = (r, o) => Math.min(r.right, o.right) - Math.max(r.left, o.left) > 1
    && Math.min(r.bottom, o.bottom) - Math.max(r.top, o.top) > 1;
  const open = image => {
    const bytes = Uint8Array.from(atob(image.src.split(',')[1]), c => c.charCodeAt(0));
    const parsed = new DOMParser().parseFromString(
      new TextDecoder().decode(bytes), 'image/svg+xml').documentElement;
    parsed.querySelectorAll('style').forEach(style => style.remove());
    image.replaceWith(document.importNode(parsed, true));
  };
  const lines = card => {
    const walker = document.createTreeWalker(card, NodeFilter.SHOW_TEXT), all = [];
    while (walker.nextNode()) {
      const node = walker.currentNode, text = node.data.trim(), parent = node.parentElement;
      if (!text || parent.closest('style, script, title')) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const turn = parent.getScreenCTM?.() ?? {b: 0, c: 0, d: 1};
      const size = parseFloat(getComputedStyle(parent).fontSize) * Math.hypot(turn.c, turn.d);
      for (const rect of range.getClientRects()) {
        const lies = Math.abs(turn.b) < Math.abs(turn.d), r = boxed(rect);
        const spare = Math.max(0, ((lies ? rect.height : rect.width) - size) / 2);
        const [x, y] = lies ? [0, spare] : [spare, 0];
        all.push({text, parent, left: r.left + x, right: r.right - x,
          top: r.top + y, bottom: r.bottom - y});
      }
    }
    return all;
  };
  const points = way => {
    const matrix = way.getScreenCTM(), length = way.getTotalLength(), all = [];
    for (let at = 0; at <= length; at += 2)
      all.push(way.getPointAtLength(at).matrixTransform(matrix));
    return all;
  };
  for (const card of document.querySelectorAll('[data-name]')) {
    card.querySelectorAll('img[src^="data:image/svg+xml;base64"]').forEach(open);
    const texts = lines(card);
    if (!texts.length) note(card, '', 'is all there is: no text was found to measure');
    const ways = [...card.querySelectorAll('.mwl-way')].flatMap(points);
    texts.forEach((one, k) => {
      const room = one.parent.closest('.mwl-room');
      const edge = one.parent.closest('svg') || card;
      if (!inside(one, edge.getBoundingClientRect())) note(card, one.text, 'is cut off');
      if (one.text.endsWith('\u2010')) note(card, one.text, 'is a part of a divided word');
      if (room && !inside(one, room.firstElementChild.getBoundingClientRect()))
        note(card, one.text, 'leaves its box');
      for (const other of texts.slice(k + 1))
        if (meet(one, other)) note(card, one.text, `runs into ${JSON.stringify(other.text)}`);
      if (ways.some(p => p.x > one.left && p.x < one.right && p.y > one.top && p.y < one.bottom))
        note(card, one.text, 'has a line running through it');
    });
  }
  return found;
}"""

Shown = Iterator[tuple[str, str]]
"""The names and the HTML of the pictures, in the current language."""


class Problem(NamedTuple):
    """A text that does not fit."""

    name: str
    language: str
    text: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}, {self.language}: {self.text!r} {self.what}"


def figures() -> Shown:
    """Every figure with its default arguments, and with the arguments that leave the least room."""
    for draw, *choices in variants():
        for chosen in choices:
            values = ", ".join(f"{key}={value}" for key, value in chosen.items())
            yield f"{draw.__name__}({values})", draw(**chosen)._repr_html_()
    drawn = course_map.draw(Project.load(ROOT), language())
    yield "lesson_map(the course)", drawn._repr_html_()


def stored() -> Shown:
    """The pictures stored in the lessons."""
    project = Project.load(ROOT)
    for domain in project.notebooks:
        for cell in notebook.cells(notebook.read(project.notebook(domain, language())), "code"):
            for output in cell["outputs"]:
                html = "".join(output.get("data", {}).get("text/html", ""))
                for number, image in enumerate(IMAGE.findall(html)):
                    yield f"{domain}: {cell['id']}, {number}", image


SOURCES: Mapping[str, Callable[[], Shown]] = {"figures": figures, "stored": stored}
"""The contents of the sheets, by the start of their file names."""


def variants() -> Iterator[tuple[Any, ...]]:
    """Each figure, with arguments for it."""
    ring = [{"round": done} for done in (2, 4, 6)]
    for workers in (2, 3, 5, 6):
        last = 2 * (workers - 1) - 1
        ring += [{"workers": workers, "round": done} for done in (workers - 2, last)]
    yield f.synchronous_step, {}, {"workers": 6}
    yield f.sharding, {}, {"workers": 4, "examples": 16, "batch": 4}
    yield f.tf_config, {}, {"ps": 1}, {"workers": 5}, {"ps": 2}
    yield f.ring_all_reduce, {}, *ring
    yield f.parameter_servers, {}, {"workers": 4}
    late = {"steps": 20, "every": 9, "fails_after": 19, "workers": 4}
    yield f.restart, {}, late, {"steps": 20, "every": 3, "fails_after": 2}
    yield f.step_timeline, {}, {"workers": 6}
    yield f.batch_paths, {}


@contextmanager
def running_chromium() -> Iterator[Any]:
    """The system's browser in headless mode."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def problems(browser: Any, shown: Iterable[tuple[str, str]]) -> list[Problem]:
    """The texts that do not fit when a browser draws them.

    Args:
      browser: Playwright's Chromium.
      shown: names, with the HTML to measure.
    """
    with _page(browser, shown, "light") as page:
        return [
            Problem(name, language(), text, what) for name, text, what in page.evaluate(MEASURE)
        ]


def save_sheets(browser: Any, shown: Sequence[tuple[str, str]], folder: Path, name: str) -> None:
    """Writes the figures as two pictures, with a light and a dark background."""
    for mode in PAPER:
        with _page(browser, shown, mode) as page:
            page.screenshot(path=folder / f"{name}-{language()}-{mode}.png", full_page=True)


@contextmanager
def _page(browser: Any, shown: Iterable[tuple[str, str]], mode: str) -> Iterator[Any]:
    """A browser page with a sheet."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 800}, color_scheme=mode)
    page.set_content(_sheet(shown, mode))
    page.wait_for_function("[...document.images].every(image => image.complete)")
    yield page
    page.close()


def _sheet(shown: Iterable[tuple[str, str]], mode: str) -> str:
    cards = "".join(
        f"<figure><figcaption>{escape(name)}</figcaption>"
        f'<div data-name="{escape(name)}">{html}</div></figure>'
        for name, html in shown
    )
    return (
        f'<!DOCTYPE html><html lang="{language()}"><style>'
        f"body {{ background: {PAPER[mode]}; color: #888; font: 13px system-ui; margin: 8px; "
        f"display: flex; flex-wrap: wrap; align-items: start }} figure {{ margin: 10px }}"
        f"figcaption {{ margin-bottom: 4px }}</style>{cards}</html>"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_figures", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / ".artefacts" / "pictures")
    parser.add_argument("--lang", nargs="+", choices=languages(), default=languages())
    args = parser.parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    found = []
    with running_chromium() as browser:
        for lang in args.lang:
            set_language(lang)
            for name, source in SOURCES.items():
                shown = list(source())
                save_sheets(browser, shown, args.output, name)
                found += problems(browser, shown)
    set_language(ENGLISH)
    for problem in found:
        print(problem, file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
