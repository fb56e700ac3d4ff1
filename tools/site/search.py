"""The search: Pagefind's index of the pages, and the words that it cut the Chinese ones into."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.l10n import synonyms
from tools.lessons.project import Project, ToolError

SECTION = re.compile(r'<section id="([^"]*)">(\s*(?:<span id="[^"]*"></span>)*)<(h[1-6])')
HEADER_LINK = re.compile(r'<a class="headerlink"[^>]*>[^<]*</a>')
HAN = re.compile("[\u4e00-\u9fff]+")
SIGNATURE = b"pagefind_dcd"  # what each unpacked part of an index begins with; CBOR follows
WORDS = "words.js"  # what theme/static/search.js knows of words
SCRIPTS = ("pagefind.js", "pagefind-worker.js")
LONG, MANY_MORE = 4, 4  # characters; times as many pages
CUTS = 'return["zh","ja","th"].includes(primaryLang)'


def write(project: Project, site: Path) -> None:
    """Makes the search of a site whose pages are there, into its folder `pagefind`.

    Pagefind cuts Chinese pages into words by one dictionary, and what a reader asks by the
    browser's. If these disagree it finds nothing, 带宽 for one
    (https://github.com/Pagefind/pagefind/issues/1237). So its scripts are kept from cutting, and
    theme/static/search.js cuts into words that are in the index. It also replaces words of other
    translations by those of the course.

    Raises:
      ToolError: if Pagefind failed, or is not what this was written for.
    """
    folder = site / "pagefind"
    _index(site, folder)
    words = json.dumps(_chinese(folder), ensure_ascii=False, separators=(",", ":"))
    script = f"const INDEX_WORDS = {words};\nconst SYNONYMS = {_synonyms(project)};\n"
    (folder / WORDS).write_text(script, "utf-8")
    for name in SCRIPTS:
        script = (folder / name).read_text("utf-8")
        if script.count(CUTS) != 1:
            raise ToolError(
                f"Pagefind's {name} has {CUTS!r} {script.count(CUTS)} times, not once: see in "
                "tools/site/search.py what it is for, and whether this version still needs it."
            )
        (folder / name).write_text(script.replace(CUTS, "return false"), "utf-8")


def _synonyms(project: Project) -> str:
    """For each language, patterns of other words with the course's word, as JavaScript."""
    found: dict[str, list[list[str]]] = {}
    for word in synonyms.read(project):
        pattern = word.pattern.replace(r"\w", r"[\p{L}\p{N}_]")
        found.setdefault(word.lang, []).append([pattern, word.course])
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


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
        raise ToolError(f"The search could not be made:\n{done.stdout}{done.stderr}")


def _chinese(folder: Path) -> dict[str, int]:
    """The Chinese words to cut by, and on how many pages of the index each is.

    Without long ones that are whole on a few pages and cut on many more, as 工作进程 is.
    """
    import cbor2

    found: dict[str, int] = {}
    for path in sorted((folder / "index").glob("zh*.pf_index")):
        part = gzip.decompress(path.read_bytes()).removeprefix(SIGNATURE)
        [words] = cbor2.loads(part)
        found |= {word: len(pages) for word, pages, _variants in words if HAN.fullmatch(word)}

    @cache
    def cut(text: str) -> int:
        """On how many pages the rarest of its parts is, in the best way to cut a text in parts."""
        cuts = range(1, len(text))
        return max((min(found.get(text[:k], 0), whole(text[k:])) for k in cuts), default=0)

    def whole(text: str) -> int:
        return max(found.get(text, 0), cut(text))

    return {
        word: count
        for word, count in sorted(found.items())
        if len(word) < LONG or cut(word) < MANY_MORE * count
    }
