"""The files of recorded runs: the settings, and the events that the panel shows.

A file has a line for each event. Runs are short, and a worker's steps are thinned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from helpers.protocol.events import (
    SUPERVISOR_EVENT_FIELDS,
    WORKER_EVENT_FIELDS,
    Event,
    EventType,
)
from tools.lessons.project import ToolError
from tools.site.recordings import reasons

COMMAND = "python -m tools.site.recordings"
FOLDER = Path(__file__).with_name("runs")
KEPT = (  # what the panel shows
    EventType.LAUNCHED,
    EventType.STARTED,
    EventType.RUN_INFO,
    EventType.READY,
    EventType.STEP,
    EventType.CHECKPOINT,
    EventType.EVALUATION_PROGRESS,
    EventType.EVALUATION,
    EventType.EXIT,
    EventType.GROUP_RESTART,
    EventType.FAULT_INJECTED,
    EventType.FAULT_CLEARED,
)
FIELDS: Mapping[EventType, tuple[str, ...]] = {
    kind: tuple(WORKER_EVENT_FIELDS.get(kind) or SUPERVISOR_EVENT_FIELDS.get(kind, ()))
    for kind in KEPT
}
OF_THE_MACHINE: Mapping[str, Any] = {"pid": 1, "cores": [], "host": ""}  # replaces what it shows
DIGITS: Mapping[str, int] = {"time": 2, "loss": 4, "examples_per_second": 0}
STEP_INTERVAL = 0.25  # seconds between two steps of a worker, except next to a gap
GAP = 0.5  # seconds without a step


class Setting(NamedTuple):
    """What was chosen before a run.

    Attributes:
      scenario: a name in `helpers.course.panel.scenarios.SCENARIOS`.
      workers: the number of workers.
      heartbeat_timeout, step_timeout: arguments of `LocalCluster`, in seconds.
    """

    scenario: str
    workers: int
    heartbeat_timeout: float
    step_timeout: float

    @property
    def name(self) -> str:
        """The name of the file, without its suffix."""
        return f"{self.scenario}-{self.workers}-{self.heartbeat_timeout:g}"


@dataclass(frozen=True)
class Recording:
    """A recorded run.

    Attributes:
      setting: what was chosen.
      clusters: the addresses of the tasks by job, for each attempt.
      events: its events with the seconds since its start as ``time``. The reason of a restart is a
        `reasons.Reason`.
      error: the message of the error that ended the run, or None.
    """

    setting: Setting
    clusters: list[dict[str, list[str]]]
    events: list[Event]
    error: reasons.Reason | None = None

    def localized_events(self) -> Iterator[Event]:
        """Its events with reasons in the language in use."""
        for event in self.events:
            shown = {"reason": reasons.render(event["reason"])} if "reason" in event else {}
            yield {**event, **shown}


def read_all(folder: Path = FOLDER) -> list[Recording]:
    """All recordings, in the order of their settings.

    Raises:
      ToolError: there is none, or one is not in the current format.
    """
    found = [read(path) for path in folder.glob("*.json")]
    if not found:
        raise ToolError(f"There is no recording in {folder}. Record some: {COMMAND}")
    return sorted(found, key=lambda one: one.setting)


def read(path: Path) -> Recording:
    """Reads a recording.

    Raises:
      ToolError: its events have other fields than the current events.
    """
    stored = json.loads(path.read_text("utf-8"))
    fields = {EventType(kind): tuple(names) for kind, names in stored["fields"].items()}
    if fields != FIELDS:
        raise ToolError(f"The format of events has changed since {path.name}. Record: {COMMAND}")
    events = []
    for time, kind, task, attempt, *values in stored["events"]:
        common = {"time": time, "event": kind, "task": task, "attempt": attempt}
        events.append(common | dict(zip(FIELDS[EventType(kind)], values, strict=True)))
    setting = Setting(**stored["setting"])
    return Recording(setting, stored["clusters"], events, stored.get("error"))


def write(recording: Recording, folder: Path = FOLDER) -> Path:
    """Writes a recording, and returns its path."""
    head = {
        "setting": recording.setting._asdict(),
        "clusters": recording.clusters,
        **({"error": recording.error} if recording.error else {}),
        "fields": {kind.value: names for kind, names in FIELDS.items()},
    }
    lines = ",\n".join(json.dumps(_row(event)) for event in recording.events)
    path = folder / f"{recording.setting.name}.json"
    path.write_text(f'{json.dumps(head)[:-1]}, "events": [\n{lines}\n]}}\n', "utf-8")
    return path


def _row(event: Event) -> list[Any]:
    common = [event["time"], event["event"], event["task"], event["attempt"]]
    return [*common, *(event[name] for name in FIELDS[EventType(event["event"])])]


def select(events: Iterable[Event], started: float, messages: Iterable[str]) -> list[Event]:
    """The events that a recording contains, of all events of a run, in the order of their times.

    Args:
      started: the time of the start of the run, in seconds since the epoch.
      messages: the English messages of the catalog, for `reasons.parse`.
    """
    messages = list(messages)
    kept = [{"attempt": 0, **event} for event in events if event["event"] in KEPT]
    # A busy process reads the pipes of the workers one after the other.
    kept.sort(key=lambda event: (event["attempt"], event["time"]))
    return [_cleaned(event, started, messages) for event in _thinned(kept)]


def _cleaned(event: Event, started: float, messages: list[str]) -> Event:
    names = ("event", "task", "attempt", *FIELDS[EventType(event["event"])])
    cleaned = {name: OF_THE_MACHINE.get(name, event[name]) for name in names}
    cleaned["time"] = event["time"] - started
    if "reason" in cleaned:
        cleaned["reason"] = reasons.parse(reasons.without_places(event["reason"]), messages)
    if "metrics" in cleaned:
        cleaned["metrics"] = {"accuracy": round(event["metrics"]["accuracy"], 4)}
    return {name: _rounded(name, value) for name, value in cleaned.items()}


def _rounded(name: str, value: Any) -> Any:
    digits = DIGITS.get(name)
    return value if digits is None or value is None else round(value, digits or None)


def _thinned(events: list[Event]) -> Iterator[Event]:
    """Drops steps that follow another one closely, unless they are next to a gap."""
    following: dict[int, float] = {}  # the time of the next step of the same task, by position
    upcoming: dict[tuple[str, int], float] = {}
    for place in reversed(range(len(events))):
        event = events[place]
        if event["event"] == EventType.STEP:
            key = event["task"], event["attempt"]
            following[place] = upcoming.get(key, float("inf"))
            upcoming[key] = event["time"]
    shown: dict[tuple[str, int], float] = {}
    seen: dict[tuple[str, int], float] = {}
    evaluating = False
    for place, event in enumerate(events):
        if event["event"] == EventType.EVALUATION_PROGRESS:
            if not evaluating:
                yield event
            evaluating = True
            continue
        if event["event"] != EventType.STEP:
            yield event
            continue
        key, time = (event["task"], event["attempt"]), event["time"]
        first = time - seen.get(key, -GAP) >= GAP  # after a gap
        seen[key] = time
        last = following[place] - time >= GAP
        if first or last or time - shown.get(key, 0) >= STEP_INTERVAL:
            shown[key] = time
            yield event
