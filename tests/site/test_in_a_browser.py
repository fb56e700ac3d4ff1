"""Every page of the built site, in a real Chromium: `make test-site`."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import matplotlib.image
import pytest

from tests.support import ROOT
from tests.support import browser as b
from tools.l10n import glossary
from tools.lessons.project import Project
from tools.site import check, postprocess
from tools.site.__main__ import SHARED_PATHS
from tools.site.language import build
from tools.site.tree import languages

pytest.importorskip("sphinx")
pytest.importorskip("pagefind")
from tests.support.axe import faults

pytestmark = [pytest.mark.site, *b.MARKS[1:]]

LANGUAGES = languages(Project.load(ROOT))
WIDE, NARROW = 1400, 400
HEAVIEST = 1_000_000  # bytes of a page, without the pictures of its notebook
WORDS = {
    "en": "gradient checkpoint restart heartbeat shard momentum evaluator bandwidth replica epoch",
    "ru": "градиентов воркеров контрольной реплика скорость сбой перезапуск эпоха пропускная шагов",
    "zh": "全局批次 检查点 参数服务器 梯度 工作进程 学习率 副本 数据集 重启 心跳 带宽 带宽和延迟",
    "ko": "체크포인트 그래디언트 복제본 워커 학습률 데이터 손실 배치 대역폭 파라미터",
    "es": "gradiente trabajadores réplica control época aprendizaje fallo reinicio banda lote",
}
CODE = ("docs/CLUSTERS", "exercises/04")  # pages on which every word of the code is checked
CODE_AS_TEXT = """() => {
    for (const code of document.querySelectorAll('pre')) code.textContent = code.textContent;
}"""
TOO_WIDE = """() => {
    const wide = document.documentElement.scrollWidth - window.innerWidth;
    if (wide <= 0) return '';
    const out = [...document.querySelectorAll('body *')].filter(
        one => one.getBoundingClientRect().right > window.innerWidth + 1);
    return `${wide} px: ` + out.slice(0, 3).map(one => one.outerHTML.slice(0, 120)).join(' | ');
}"""

FINDS = """([word, pages]) => {
    const message = document.querySelector('.pagefind-ui__message');
    const links = [...document.querySelectorAll('#mwl-search a')];
    return message?.textContent.includes(word)
        && links.some(link => pages.includes(link.href.split('#')[0]));
}"""
AT_THE_TOP = """name => {
    const top = document.querySelector(`#${name} h2`).getBoundingClientRect().top;
    return 0 <= top && top < 100;
}"""


@dataclass
class Look:
    """A tab, and the problems that occurred in it.

    Attributes:
      problems: errors of the console, error responses, and requests to other machines.
      weights: the bytes of every response, by its address.
    """

    tab: Any
    problems: list[str] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)

    def loaded(self, name: str) -> list[str]:
        """The responses whose addresses contain a name."""
        return [url for url in self.weights if name in url]


@contextmanager
def looking(browser: Any, **settings: Any) -> Iterator[Look]:
    context = browser.new_context(viewport={"width": WIDE, "height": 900}, **settings)
    context.set_default_timeout(b.SECONDS * 1000)
    with closing(context):
        look = Look(context.new_page())
        look.tab.on("console", lambda line: _note_line(look, line))
        look.tab.on("pageerror", lambda error: look.problems.append(str(error)))
        look.tab.on("request", lambda request: _note_request(look, request))
        look.tab.on("response", lambda response: _note_response(look, response))
        yield look


def _note_line(look: Look, line: Any) -> None:
    if line.type == "error":
        look.problems.append(line.text)


def _note_request(look: Look, request: Any) -> None:
    if not request.url.startswith(("http://127.0.0.1", "data:", "blob:")):
        look.problems.append(f"asks {request.url}")


def _note_response(look: Look, response: Any) -> None:
    if response.status >= 400:
        look.problems.append(f"{response.status}: {response.url}")
    look.weights[response.url] = int(response.headers.get("content-length", 0))


def pages(site: Path, language: str) -> list[str]:
    folder = site / language
    found = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.html"))]
    assert len(found) > 60
    return found


@pytest.mark.smoke
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_link_arrives_at_its_section(width: int, address: str, browser: Any) -> None:
    page = f"{address}/en/08_survive_failures.html"
    with looking(browser) as look:
        tab = look.tab
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(page)
        sections = tab.locator("[data-pagefind-body] > section > section").all()
        names = [one.get_attribute("id") for one in sections]
        assert len(names) > 10
        for name in names[::5]:
            tab.goto(f"{page}#{name}")
            b.soon(partial(tab.evaluate, AT_THE_TOP, name), f"the heading of {name} at the top")
        assert look.problems == []


@pytest.mark.smoke
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colors_do_not_wait_for_a_script_of_the_theme(
    scheme: str, address: str, browser: Any
) -> None:
    with looking(browser, color_scheme=scheme) as look:
        look.tab.route("**/scripts/*.js", lambda route: route.abort())
        look.tab.goto(f"{address}/en/01_train_on_two_workers.html")
        assert look.tab.evaluate("document.documentElement.dataset.theme") == scheme


def test_nothing_is_broken_and_the_languages_have_the_same_pages(site: Path) -> None:
    assert list(check.Site(site).problems()) == []
    assert {path.name for path in site.iterdir()} <= {*LANGUAGES, *SHARED_PATHS}
    names = {language: pages(site, language) for language in LANGUAGES}
    assert len(names) == 5
    assert all(found == names["en"] for found in names.values())


def test_without_an_address_nothing_speaks_of_one(site: Path) -> None:
    project = Project.load(ROOT)
    if project.site or project.repository:
        pytest.skip("there is one")
    assert not (site / "sitemap.xml").exists()
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert 'rel="canonical"' not in text and "hreflang" not in text.split("<body", 1)[0], path
        assert 'property="og:' not in text, path


def test_where_there_are_addresses_the_pages_name_them(tmp_path: Path) -> None:
    address, repository = "https://us.github.io/course", "https://github.com/Us/course"
    project = replace(Project.load(ROOT), repository=repository)
    assert build(project, "en", tmp_path / "site") == 0
    page = (tmp_path / "site" / "en" / "docs" / "README.html").read_text("utf-8")
    assert f'<link rel="canonical" href="{address}/en/docs/README.html"' in page
    assert f'hreflang="zh-CN" href="{address}/zh/docs/README.html"' in page
    assert f'href="{repository}/blob/main/LICENSE"' in page
    assert f'<meta property="og:image" content="{address}/pictures/preview-en.png">' in page
    assert '<meta name="description" content="Jupyter notebooks that start real worker' in page
    assert (tmp_path / "site" / "pictures" / "preview-en.png").is_file()
    listed = postprocess.sitemap(project, tmp_path / "site")
    assert f"<loc>{address}/en/docs/README.html</loc>" in listed
    assert "search.html" not in listed and "_static" not in listed


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_is_sound(language: str, site: Path, address: str, browser: Any) -> None:
    """English pages in both widths, light and dark; the others wide and light, or narrow and dark.

    For most code, axe sees one text, because thousands of colored words cost it a minute per page.
    """
    wrong: list[str] = []
    with looking(browser) as look:
        for number, name in enumerate(pages(site, language)):
            ways = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]
            if language != "en":
                ways = ways[number % 2 :][:1]
            for width, scheme in ways:
                look.tab.set_viewport_size({"width": width, "height": 900})
                look.tab.emulate_media(color_scheme=scheme)
                look.tab.goto(f"{address}/{language}/{name}")
                found = look.problems.copy()
                if not name.startswith(CODE):
                    look.tab.evaluate(CODE_AS_TEXT)
                found += [*faults(look.tab), *too_wide(look.tab)]
                look.problems.clear()  # axe requests style sheets from nonexistent paths
                wrong += [f"{name}, {width} px, {scheme}: {what}" for what in found]
        assert look.tab.context.cookies() == []
    assert not wrong, "\n".join(wrong)


def too_wide(tab: Any) -> list[str]:
    """The elements that make a page scroll sideways on a phone."""
    tab.set_viewport_size({"width": NARROW, "height": 900})
    return list(filter(None, [tab.evaluate(TOO_WIDE)]))


@pytest.mark.smoke
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_is_heavy(language: str, site: Path, address: str, browser: Any) -> None:
    heavy = []
    for name in pages(site, language):
        with looking(browser) as look:  # new, so that nothing is cached
            look.tab.goto(f"{address}/{language}/{name}")
            weight = sum(n for url, n in look.weights.items() if "/pictures/" not in url)
            assert weight > 100_000, "the weights are not seen"
            if weight > HEAVIEST:
                heavy.append(f"{name} weighs {weight:,} bytes")
    assert heavy == []


def plain(text: str) -> str:
    """Text as the search compares it: in lower case and without accents."""
    parts = unicodedata.normalize("NFD", text.lower())
    return "".join(part for part in parts if not unicodedata.combining(part))


@pytest.mark.smoke
@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_found_inside_of_sentences(language: str, address: str, browser: Any) -> None:
    asked, sections = WORDS[language].split(), set[str]()
    assert len(asked) >= 10
    with looking(browser) as look:
        for word in asked:
            look.tab.goto(f"{address}/{language}/search.html?q={word}")
            first = look.tab.locator("#mwl-search .pagefind-ui__result").first
            first.locator("mark").first.wait_for()
            marked = first.locator("mark").all_inner_texts()
            assert marked, word
            assert plain(word[:3]) in plain("".join(marked)), (word, marked)
            links = look.tab.locator("#mwl-search a").evaluate_all("all => all.map(a => a.href)")
            assert links and all(link.startswith(f"{address}/{language}/") for link in links), links
            sections |= {link for link in links if "#" in link}
        assert len(sections) > 10
        for link in sorted(sections)[::7]:
            look.tab.goto(link)
            fragment = link.partition("#")[2]
            assert look.tab.evaluate("id => !!document.getElementById(id)", unquote(fragment)), link
        assert look.problems == []


@pytest.mark.parametrize("language", ["zh", "ko"])
def test_every_term_of_the_glossary_is_found(
    language: str, site: Path, address: str, browser: Any
) -> None:
    """Terms are inside sentences without spaces. A search that misses their pages finds others."""
    texts = {name: (site / language / name).read_text("utf-8") for name in pages(site, language)}
    found_in = {
        word: {name for name, text in texts.items() if word in text}
        for term in glossary.load(ROOT / "locales" / "glossary.csv", language)
        if (word := re.sub(r"[(（].*", "", term.word).strip())
    }
    asked = {word: names for word, names in found_in.items() if names}
    assert len(asked) > 40
    with looking(browser) as look:
        look.tab.goto(f"{address}/{language}/search.html")
        for word, names in asked.items():
            look.tab.locator("#mwl-search input").fill(word)
            wanted = [f"{address}/{language}/{name}" for name in names]
            b.soon(partial(look.tab.evaluate, FINDS, [word, wanted]), f"a page with {word}")


def test_the_field_of_a_page_leads_to_the_search(address: str, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/exercises/index.html")
        look.tab.locator(".mwl-find input:visible").first.fill("heartbeat")
        look.tab.keyboard.press("Enter")
        look.tab.wait_for_url(re.compile(r"/en/search\.html\?q=heartbeat$"))
        look.tab.locator("#mwl-search .pagefind-ui__result").first.wait_for()


@pytest.mark.smoke
@pytest.mark.parametrize("language", [code for code in LANGUAGES if code != "en"])
def test_the_switch_keeps_the_page_and_the_section(
    language: str, address: str, browser: Any
) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/08_survive_failures.html")
        section = look.tab.locator("article section[id]").nth(5)
        wanted = section.get_attribute("id")
        section.evaluate("one => one.scrollIntoView()")
        _switch(look.tab, language)
        look.tab.wait_for_url(f"{address}/{language}/08_survive_failures.html#{wanted}")
        assert look.tab.locator(f"[id='{wanted}'] > h2").is_visible()
        # And back from a position in the address of the same language.
        look.tab.goto(f"{address}/{language}/glossary.html")
        alias = look.tab.locator("article section section > span[id]").nth(3)
        named, wanted = alias.get_attribute("id"), alias.locator("..").get_attribute("id")
        look.tab.goto(f"{address}/{language}/glossary.html#{named}")
        _switch(look.tab, "en")
        look.tab.wait_for_url(f"{address}/en/glossary.html#{wanted}")
        assert look.problems == []
        assert look.tab.context.cookies() == []


def _switch(tab: Any, language: str) -> None:
    """Like a user, because `click` would scroll the page before it clicks on a sticky header."""
    menu = tab.locator(".mwl-languages:visible").first
    for target in (menu.locator("summary"), menu.locator(f"a[href*='/{language}/']")):
        target.wait_for()
        box = target.bounding_box()
        tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


@pytest.mark.parametrize(("locale", "language"), [("ko-KR", "ko"), ("zh-TW", "zh"), ("fr", "")])
def test_the_first_page_leads_to_the_readers_language(
    locale: str, language: str, address: str, browser: Any
) -> None:
    with looking(browser, locale=locale) as look:
        look.tab.goto(f"{address}/")
        if language:
            look.tab.wait_for_url(f"{address}/{language}/index.html")
        else:
            assert look.tab.locator("main a").count() == len(LANGUAGES)
            assert faults(look.tab) == []


def test_the_first_page_works_without_javascript(address: str, browser: Any) -> None:
    with looking(browser, java_script_enabled=False) as look:
        look.tab.goto(f"{address}/")
        look.tab.get_by_text("español").click()
        look.tab.wait_for_url(f"{address}/es/index.html")
        menu = look.tab.locator(".mwl-languages:visible").first
        menu.locator("summary").click()
        menu.locator("a[hreflang='ru']").click()
        look.tab.wait_for_url(f"{address}/ru/index.html")


@pytest.mark.parametrize("system", ["light", "dark"])
def test_pictures_follow_the_theme_and_not_the_system(
    system: str, address: str, browser: Any
) -> None:
    with looking(browser, color_scheme=system) as look:
        look.tab.goto(f"{address}/en/01_train_on_two_workers.html")
        for theme in ("light", "dark"):
            look.tab.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            drawings = look.tab.locator(".mwl-drawing").all()[:3]
            assert len(drawings) == 3
            for picture in drawings:
                picture.scroll_into_view_if_needed()
                shot = matplotlib.image.imread(io.BytesIO(picture.screenshot()))
                paper = shot[..., :3].mean()
                assert paper > 0.8 if theme == "light" else paper < 0.3, (theme, paper)


def test_on_paper_there_is_no_navigation_and_no_code_is_cut(address: str, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/01_train_on_two_workers.html")
        look.tab.emulate_media(media="print")
        look.tab.set_viewport_size({"width": 700, "height": 900})
        for part in (
            ".bd-header",
            ".bd-sidebar-primary",
            ".bd-sidebar-secondary",
            ".prev-next-footer",
        ):
            assert look.tab.locator(part).count() > 0, part
            assert not look.tab.locator(part).first.is_visible(), part
        cut = look.tab.locator("article pre").evaluate_all(
            "all => all.filter(one => one.scrollWidth > one.clientWidth + 1).length"
        )
        assert look.tab.locator("article pre").count() > 20
        assert cut == 0
