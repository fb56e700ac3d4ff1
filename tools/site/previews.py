"""What other sites show of a link to a page: a title, a description and a picture.

The names are those of the Open Graph protocol (https://ogp.me). Addresses in it are absolute, so
only a site with an address has them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from babel.core import get_global
from markupsafe import Markup
from PIL import Image, ImageOps

from tools.lessons.project import ToolError, read_text
from tools.site import pictures, strings
from tools.site.tree import Tree

SIZE = (1200, 630)  # pixels of a large preview
CENTER = (0.5, 0.62)  # of the part of the panel's picture: workers and curves, without the form
COLORS = 64
ENOUGH, LONGEST = 60, 200  # characters of a description


def tags(tree: Tree, path: str, title: str, text: str) -> str:
    """The elements of a page's head.

    Args:
      path: of the page in the site.
      title: as HTML.
      text: the description.
    """
    name = strings.translator(tree.project, tree.lang)(strings.NAME)
    text = text or name
    found = [("name", "description", text)]
    if site := tree.project.site:
        properties = {
            "type": "website",
            "site_name": name,
            "title": str(Markup(title).striptags()),
            "description": text,
            "locale": locale(tree.lang),
            "url": f"{site}/{path}",
            "image": f"{site}/{picture_name(tree.lang)}",
            "image:width": str(SIZE[0]),
            "image:height": str(SIZE[1]),
            "image:alt": _picture(tree)[1],
        }
        found += [("property", f"og:{key}", value) for key, value in properties.items()]
        found.append(("name", "twitter:card", "summary_large_image"))
    return "\n".join(
        f'<meta {kind}="{key}" content="{escape(value)}">' for kind, key, value in found
    )


def locale(lang: str) -> str:
    """A language with its most likely territory, such as "ko_KR"."""
    territory = get_global("likely_subtags")[lang].rpartition("_")[2]
    return f"{lang}_{territory}"


def description(texts: Iterable[str]) -> str:
    """The first texts that together have `ENOUGH` characters, cut after `LONGEST` of them."""
    words: list[str] = []
    for text in texts:
        words += text.split()
        if len(" ".join(words)) >= ENOUGH:
            break
    found = " ".join(words)
    if len(found) <= LONGEST:
        return found
    found = found[: LONGEST - 1]
    end = found.rfind(" ", LONGEST // 2)  # Chinese has no spaces between words
    return (found[:end] if end > 0 else found) + "…"


def picture_name(lang: str) -> str:
    """The path of a language's picture in the site."""
    return f"{pictures.FOLDER}/preview-{lang}.png"


def write_picture(tree: Tree, site: Path) -> None:
    """Writes the first picture of the README in the form of a preview.

    Raises:
      ToolError: the README has no picture.
    """
    target = site / picture_name(tree.lang)
    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(_picture(tree)[0]) as one:
        made = ImageOps.fit(one.convert("RGB"), SIZE, Image.Resampling.LANCZOS, centering=CENTER)
    made.quantize(COLORS).save(target, optimize=True)


def _picture(tree: Tree) -> tuple[Path, str]:
    """The file and the alternative text of the README's first picture."""
    readme = tree.pages["docs/README"].file
    first = pictures.IN_MARKDOWN.search(read_text(readme))
    if first is None:
        raise ToolError(f"{readme} has no picture, which previews of links need. Add one.")
    return readme.parent / first["path"], " ".join(first["alt"].split())
