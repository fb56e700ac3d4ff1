"""The experiments of the site in a real Chromium: operated by keys, and compared with CPython."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.course import simulations
from helpers.course.simulations import page
from helpers.i18n import set_language
from tests.site.test_in_a_browser import LANGUAGES, NARROW, WIDE, looking, too_wide
from tests.support import browser as b
from tests.support.axe import faults
from tools.site import browser_python, strings
from tools.site.experiments import CLASS

pytestmark = [pytest.mark.site, *b.MARKS[1:]]

LESSONS = {
    "03_train_with_keras_fit": ["sharding_policies"],
    "05_train_with_parameter_servers": ["staleness"],
    "08_survive_failures": ["checkpoint_interval"],
    "10_make_it_faster": ["learning_rate_and_batch", "ring_rounds", "step_cost"],
    "13_beyond_data_parallelism": ["memory_planner"],
}
WAYS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]
SETTINGS = 200
MAX_BYTES = 2_600_000
COMPUTE = """async ([address, language, name, all]) => {
    const worker = self.mwlWorker ??= new Worker(address, {type: 'module'});
    const module = 'helpers.course.simulations.page';
    const answer = positions => new Promise((resolve, reject) => {
        worker.onerror = event => reject(event.message);
        worker.onmessage = ({data}) => data.error ? reject(data.error) : resolve(data.value);
        worker.postMessage({id: 1, language, module, name: 'result', args: [name, positions]});
    });
    const found = [];
    for (const positions of all) found.push(await answer(positions));
    return found;
}"""
MOVES = """async root => {
    const slider = root.querySelector('input[type=range]');
    const picture = root.querySelector('.mwl-experiment-picture');
    const times = [];
    for (let k = 0; k < 30; k++) {
        const drawn = new Promise(resolve => {
            new MutationObserver((_, one) => { one.disconnect(); resolve(); })
                .observe(picture, {childList: true});
        });
        slider.value = (Number(slider.value) + 1) % (Number(slider.max) + 1);
        const start = performance.now();
        slider.dispatchEvent(new Event('input', {bubbles: true}));
        await drawn;
        times.push(performance.now() - start);
    }
    return times.sort((one, other) => one - other)[15];
}"""


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    yield
    set_language("en")


def experiment(tab: Any, name: str) -> Any:
    return tab.locator(f".{CLASS}[data-experiment={name}]")


def positions(root: Any) -> list[int]:
    """The positions of the inputs, as a reader sees them."""
    found = []
    for control in root.locator(".mwl-controls > *").all():
        if slider := control.locator("input[type=range]").all():
            found.append(int(slider[0].input_value()))
        else:
            radios = control.locator("input[type=radio]").all()
            found.append([one.is_checked() for one in radios].index(True))
    return found


def shows(root: Any, name: str) -> None:
    """Waits until the picture and the sentence are those of the inputs."""
    wanted = page.result(name, positions(root))
    sentence, picture = root.locator(".mwl-experiment-sentence"), root.locator("svg")
    b.soon(lambda: sentence.inner_text() == wanted["sentence"], wanted["sentence"])
    label = wanted["svg"].partition('aria-label="')[2].partition('"')[0]
    assert picture.get_attribute("aria-label") == label.replace("&#x27;", "'")


@pytest.mark.parametrize("lesson", LESSONS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_input_moves_the_picture(
    language: str, lesson: str, address: str, browser: Any
) -> None:
    """One key for each input, in both widths and color schemes. Later moves need Python."""
    assert set_language(language) == language
    with looking(browser) as look:
        tab = look.tab
        tab.goto(f"{address}/{language}/{lesson}.html")
        assert tab.locator(f".{CLASS}").count() == len(LESSONS[lesson])
        for width, scheme in WAYS:
            tab.set_viewport_size({"width": width, "height": 900})
            tab.emulate_media(color_scheme=scheme)
            for name in LESSONS[lesson]:
                root = experiment(tab, name)
                assert root.locator(".mwl-experiment-settings").is_hidden()
                for control in root.locator(".mwl-controls > *").all():
                    before = positions(root)
                    control.locator("input:checked, input[type=range]").first.focus()
                    at_end = before[0] and width == NARROW
                    tab.keyboard.press("ArrowLeft" if at_end else "ArrowRight")
                    shows(root, name)
                assert root.locator(".mwl-experiment-state").inner_text() == ""
            assert faults(tab, within=f".{CLASS}") == []
            assert too_wide(tab) == []
        look.problems[:] = [one for one in look.problems if "404" not in one]  # axe's style sheets
        assert look.problems == []


@pytest.mark.smoke
@pytest.mark.parametrize("name", simulations.__all__)
def test_the_page_computes_what_the_notebook_computes(
    name: str, site: Path, address: str, browser: Any
) -> None:
    """200 random settings in English, and a tenth of them in each other language."""
    chance = random.Random(name)
    counts = [len(one.values) for one in page.simulation(name).controls.values()]
    for language in LANGUAGES:
        set_language(language)
        number = SETTINGS if language == "en" else SETTINGS // 10
        chosen = [[chance.randrange(count) for count in counts] for _ in range(number)]
        with looking(browser) as look:
            look.tab.goto(f"{address}/{language}/search.html")
            worker = f"{address}/{browser_python.FOLDER}/{browser_python.WORKER.name}"
            found = look.tab.evaluate(COMPUTE, [worker, language, name, chosen])
        for one, own in zip(found, chosen, strict=True):
            assert one == page.result(name, own), (language, own)


@pytest.mark.smoke
def test_nothing_is_loaded_before_a_reader_touches_an_input(
    site: Path, address: str, browser: Any
) -> None:
    with looking(browser) as look:
        look.tab.goto(f"{address}/en/10_make_it_faster.html")
        look.tab.wait_for_load_state("networkidle")
        assert not [url for url in look.weights if f"/{browser_python.FOLDER}/" in url]
        root = experiment(look.tab, "step_cost")
        root.locator("input").first.focus()
        look.tab.keyboard.press("Home")
        shows(root, "step_cost")
        root.locator("input").nth(1).focus()
        look.tab.keyboard.press("Home")
        shows(root, "step_cost")
        assert look.tab.evaluate(MOVES, root.element_handle()) < 50
        assert look.loaded(browser_python.PROGRAM) and not look.loaded(browser_python.COMPLETE)
    assert 2_000_000 < browser_python.size(site, "ru") < MAX_BYTES


def test_without_javascript_an_experiment_is_a_picture_with_its_settings(
    address: str, browser: Any
) -> None:
    with looking(browser, java_script_enabled=False) as look:
        look.tab.goto(f"{address}/en/13_beyond_data_parallelism.html")
        root = experiment(look.tab, "memory_planner")
        assert root.locator("svg").is_visible()
        assert "Workers: 8" in root.locator(".mwl-experiment-settings").inner_text()
        assert not root.locator("input").first.is_visible()


def test_a_page_from_a_disk_shows_the_picture(site: Path, browser: Any) -> None:
    with looking(browser) as look:
        look.tab.goto((site / "en" / "13_beyond_data_parallelism.html").as_uri())
        root = experiment(look.tab, "memory_planner")
        assert root.locator("svg").is_visible()
        assert root.locator(".mwl-experiment-settings").is_visible()
        assert not root.locator("input").first.is_visible()


def test_a_failed_start_is_reported_and_the_next_move_tries_again(
    address: str, browser: Any
) -> None:
    with looking(browser) as look:
        broken = "**/python/course.zip.xz"
        look.tab.context.route(broken, lambda route: route.fulfill(status=503))
        look.tab.goto(f"{address}/en/10_make_it_faster.html")
        root = experiment(look.tab, "step_cost")
        state = root.locator(".mwl-experiment-state")
        for k in (0, 1):
            root.locator("input").nth(k).focus()
            look.tab.keyboard.press("ArrowRight")
        b.soon(lambda: state.inner_text() == strings.PYTHON_FAILED, "the reason")
        look.tab.context.unroute(broken)
        look.tab.keyboard.press("ArrowRight")
        shows(root, "step_cost")
        assert state.inner_text() == ""
