"""The search: Pagefind's index of the pages, and the words of its Chinese segmentation."""

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
SIGNATURE = b"pagefind_dcd"  # the start of each unpacked part of an index, before CBOR
WORDS = "words.js"  # the data of theme/static/search.js
SCRIPTS = ("pagefind.js", "pagefind-worker.js")
LONG, MANY_MORE = 4, 4  # a number of characters, and a factor of pages
CUTS = 'return["zh","ja","th"].includes(primaryLang)'


def write(project: Project, site: Path) -> None:
    """Builds the search of a site with finished pages, in its folder `pagefind`.

    Pagefind segments Chinese pages with one dictionary, and queries with the browser's dictionary.
    If these differ, it finds nothing, for example for 带宽
    (https://github.com/Pagefind/pagefind/issues/1237). So segmentation is disabled in its scripts,
    and theme/static/search.js segments queries into words of the index. It also replaces words of
    other translations by the course's words.

    Raises:
      ToolError: Pagefind failed, or its version is not supported.
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
                f"Pagefind's {name} has {CUTS!r} {script.count(CUTS)} times, not once. Check in "
                "tools/site/search.py whether this version still needs the replacement."
            )
        (folder / name).write_text(script.replace(CUTS, "return false"), "utf-8")


def _synonyms(project: Project) -> str:
    """Patterns of other words with the course's word, by language, as JavaScript."""
    found: dict[str, list[list[str]]] = {}
    for word in synonyms.read(project):
        pattern = word.pattern.replace(r"\w", r"[\p{L}\p{N}_]")
        found.setdefault(word.lang, []).append([pattern, word.course])
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _index(site: Path, folder: Path) -> None:
    """Builds Pagefind's index, which separates languages by the `lang` of each page.

    Pagefind links to headings with ids, but Sphinx sets the ids of the sections around headings. So
    Pagefind reads modified copies.
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
    """The Chinese words for segmentation, each with its number of pages in the index.

    Long words such as 工作进程 are omitted if they are whole on few pages and divided on many more.
    """
    import cbor2

    found: dict[str, int] = {}
    for path in sorted((folder / "index").glob("zh*.pf_index")):
        part = gzip.decompress(path.read_bytes()).removeprefix(SIGNATURE)
        [words] = cbor2.loads(part)
        found |= {word: len(pages) for word, pages, _variants in words if HAN.fullmatch(word)}

    @cache
    def cut(text: str) -> int:
        """The number of pages with the rarest part of a text, for its best segmentation."""
        cuts = range(1, len(text))
        return max((min(found.get(text[:k], 0), whole(text[k:])) for k in cuts), default=0)

    def whole(text: str) -> int:
        return max(found.get(text, 0), cut(text))

    return {
        word: count
        for word, count in sorted(found.items())
        if len(word) < LONG or cut(word) < MANY_MORE * count
    }
