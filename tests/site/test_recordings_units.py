"""Recorded runs: their files, the panel's reading of them, and the page, without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers.course.panel import curves
from helpers.course.panel.status import Status
from helpers.i18n import language, use_language
from helpers.protocol import events
from helpers.protocol.events import SUPERVISOR_EVENT_FIELDS, Event, EventType
from tests.support import ROOT
from tools.l10n import catalog
from tools.lessons.project import HELPERS, Project, ToolError
from tools.site import tree
from tools.site.recordings import page, reasons, run_file
from tools.site.recordings.__main__ import SETTINGS
from tools.site.recordings.facts import CONTINUES, ENDS, RESTARTS, facts
from tools.site.recordings.frames import Frame, Replay, encode, frames
from tools.site.recordings.run_file import Recording, Setting

PROJECT = Project.load(ROOT)
RECORDINGS = run_file.read_all()
NAMES = [recording.setting.name for recording in RECORDINGS]
MOST_EVENTS, MOST_BYTES = 600, 40_000
LOST = "{task} has not responded for {seconds:g} s, at step {step}: it is stopped, " + (
    "or other programs are using its CPU time"
)


def one(name: str) -> Recording:
    return RECORDINGS[NAMES.index(name)]


def decoded(encoded: Sequence[Any]) -> list[Frame]:
    """What recordings.js does."""
    tokens: dict[str, list[str]] = {}
    found = []
    for seconds, changes in encoded:
        for name, change in changes.items():
            if isinstance(change, str):
                tokens[name] = re.split("(<[^>]+>)", change)
                continue
            for place, start, end, middle in change:
                old = tokens[name][place]
                tokens[name][place] = old[:start] + middle + old[len(old) - end :]
        found.append(Frame(seconds, {name: "".join(parts) for name, parts in tokens.items()}))
    return found


def test_every_setting_is_recorded_and_small() -> None:
    assert sorted(recording.setting for recording in RECORDINGS) == sorted(SETTINGS)
    for recording in RECORDINGS:
        least = 40 if recording.error else 50
        assert least < len(recording.events) < MOST_EVENTS
        path = run_file.FOLDER / f"{recording.setting.name}.json"
        assert path.stat().st_size < MOST_BYTES


@pytest.mark.parametrize("recording", RECORDINGS, ids=NAMES)
def test_recorded_events_have_the_form_of_current_events(recording: Recording) -> None:
    times = [event["time"] for event in recording.events]
    assert times[0] >= 0 and times == sorted(times)
    for event in recording.events:
        kind = EventType(event["event"])
        common = {"event", "time", "task", "attempt"}
        if kind in SUPERVISOR_EVENT_FIELDS:
            assert set(event) == common | set(SUPERVISOR_EVENT_FIELDS[kind])
        else:
            assert events.decode(json.dumps(event).encode()) == event


def test_a_recording_of_another_format_is_refused(tmp_path: Path) -> None:
    path = run_file.write(one("kill-2-2"), tmp_path)
    assert run_file.read(path) == one("kill-2-2")
    path.write_text(path.read_text().replace('"step": ["step", "loss"', '"step": ["step", "error"'))
    with pytest.raises(ToolError, match=r"events has changed since kill-2-2\.json"):
        run_file.read(path)


def test_reasons_have_no_language_but_a_message_of_the_catalog() -> None:
    found = {
        event["reason"]["message"]
        for recording in RECORDINGS
        for event in recording.events
        if "reason" in event
    }
    found |= {recording.error["message"] for recording in RECORDINGS if recording.error}
    assert len(found) >= 4
    for lang in PROJECT.released:
        messages = catalog.read(PROJECT.catalog(HELPERS, lang), lang)
        for text in found:
            message = messages.get(text)
            assert message is not None, text
            assert message.string


@pytest.mark.parametrize(
    "reason",
    [
        {"message": LOST, "task": "worker 1", "seconds": 2, "step": 150},
        {"message": LOST, "task": "worker 1", "seconds": 2.5, "step": 150},
    ],
)
def test_a_reason_is_read_from_its_text(reason: reasons.Reason) -> None:
    text = reasons.render(reason)
    alone = reasons.without_places(f"{text}; worker 0 waits for a step")
    assert reasons.parse(alone, [LOST, "{task} ended", "x"]) == reason
    with pytest.raises(ToolError, match=r"no message for this reason: worker 1 has"):
        reasons.parse(text, ["{task} ended"])


def test_a_reason_is_in_the_readers_language() -> None:
    with use_language("ru"):
        text = reasons.render({"message": LOST, "task": "worker 1", "seconds": 2.5, "step": 150})
    assert "воркер 1" in text and "2,5" in text and "150" in text
    assert language() == "en"


def step(time: float, number: int, task: str = "worker 0", attempt: int = 0) -> Event:
    values = {"step": number, "loss": 1.0, "examples_per_second": 1234.5, "attempt": attempt}
    return {"event": "step", "time": 100 + time, "task": task, **values}


def test_steps_are_thinned_but_not_next_to_a_gap() -> None:
    run = [step(k / 10, k) for k in range(11)] + [step(3 + k / 10, 11 + k) for k in range(5)]
    beat = {"event": "heartbeat", "time": 100.5, "task": "worker 0"}
    kept = run_file.select([*run, beat], 100.0, [])
    assert [event["step"] for event in kept] == [0, 3, 6, 9, 10, 11, 14, 15]
    assert kept[0]["examples_per_second"] == 1234 and kept[-1]["time"] == pytest.approx(3.4)


def test_what_describes_the_machine_is_not_recorded() -> None:
    values = {"pid": 4711, "cores": [3], "host": "laptop", "isolated": True}
    event = {"event": "started", "time": 5.0, "task": "worker 0", "attempt": 0, **values}
    (kept,) = run_file.select([event], 4.0, [])
    assert kept["pid"] == 1 and kept["host"] == "" and kept["cores"] == []
    assert kept["isolated"] is True


@pytest.mark.parametrize("recording", RECORDINGS, ids=NAMES)
def test_the_panel_reads_a_recording_to_its_end(recording: Recording) -> None:
    replay = Replay(recording)
    replay.advance(replay.end)
    result, found = replay.run.result, facts(recording)
    failed = found.outcome == ENDS
    assert replay.phase == (Status.FAILED if failed else Status.DONE)
    assert (result.steps != result.total_steps) == failed == (result.accuracy is None)
    assert [task.address for task in replay.run.tasks] == recording.clusters[-1]["worker"]
    assert bool(result.restarts) == (found.outcome == RESTARTS)
    lost = [re.search(r"(\d+) steps? (?:was|were) lost", line.message) for line in result.fault_log]
    assert found.repeated == sum(int(match[1]) for match in lost if match)
    assert curves.loss_chart(result).body.count("<polyline") >= recording.setting.workers


def test_timeouts_decide_whether_a_short_freeze_restarts_the_group() -> None:
    assert facts(one("short_pause-2-2")).outcome == RESTARTS
    patient = facts(one("short_pause-2-6"))
    assert patient.outcome == CONTINUES and patient.repeated == 0 and patient.standstill >= 2
    assert facts(one("partition-2-6")).standstill > facts(one("partition-2-2")).standstill > 5


def test_a_late_start_is_a_standstill_before_the_first_step() -> None:
    for recording in RECORDINGS:
        if recording.setting.scenario == "late_start":
            found = facts(recording)
            assert found.outcome == CONTINUES and found.repeated == 0 and found.standstill > 5


def test_a_full_disk_ends_the_run_with_its_message(tmp_path: Path) -> None:
    recording = one("disk_full-2-2")
    assert run_file.read(run_file.write(recording, tmp_path)) == recording
    assert recording.error and "/tmp" not in json.dumps(recording.error)
    with use_language("ru"):
        *_others, before, last = frames(recording)
    assert "200" in last.parts["report"] and "контрольн" in last.parts["report"].lower()
    assert before.parts["report"] == "" and 'data-status="failed"' in last.parts["phase"]


@pytest.mark.parametrize("name", ["pause-2-2", "straggler-3-6"])
def test_changes_between_frames_give_the_frames(name: str) -> None:
    shown = list(frames(one(name)))
    encoded = encode(shown, page.PARTS)
    given = decoded(json.loads(json.dumps(encoded)))
    by_time = {frame.seconds: frame.parts for frame in shown}
    assert len(given) > 30
    for frame in given:
        assert frame.parts == {part: by_time[frame.seconds][part] for part in page.PARTS}
    whole = sum(len(text) for frame in shown for text in frame.parts.values())
    assert len(json.dumps(encoded)) < whole / 5


def test_the_first_page_shows_a_freeze_and_the_recovery_in_ten_seconds() -> None:
    recording = one(page.DEFAULT)
    shown = page._excerpt(recording, list(frames(recording)))
    assert shown[0].seconds == 0 and 4 < shown[-1].seconds < 12
    states = [re.findall('data-status="([a-z]+)"', frame.parts["tasks"]) for frame in shown]
    assert states[0] == states[-1] == ["training", "training"]
    second = list(dict.fromkeys(state[1] for state in states))
    assert second[:3] == ["training", "frozen", "lost"] and "restarting" in second
    moving = ["mwl-moving" in frame.parts["cluster"] for frame in shown]
    assert moving[0] and moving[-1] and not all(moving)


@pytest.mark.parametrize("lang", tree.languages(PROJECT))
def test_the_page_offers_every_recording_with_its_question_and_answers(lang: str) -> None:
    (_about, html) = page.lab(tree.tree(PROJECT, lang), "[8](/x)")
    data = re.search(r'<script type="application/json">(.*?)</script>', html)
    assert data
    runs = json.loads(data[1])
    assert sorted(run["name"] for run in runs) == sorted(NAMES)
    for run in runs:
        for name in ("scenario", "workers", "timeouts"):
            assert f'value="{run[name]}"' in html
        assert run["question"] and run["outcome"] and "{" not in run["question"]
    fraction = next(run["standstill"] for run in runs)
    assert ("," in fraction) == (lang in ("ru", "es"))
    assert language() == "en"


def test_scripts_contain_the_frames_of_the_language(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(run_file, "read_all", lambda: [one(page.DEFAULT)])
    page.write(tree.tree(PROJECT, "ru"), tmp_path)
    scripts = {
        path.name: path.read_text("utf-8") for path in (tmp_path / "recordings").glob("*.js")
    }
    assert set(scripts) == {f"{page.DEFAULT}.js", f"{page.FIRST}.js"}
    for name, text in scripts.items():
        assert text.startswith(f'mwlRecording("{name[:-3]}",[[0') and "воркер 1" in text
        assert "worker 1" not in text
    assert ".mwl-row" in (tmp_path / "recordings" / "panel.css").read_text()


def test_names_of_recordings_are_those_of_their_settings() -> None:
    assert Setting("kill", 2, 2.0, 5.0).name == "kill-2-2"
    assert Setting("kill", 2, 1.5, 5.0).name == "kill-2-1.5"
