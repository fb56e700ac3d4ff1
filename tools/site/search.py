"""The search: Pagefind's index of the pages, and the words that it cut the Chinese ones into."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.lessons.project import LocalisationError

SECTION = re.compile(r'<section id="([^"]*)">(\s*(?:<span id="[^"]*"></span>)*)<(h[1-6])')
HEADER_LINK = re.compile(r'<a class="headerlink"[^>]*>[^<]*</a>')
HAN = re.compile("[\u4e00-\u9fff]+")
SIGNATURE = b"pagefind_dcd"  # what each unpacked part of an index begins with; CBOR follows
SCRIPTS = ("pagefind.js", "pagefind-worker.js")
CUTS = 'return["zh","ja","th"].includes(primaryLang)'


def write(site: Path) -> None:
    """Makes the search of a site whose pages are there, into its folder `pagefind`.

    Pagefind cuts Chinese pages into words by one dictionary, and what a reader asks by the
    browser's. Where these disagree it finds nothing, 带宽 for one
    (https://github.com/Pagefind/pagefind/issues/1237). So its scripts are kept from cutting, and
    theme/static/search.js cuts by the words that are in the index.

    Raises:
      LocalisationError: if Pagefind failed, or is not what this was written for.
    """
    folder = site / "pagefind"
    _index(site, folder)
    words = sorted(set(_chinese(folder)))
    (folder / "words.js").write_text(
        f"const INDEX_WORDS = {json.dumps(' '.join(words), ensure_ascii=False)};\n", "utf-8"
    )
    for name in SCRIPTS:
        script = (folder / name).read_text("utf-8")
        if script.count(CUTS) != 1:
            raise LocalisationError(
                f"Pagefind's {name} has {CUTS!r} {script.count(CUTS)} times, not once: see in "
                "tools/site/search.py what it is for, and whether this version still needs it."
            )
        (folder / name).write_text(script.replace(CUTS, "return false"), "utf-8")


def _index(site: Path, folder: Path) -> None:
    """Pagefind reads the pages, and keeps the languages apart by the `lang` of each.

    It leads to the headings that have ids; Sphinx gives these to the section around a heading. So
    it reads copies.
    """
    with TemporaryDirectory() as copies:
        for path in site.rglob("*.html"):
            copy = Path(copies) / path.relative_to(site)
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = HEADER_LINK.sub("", path.read_text("utf-8"))
            copy.write_text(SECTION.sub(r'<section>\2<\3 id="\1"', text), "utf-8")
        command = [sys.executable, "-m", "pagefind", "--site", copies]
        command += ["--output-path", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalisationError(f"The search could not be made:\n{done.stdout}{done.stderr}")


def _chinese(folder: Path) -> Iterator[str]:
    """The words of the Chinese index that are written in Chinese characters."""
    import cbor2

    for path in sorted((folder / "index").glob("zh*.pf_index")):
        part = gzip.decompress(path.read_bytes())
        for text in _texts(cbor2.loads(part.removeprefix(SIGNATURE))):
            if HAN.fullmatch(text):
                yield text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)
