"""The page of the fault-injection lab, the recording on the first page, and their data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from helpers.course.panel import scenarios
from helpers.course.panel.style import STYLE
from helpers.i18n import gettext_noop, number, use_language
from helpers.strategies import MULTI_WORKER, training_tasks
from tools.site import strings
from tools.site.recordings import run_file
from tools.site.recordings.facts import CONTINUES, ENDS, RESTARTS, facts, fault_time
from tools.site.recordings.frames import Frame, Parts, encode, frames
from tools.site.recordings.run_file import Recording, Setting
from tools.site.strings import Translate
from tools.site.tree import FAULT_LAB, Tree

CLASS, SCRIPT, SHEET = "mwl-recorded", "recordings.js", "recordings.css"
FOLDER = "recordings"  # next to the pages of a language
STYLE_SHEET = f"{FOLDER}/panel.css"
LINK = f'<link rel="stylesheet" href="{STYLE_SHEET}">'
DEFAULT = "pause-2-2"
FIRST = "first"  # the name of the shorter recording on the first page
PARTS = ("phase", "summary", "tasks", "cluster", "loss", "speed", "timeline", "log", "report")
FIRST_PARTS = ("cluster", "caption")
BEFORE, AFTER = 1.0, 2.5  # seconds that the first page shows before the fault and after recovery
SPEEDS = (0.5, 1, 2, 4)
OUTCOMES = {
    RESTARTS: strings.GROUP_RESTARTS,
    CONTINUES: strings.TRAINING_CONTINUES,
    ENDS: strings.TRAINING_ENDS,
}


def write(tree: Tree, folder: Path) -> None:
    """Writes the scripts with the frames of each recording, and the panel's style sheet.

    Args:
      folder: of the pages of the language.
    """
    target = folder / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    (folder / STYLE_SHEET).write_text(
        STYLE.removeprefix("<style>").removesuffix("</style>"), "utf-8"
    )
    with use_language(tree.lang):
        for recording in run_file.read_all():
            shown = list(frames(recording))
            name = recording.setting.name
            _write_script(target, name, encode(shown, PARTS))
            if name == DEFAULT:
                _write_script(target, FIRST, encode(_excerpt(recording, shown), FIRST_PARTS))


def _write_script(folder: Path, name: str, content: Any) -> None:
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    (folder / f"{name}.js").write_text(f'mwlRecording("{name}",{data});\n', "utf-8")


def _excerpt(recording: Recording, shown: Sequence[Frame]) -> list[Frame]:
    """The frames from just before the fault to some time after the recovery."""
    begin = fault_time(recording) - BEFORE
    last = shown[-1].parts["caption"]
    end = next(frame.seconds for frame in shown if frame.parts["caption"] == last) + AFTER
    found = [frame for frame in shown if begin <= frame.seconds <= end]
    first = found[0].seconds
    closing = Frame(end - first, found[-1].parts)
    return [*(frame._replace(seconds=frame.seconds - first) for frame in found), closing]


def lab(tree: Tree, lesson: str) -> list[str]:
    """The Markdown of the lab's page, without its heading.

    Args:
      lesson: a link to the lesson on failures.
    """
    _ = strings.translator(tree.project, tree.lang)
    with use_language(tree.lang):
        recordings = run_file.read_all()
        (default,) = (one for one in recordings if one.setting.name == DEFAULT)
        *_frames, last = frames(default)
        html = _tag(
            "div",
            f'class="{CLASS} mwl-lab mwl-panel" data-folder="{FOLDER}/"',
            LINK,
            _data(recordings, _),
            _form(recordings, _),
            f'<p class="mwl-unscripted">{escape(_(strings.LAB_NEEDS_SCRIPT))}</p>',
            _outcome(_),
            _tag("div", 'class="mwl-stage"', _controls(_, _speed(_)), _panel(last.parts)),
        )
    return [_(strings.ABOUT_FAULT_LAB).format(lesson=lesson), *_raw(html)]


def first(tree: Tree) -> list[str]:
    """The recording and the buttons at the top of the first page, as Markdown."""
    _ = strings.translator(tree.project, tree.lang)
    with use_language(tree.lang):
        (recording,) = (one for one in run_file.read_all() if one.setting.name == DEFAULT)
        shown = _excerpt(recording, list(frames(recording)))
        label = escape(_(strings.ABOUT_FIRST_RECORDING))
        html = _tag(
            "div",
            f'class="{CLASS} mwl-first mwl-panel" data-folder="{FOLDER}/" data-run="{FIRST}"',
            LINK,
            _part("cluster", shown[-1].parts),
            _part("caption", shown[-1].parts),
            _controls(_),
            f'<p class="mwl-note">{label}</p>',
        )
        here, there = escape(_(strings.TRY_IT)), escape(_(strings.RUN_IT))
        buttons = (
            f'<a class="mwl-button mwl-main" href="{FAULT_LAB}.html">{here}</a>'
            f'<a class="mwl-button" href="#two-commands">{there}</a>'
        )
    return [*_raw(f'{html}<p class="mwl-buttons">{buttons}</p>')]


def _raw(html: str) -> Iterator[str]:
    yield f"```{{raw}} html\n{html}\n```"


def _tag(name: str, attributes: str, *parts: str) -> str:
    return f"<{name} {attributes}>{''.join(parts)}</{name}>"


def _part(name: str, parts: Parts) -> str:
    return f'<div class="mwl-part-{name}" data-part="{name}">{parts[name]}</div>'


def _panel(parts: Parts) -> str:
    """The parts in the order of the panel."""
    head = _tag("div", 'class="mwl-head"', _part("phase", parts), _part("summary", parts))
    charts = _tag("div", 'class="mwl-charts"', _part("loss", parts), _part("speed", parts))
    names = ("timeline", "log", "report")
    return "".join(
        [
            head,
            _part("tasks", parts),
            _part("cluster", parts),
            *(_part(name, parts) for name in names),
            charts,
            '<p class="mwl-live visually-hidden" aria-live="polite"></p>',
        ]
    )


def _speed(_: Translate) -> str:
    speeds = "".join(
        f'<option value="{speed}"{" selected" * (speed == 1)}>{number(speed, "g")}×</option>'
        for speed in SPEEDS
    )
    label = escape(_(strings.PLAYBACK_SPEED))
    return f'<label>{label} <select class="mwl-speed">{speeds}</select></label>'


def _controls(_: Translate, *others: str) -> str:
    """The controls of a recording, which work only with JavaScript."""
    play, pause = escape(_(strings.PLAY)), escape(_(strings.PAUSE))
    return _tag(
        "div",
        'class="mwl-controls"',
        f'<button type="button" class="mwl-play mwl-button" data-play="{play}" '
        f'data-pause="{pause}">{play}</button>',
        f'<input type="range" class="mwl-seek" min="0" max="1" value="0" step="0.25" '
        f'aria-label="{escape(_(strings.POSITION))}">',
        f'<span class="mwl-time" data-text="{escape(_(strings.TIME_OF))}"></span>',
        *others,
    )


def _form(recordings: Iterable[Recording], _: Translate) -> str:
    settings = [recording.setting for recording in recordings]
    names = scenarios.names()
    default = next(setting for setting in settings if setting.name == DEFAULT)
    found = {
        key: names[key] for key in scenarios.SCENARIOS if key in {s.scenario for s in settings}
    }
    workers = {str(setting.workers): str(setting.workers) for setting in settings}
    timeouts = {
        _timeouts(setting): _timeout_label(setting, _)
        for setting in sorted(settings, key=lambda one: one.heartbeat_timeout)
    }
    fields = [
        _select("scenario", _(gettext_noop("Scenario")), found, default.scenario),
        _select("workers", _(gettext_noop("Workers")), workers, str(default.workers)),
        _select("timeouts", _(strings.TIMEOUTS), timeouts, _timeouts(default)),
    ]
    radios = "".join(
        f'<label><input type="radio" name="outcome" value="{key}" required> {escape(_(text))}'
        "</label>"
        for key, text in OUTCOMES.items()
    )
    asked = escape(_(gettext_noop("What will happen?")))
    standstill = escape(_(strings.STANDSTILL))
    prediction = _tag(
        "fieldset",
        'class="mwl-prediction"',
        f"<legend>{escape(_(strings.PREDICTION))}</legend>",
        f'<p class="mwl-asked"><b>{asked}</b> <span class="mwl-question" aria-live="polite"></span>'
        "</p>",
        radios,
        f"<label>{standstill} "
        '<input type="number" name="standstill" min="0" max="999" step="any" required></label>',
        f'<button class="mwl-button mwl-main">{escape(_(strings.SHOW_RECORDING))}</button>',
    )
    return _tag("form", 'class="mwl-choose"', *fields, prediction)


def _select(name: str, label: str, options: Mapping[str, str], chosen: str) -> str:
    shown = "".join(
        f'<option value="{escape(value)}"{" selected" * (value == chosen)}>{escape(text)}</option>'
        for value, text in options.items()
    )
    return (
        f'<label>{escape(label)} <select name="{name}" autocomplete="off">{shown}</select></label>'
    )


def _timeouts(setting: Setting) -> str:
    return f"{setting.heartbeat_timeout:g}"


def _timeout_label(setting: Setting, _: Translate) -> str:
    return _(strings.TIMEOUT_CHOICE).format(
        heartbeat=number(setting.heartbeat_timeout, "g"), step=number(setting.step_timeout, "g")
    )


def _outcome(_: Translate) -> str:
    """The prediction next to the facts, which the script fills in after the end."""
    rows = "".join(
        f'<tr><th scope="row">{escape(_(label))}</th><td data-predicted="{key}"></td>'
        f'<td data-recorded="{key}"></td></tr>'
        for key, label in (
            ("outcome", strings.OUTCOME),
            ("standstill", strings.STANDSTILL),
            ("repeated", strings.REPEATED),
        )
    )
    heads = "".join(
        f'<th scope="col">{escape(_(text))}</th>' for text in (strings.PREDICTION, strings.RECORDED)
    )
    table = f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="mwl-outcome" role="status">{table}</div>'


def _data(recordings: Iterable[Recording], _: Translate) -> str:
    """The questions about each run and their answers, formatted in the language in use."""
    runs = []
    for recording in recordings:
        setting, found = recording.setting, facts(recording)
        tasks = training_tasks(MULTI_WORKER, setting.workers)
        runs.append(
            {
                "name": setting.name,
                "scenario": setting.scenario,
                "workers": str(setting.workers),
                "timeouts": _timeouts(setting),
                "question": scenarios.question(setting.scenario, tasks),
                "outcome": _(OUTCOMES[found.outcome]),
                "standstill": number(found.standstill, ".1f"),
                "repeated": str(found.repeated),
            }
        )
    data = json.dumps(runs, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json">{data}</script>'
