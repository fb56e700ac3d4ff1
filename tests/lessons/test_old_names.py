"""The table of old and present names in docs/FROM_THE_TUTORIAL.md, looked up in TensorFlow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from helpers.system.keras_version import LEGACY_KERAS
from tests.support import ROOT
from tests.support.faults import needs_keras_3

PAGE = ROOT / "docs" / "FROM_THE_TUTORIAL.md"
ROW = re.compile(r"^\| `((?:tf|keras)\.[\w.]+)` \| `((?:tf|keras)\.[\w.]+)` \|$", re.MULTILINE)
LOOK_UP = """
import json, sys
import keras, tensorflow as tf

def find(name):
    first, *rest = name.split(".")
    found = {"tf": tf, "keras": keras}[first]
    for part in rest:
        found = getattr(found, part)
    return found

def state(old, present):
    try:
        found = find(old)
    except AttributeError:
        return "gone"
    if found is find(present):
        return "second name"
    texts = [found, getattr(found, "__init__", None), getattr(found, "__new__", None)]
    if any("DEPRECATED" in (getattr(text, "__doc__", None) or "") for text in texts):
        return "deprecated"
    if old.removeprefix("tf.") in getattr(found, "_tf_deprecated_api_names", ()):
        return "deprecated"
    try:
        found()
    except ImportError:
        return "raises"
    except Exception:
        pass
    return "works"

rows = json.load(sys.stdin)
print(json.dumps([[state(*row), find(row[1]) is not None] for row in rows]))
"""


def look_up(rows: list[tuple[str, str]]) -> list[tuple[str, bool]]:
    """For each row, the state of its old name, and whether the present one exists."""
    environ = {name: value for name, value in os.environ.items() if name != LEGACY_KERAS}
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP],
        input=json.dumps(rows),
        env={**environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [(state, exists) for state, exists in json.loads(done.stdout.splitlines()[-1])]


@needs_keras_3
def test_present_names_exist_and_old_ones_are_gone_deprecated_or_second_names() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert len(rows) >= 30
    working = ("tf.data.Dataset", "tf.data.Dataset.map")  # a name that is not old is found
    *found, last = look_up([*rows, working])
    assert [row for row, (_state, exists) in zip(rows, found, strict=True) if not exists] == []
    works = [row for row, (state, _exists) in zip(rows, found, strict=True) if state == "works"]
    assert works == []
    assert last[0] == "works"
    assert {state for state, _exists in found} == {"gone", "deprecated", "raises", "second name"}


@needs_keras_3
def test_a_present_name_that_does_not_exist_is_found() -> None:
    with pytest.raises(AssertionError, match="no_such_name"):
        look_up([("tf.float", "tf.no_such_name")])
