"""Events: one enum, one table that describes it, and the rules for events from a worker."""

from __future__ import annotations

import json
import re

from helpers.protocol.events import (
    SUPERVISOR_EVENT_FIELDS,
    WORKER_EVENT_FIELDS,
    EventType,
    decode,
    encode,
    supervisor_event,
)


def described() -> dict[str, set[str]]:
    """The fields of each kind, from the table in the description of `EventType`."""
    found: dict[str, set[str]] = {}
    kind = ""
    for line in (EventType.__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 3 or (cells[0] in ("type", "") and not found) or set(cells[0]) == {"-"}:
            continue
        kind = cells[0] or kind
        names = re.sub(r"\(.*", "", cells[2])
        found.setdefault(kind, set()).update(re.findall(r"\w+", names))
    return found


def test_the_table_describes_every_kind_and_its_fields() -> None:
    known = {**WORKER_EVENT_FIELDS, **SUPERVISOR_EVENT_FIELDS}
    assert set(known) == set(EventType)
    assert not set(WORKER_EVENT_FIELDS) & set(SUPERVISOR_EVENT_FIELDS)
    assert described() == {kind.value: set(fields) for kind, fields in known.items()}


def test_a_kind_reads_as_its_name_wherever_it_is_shown() -> None:
    assert (
        f"{EventType.STEP}"
        == str(EventType.STEP)
        == json.loads(json.dumps(EventType.STEP))
        == "step"
    )
    event = supervisor_event(EventType.EXIT, "worker 0", code=3)
    assert type(event["event"]) is str
    assert (event["event"], event["task"], event["code"]) == ("exit", "worker 0", 3)


def test_what_a_worker_encodes_is_decoded() -> None:
    event = decode(encode(EventType.CHECKPOINT, step=7))
    assert event is not None and (event["event"], event["step"]) == ("checkpoint", 7)


def test_a_worker_cannot_speak_for_its_watcher() -> None:
    for kind, fields in SUPERVISOR_EVENT_FIELDS.items():
        assert decode(encode(kind, **dict.fromkeys(fields, 0))) is None
    assert decode(encode("invented")) is None
    assert decode(encode(EventType.READY)) is None  # without its step
    assert decode(b'["ready"]') is None and decode(b'{"event": ["step"]}') is None
