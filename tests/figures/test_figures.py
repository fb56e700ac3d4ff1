"""The figures of the ideas: they show the behavior of the algorithms, and nothing is cut off."""

from __future__ import annotations

import gettext
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import i18n
from helpers.course import figures
from helpers.course.charts.svg import Drawing
from helpers.course.figures.parameter_servers import asynchronous_steps
from helpers.course.figures.ring import rounds, state_after, transfers
from helpers.course.figures.sharding import by_range, by_shard, unsharded
from helpers.course.figures.text_metrics import SMALL, text_width, wrap
from helpers.errors import ConfigError
from helpers.tf_config import TFConfig
from tests.support import browser as b
from tools import check_figures

SVG = "{http://www.w3.org/2000/svg}"
PATHS = {"Keras": [f"lesson {k}" for k in range(9)], "Estimator": ["one", "two"]}

DRAWINGS: Mapping[str, Drawing] = {
    **{
        f"{draw.__name__}-{json.dumps(chosen)}": draw(**chosen)
        for draw, *choices in check_figures.variants()
        for chosen in choices
    },
    **{
        f"ring-{n}-{k}": figures.ring_all_reduce(n, k)
        for n in range(2, 7)
        for k in range(2 * n - 1)
    },
    "lesson_map-two": figures.lesson_map(PATHS, {"Estimator": "Keras"}, ["three", "four"]),
    "lesson_map-one": figures.lesson_map({"Keras": ["the only lesson of this path"]}),
}
every_drawing = pytest.mark.parametrize("drawing", DRAWINGS.values(), ids=DRAWINGS.keys())


def parsed(drawing: Drawing) -> ET.Element:
    return ET.fromstring(drawing.svg())


def shapes(
    element: ET.Element, x: float = 0, y: float = 0
) -> Iterator[tuple[ET.Element, float, float]]:
    """Yields every element with the offset of its groups."""
    if moved := re.fullmatch(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
        x, y = x + float(moved[1]), y + float(moved[2])
    yield element, x, y
    for child in element:
        yield from shapes(child, x, y)


def numbers(element: ET.Element, *names: str) -> list[float]:
    return [float(element.get(name, 0)) for name in names]


def along(path: str) -> Iterator[tuple[float, float]]:
    """The points of an SVG path, including the control points of its curves."""
    x = y = 0.0
    for command, text in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        values = [float(value) for value in re.findall(r"-?[\d.]+", text)]
        relative = command.islower()
        if command in "Hh":
            x = values[0] + x * relative
        elif command in "Vv":
            y = values[0] + y * relative
        for dx, dy in zip(values[::2], values[1::2], strict=False):
            assert command in "MmLlC"
            x, y = dx + x * relative, dy + y * relative
            yield x, y
        yield x, y


def corners(element: ET.Element) -> Iterator[tuple[float, float]]:
    """The outermost points of a shape."""
    kind = element.tag.removeprefix(SVG)
    if kind == "rect":
        x, y, width, height = numbers(element, "x", "y", "width", "height")
        yield from [(x, y), (x + width, y + height)]
    elif kind == "line":
        x1, y1, x2, y2 = numbers(element, "x1", "y1", "x2", "y2")
        yield from [(x1, y1), (x2, y2)]
    elif kind == "circle":
        x, y, r = numbers(element, "cx", "cy", "r")
        yield from [(x - r, y - r), (x + r, y + r)]
    elif kind == "path":
        yield from along(element.get("d", ""))
    elif kind == "text":
        x, y, size = numbers(element, "x", "y", "font-size")
        weight = int(element.get("font-weight", 400))
        width = text_width(element.text or "", size, weight)
        left = x - width * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor", "")]
        yield from [(left, y - 0.75 * size), (left + width, y + 0.22 * size)]
    else:
        assert kind in {"svg", "g"}, f"what is a {kind}?"


def texts(drawing: Drawing) -> list[str]:
    return [element.text or "" for element in parsed(drawing).iter(f"{SVG}text")]


@every_drawing
def test_a_figure_is_well_formed_and_says_in_words_what_it_shows(drawing: Drawing) -> None:
    root = parsed(drawing)
    assert ET.fromstring(drawing.standalone_svg()).get("aria-label") == root.get("aria-label")
    label = root.get("aria-label") or ""
    assert label == drawing.label
    assert repr(drawing) == f"Drawing({label})"
    assert "{" not in label
    assert len(label) > 30


@every_drawing
def test_nothing_is_outside_of_a_figure(drawing: Drawing) -> None:
    assert drawing.width <= 760
    assert drawing.height <= 420
    found = 0
    for element, x, y in shapes(parsed(drawing)):
        for corner_x, corner_y in corners(element):
            place = corner_x + x, corner_y + y
            found += 1
            assert -0.1 <= place[0] <= drawing.width + 0.1, ET.tostring(element)
            assert -0.1 <= place[1] <= drawing.height + 0.1, ET.tostring(element)
    assert found > 3


@every_drawing
def test_no_letter_is_smaller_than_11_pixels(drawing: Drawing) -> None:
    sizes = [float(text.get("font-size", 0)) for text in parsed(drawing).iter(f"{SVG}text")]
    assert min(sizes) >= 11


def test_every_figure_is_on_the_sheets() -> None:
    shown = dict(check_figures.figures())
    assert {name.partition("(")[0] for name in shown} == set(figures.__all__)
    assert all("data:image/svg+xml;base64," in html for html in shown.values())


# The ring.


@pytest.mark.parametrize("workers", range(2, 7))
def test_the_ring_holds_after_each_round_what_the_algorithm_gives(workers: int) -> None:
    """By a separate rule: part p starts at worker p, and visits one worker after the other."""
    whole = set(range(workers))
    for done in range(rounds(workers) + 1):
        state = state_after(workers, done)
        for worker, part in [(w, p) for w in range(workers) for p in range(workers)]:
            way = (worker - part) % workers  # the distance of the part from its start
            added = {(part + k) % workers for k in range(way + 1)} if way <= done else {worker}
            back = (worker - part + 1) % workers  # the same for the complete sum
            complete = done >= workers - 1 and back <= done - (workers - 1)
            assert sorted(state[worker][part]) == sorted(whole if complete else added)


@pytest.mark.parametrize("workers", range(2, 7))
def test_at_the_end_each_worker_has_the_sum_of_every_part(workers: int) -> None:
    values = [[10**worker * (part + 1) for part in range(workers)] for worker in range(workers)]
    total = [sum(column) for column in zip(*values, strict=True)]
    for held in state_after(workers, rounds(workers)):
        sums = [sum(values[worker][part] for worker in terms) for part, terms in enumerate(held)]
        assert sums == total


@pytest.mark.parametrize("workers", range(2, 7))
def test_each_worker_sends_two_times_n_minus_1_parts_of_n(workers: int) -> None:
    sent: Counter[int] = Counter()
    for done in range(rounds(workers)):
        moves = transfers(workers, done)
        assert all(move.receiver == (move.sender + 1) % workers for move in moves)
        sent.update(move.sender for move in moves)
    share = {Fraction(count, workers) for count in sent.values()}
    assert share == {Fraction(2 * (workers - 1), workers)}
    assert len(sent) == workers
    end = texts(figures.ring_all_reduce(workers, rounds(workers)))
    assert f"sent by each: {2 * (workers - 1)}/{workers} of the data" in " ".join(end)


def test_the_ring_shows_which_sum_travels() -> None:
    drawing = figures.ring_all_reduce(workers=4, round=2)
    assert {"2: a+c+d", "3: a+b+d", "0: a+b+c", "1: b+c+d"} <= set(texts(drawing))
    assert "worker 0: a, a, a+c+d, a+d" in drawing.label
    assert not [text for text in texts(figures.ring_all_reduce(4, 6)) if re.match(r"\d: ", text)]


# Workers and the age of the values that they use.


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_staleness_is_the_number_of_gradients_that_arrived_meanwhile(workers: int) -> None:
    steps = asynchronous_steps(workers)
    assert [step.met for step in steps] == list(range(len(steps)))
    arrivals = [step.end for step in steps]
    assert min(later - sooner for sooner, later in pairwise(arrivals)) >= 18
    for step in steps:
        before = sum(moment < step.start for moment in arrivals)
        meanwhile = sum(step.start < moment < step.end for moment in arrivals)
        assert (step.fetched, step.staleness) == (before, meanwhile)
    for worker in range(workers):
        own = [step for step in steps if step.worker == worker]
        assert all(one.end < next_.start for one, next_ in pairwise(own))
    drawn = texts(figures.parameter_servers(workers))
    shown = Counter(text for text in drawn if text.startswith("stale"))
    assert shown == Counter(f"stale by {step.staleness}" for step in steps)
    versions = [text for text in drawn if text.isdigit()]
    assert versions == [str(version) for version in range(len(steps) + 1)]


# Data that is read, work that is lost, and the configuration of a process.


@pytest.mark.parametrize("deal", [by_shard, by_range])
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_sharding_reads_each_example_once(
    deal: Callable[[int, int], Sequence[Sequence[int]]], workers: int
) -> None:
    for examples in range(4, 17):
        reading = deal(workers, examples)
        assert sorted(number for part in reading for number in part) == list(range(examples))
        assert max(map(len, reading)) - min(map(len, reading)) <= 1


def test_the_ways_of_sharding_differ_in_who_reads_what() -> None:
    assert [list(part) for part in by_shard(2, 6)] == [[0, 2, 4], [1, 3, 5]]
    assert [list(part) for part in by_range(2, 6)] == [[0, 1, 2], [3, 4, 5]]
    assert [list(part) for part in unsharded(2, 3)] == [[0, 1, 2]] * 2
    label = figures.sharding(workers=3, examples=6, batch=1).label
    assert "by shard: worker 0 reads 0, 3, worker 1 reads 1, 4" in label
    assert "each example 3 times" in label


@pytest.mark.parametrize(
    ("chosen", "saved", "lost"),
    [
        ({}, 8, "2 steps lost"),
        ({"fails_after": 8}, 8, "0 steps lost"),
        ({"fails_after": 9}, 8, "1 step lost"),
        ({"fails_after": 3}, 0, "3 steps lost"),
        ({"every": 1, "fails_after": 11}, 11, "0 steps lost"),
    ],
)
def test_steps_after_the_last_checkpoint_are_made_again(
    chosen: dict[str, int], saved: int, lost: str
) -> None:
    drawing = figures.restart(**chosen)
    counts = Counter(text for text in texts(drawing) if text.isdigit())
    twice = {int(step) for step, count in counts.items() if count == 4}  # in both workers
    failed = chosen.get("fails_after", 10)
    assert twice == set(range(saved + 1, failed + 1))
    assert set(counts.values()) <= {2, 4}
    assert lost in drawing.label
    assert lost in texts(drawing)


@pytest.mark.parametrize(("workers", "ps"), [(2, 0), (5, 0), (3, 1), (2, 2)])
def test_the_snippets_are_the_tf_config_of_each_process(workers: int, ps: int) -> None:
    drawing = figures.tf_config(workers, ps)
    columns: dict[float, str] = {}
    for element, x, _y in shapes(parsed(drawing)):
        if (element.text or "").strip("\u00a0")[:1] in {'"', "{"}:
            left = float(element.get("x", 0)) + x
            columns[left] = columns.get(left, "") + (element.text or "")
    configs = [TFConfig.parse(text.replace("\u00a0", " ")) for text in columns.values()]
    assert len({json.dumps(dict(config.cluster)) for config in configs}) == 1
    assert [config.task for config in configs] == configs[0].tasks
    jobs = Counter(config.task.type for config in configs)
    assert jobs == Counter({"worker": workers} | ({"ps": ps, "chief": 1} if ps else {}))


# The map.


@st.composite
def some_paths(draw: st.DrawFn) -> tuple[dict[str, list[str]], list[str]]:
    """Two paths of up to seven lessons each, and lessons on no path."""
    counts = [draw(st.integers(1, 7)), draw(st.integers(1, 7)), draw(st.integers(0, 2))]
    one, two, rest = (
        [f"lesson {k} of {kind}" for k in range(n)] for kind, n in zip("abc", counts, strict=True)
    )
    return {"Keras": one, "Estimator": two}, rest


@given(some_paths())
def test_the_lessons_of_a_map_do_not_overlap_and_stand_in_reading_order(
    course: tuple[dict[str, list[str]], list[str]],
) -> None:
    paths, rest = course
    drawing = figures.lesson_map(paths, {"Estimator": "Keras"}, rest)
    places = {}
    for element, x, y in shapes(parsed(drawing)):
        if element.get("class") == "mwl-room" and element[0].get("stroke"):
            left, top, width, height = numbers(element[0], "x", "y", "width", "height")
            name = " ".join(text.text or "" for text in element[1:])
            places[name] = (left + x, top + y, left + x + width, top + y + height)
    assert list(places) == [*paths["Keras"], *paths["Estimator"], *rest]
    for (x1, y1, x2, y2), (x3, y3, x4, y4) in combinations(places.values(), 2):
        assert min(x2, x4) <= max(x1, x3) or min(y2, y4) <= max(y1, y3)
    for lessons in paths.values():
        order = [(places[name][1], places[name][0]) for name in lessons]
        assert order == sorted(order)
    assert "then the Keras path" in drawing.label


# Letters.


@pytest.mark.parametrize(
    ("content", "room", "lines"),
    [
        ("all wait for the slowest", 90, ("all wait for", "the slowest")),
        ("等待最慢的工作进程，然后继续", 70, ("等待最慢的", "工作进程，", "然后继续")),
        ("가장 느린 워커를 기다림", 70, ("가장 느린", "워커를", "기다림")),
        ("reduce-scatter", 60, ("reduce-", "scatter")),
        ("entrenamiento", 60, ("entrena\u2010", "miento")),
        ("", 60, ()),
    ],
)
def test_a_text_breaks_where_its_language_does(
    content: str, room: float, lines: tuple[str, ...]
) -> None:
    assert wrap(content, room) == lines


@given(st.text("abc мж 等待，한 -", max_size=40), st.integers(50, 300))
def test_no_letter_is_lost_in_breaking_and_no_line_is_too_long(content: str, room: int) -> None:
    lines = wrap(content, room, SMALL)
    kept = re.sub(r"[\s\u2010]", "", "".join(lines))
    assert kept == re.sub(r"\s", "", content)
    assert all(text_width(line, SMALL) <= room + 1 for line in lines)


# Rejected with a message.


@pytest.mark.parametrize(
    ("draw", "chosen", "sentence"),
    [
        (
            figures.synchronous_step,
            {"workers": 1},
            r"workers=1 must be a whole number of at least 2\.",
        ),
        (figures.synchronous_step, {"workers": 7}, r"workers=7 is more .* at most 6\."),
        (figures.synchronous_step, {"workers": True}, "workers=True must be"),
        (figures.step_timeline, {"workers": 2.5}, r"workers=2\.5 must be"),
        (figures.step_timeline, {"workers": 7}, "at most 6"),
        (figures.sharding, {"workers": 5}, "workers=5 is more .* at most 4"),
        (figures.sharding, {"examples": 3}, "examples=3 must be a whole number of at least 4"),
        (figures.sharding, {"examples": 17}, "at most 16"),
        (figures.sharding, {"batch": 0}, "batch=0 must be"),
        (figures.sharding, {"workers": 3, "batch": 5}, "batch=5 is more .* at most 4"),
        (figures.tf_config, {"workers": 1}, "workers=1 must be"),
        (figures.tf_config, {"ps": 3}, "ps=3 is more .* at most 2"),
        (figures.tf_config, {"ps": -1}, "ps=-1 must be"),
        (figures.tf_config, {"workers": 4, "ps": 1}, "add up to 6 processes, including the chief"),
        (figures.ring_all_reduce, {"workers": 7}, "at most 6"),
        (figures.ring_all_reduce, {"workers": 3, "round": 5}, "round=5 is more .* at most 4"),
        (figures.ring_all_reduce, {"round": -1}, "round=-1 must be"),
        (figures.parameter_servers, {"workers": 1}, "workers=1 must be"),
        (figures.parameter_servers, {"workers": 5}, "at most 4"),
        (figures.restart, {"steps": 21}, "steps=21 is more"),
        (figures.restart, {"every": 0}, "every=0 must be"),
        (figures.restart, {"every": 13}, "every=13 is more .* at most 12"),
        (figures.restart, {"fails_after": 12}, "fails_after=12 is more .* at most 11"),
        (figures.restart, {"fails_after": 0}, "fails_after=0 must be"),
        (figures.restart, {"workers": 5}, "workers=5 is more"),
        (figures.lesson_map, {"paths": {}}, "lessons=0 must be"),
        (figures.lesson_map, {"paths": {"a": ["b"] * 17}}, "lessons=17 is more"),
        (figures.lesson_map, {"paths": {"a": ["b"]}, "then": {"a": "c"}}, "c are not paths"),
    ],
)
def test_what_a_figure_cannot_show_is_refused(
    draw: Callable[..., Drawing], chosen: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        draw(**chosen)


# In a browser.


class Longer(gettext.NullTranslations):
    """A language whose words are 40 % longer."""

    def gettext(self, message: str) -> str:
        return re.sub(r"\{[^}]*\}|[^\W\d_]+", lambda found: self._longer(found[0]), message)

    def ngettext(self, singular: str, plural: str, n: int) -> str:
        return self.gettext(singular if n == 1 else plural)

    @staticmethod
    def _longer(word: str) -> str:
        return word if word.startswith("{") else word + word[: math.ceil(0.4 * len(word))]


class TestInABrowser:
    pytestmark = b.MARKS

    @pytest.mark.parametrize("language", ["en", "zh", "longer"])
    def test_every_text_fits(
        self, browser: Any, language: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if language == "longer":
            monkeypatch.setattr(i18n, "_translations", Longer())
            assert i18n._("worker {number}") == "workerwor {number}"
        else:
            i18n.set_language(language)
        found = check_figures.problems(browser, check_figures.figures())
        i18n.set_language("en")
        assert not found, "\n".join(map(str, found))

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ('<text x="90" y="20">too long</text>', "'too long' is cut off"),
            (
                '<text x="5" y="20">one</text><text x="12" y="22">two</text>',
                "'one' runs into \"two\"",
            ),
            (
                '<g class="mwl-room"><rect width="20" height="30"/>'
                '<text x="2" y="20">leaving</text></g>',
                "'leaving' leaves its box",
            ),
            (
                '<text x="5" y="20">struck</text><path class="mwl-way" d="M0 16 H90"/>',
                "'struck' has a line running through it",
            ),
            ('<text x="5" y="20">divi\u2010</text>', "is a part of a divided word"),
            ('<rect width="20" height="30"/>', "no text was found"),
        ],
    )
    def test_a_text_that_does_not_fit_is_found(self, browser: Any, body: str, problem: str) -> None:
        faulty = Drawing(100, 40, body, "a fault")
        sound = Drawing(100, 40, '<text x="5" y="20">sound</text>', "no fault")
        shown = [("sound", sound.svg()), ("faulty", faulty.svg())]
        [found] = check_figures.problems(browser, shown)
        assert problem in str(found)
        assert str(found).startswith("faulty, en: ")

    def test_it_is_found_in_an_image_too(self, browser: Any) -> None:
        drawing = Drawing(100, 40, '<text x="110" y="20">cut</text>', "a fault")
        [found] = check_figures.problems(browser, [("image", drawing._repr_html_())])
        assert str(found) == "image, en: 'cut' is cut off"

    def test_the_program_writes_a_sheet_for_each_paper_and_fails_on_a_fault(
        self,
        browser: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(check_figures, "running_chromium", lambda: nullcontext(browser))
        faulty = Drawing(60, 40, '<text x="50" y="20">clipped</text>', "a fault")
        drawn = [("sound", figures.batch_paths().svg())]
        monkeypatch.setattr(check_figures, "SOURCES", {"few": lambda: iter(drawn)})
        arguments = ["--output", str(tmp_path / "new"), "--lang", "en", "ko"]
        assert check_figures.main(arguments) == 0
        sheets = sorted(path.name for path in (tmp_path / "new").iterdir())
        assert sheets == [
            f"few-{lang}-{mode}.png" for lang in ("en", "ko") for mode in ("dark", "light")
        ]
        drawn.append(("faulty", faulty.svg()))
        assert check_figures.main(arguments) == 1
        assert "faulty, ko: 'clipped' is cut off" in capsys.readouterr().err
