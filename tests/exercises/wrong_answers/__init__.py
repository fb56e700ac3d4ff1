"""Plausible wrong answers to the tasks of the exercises. Each represents a misunderstanding.

Attributes:
  WRONG: by task, the misunderstanding and the code in place of the answer.
  PARTLY: by task, the points and the code of an answer that earns some of them.
"""

from __future__ import annotations

import importlib

from helpers.course.check import TASK_MODULES

WRONG: dict[str, dict[str, str]] = {}
PARTLY: dict[str, tuple[float, str]] = {}
for _name in dict.fromkeys(TASK_MODULES.values()):
    _lesson = importlib.import_module(f"{__name__}.{_name}")
    WRONG.update(_lesson.WRONG)
    PARTLY.update(_lesson.PARTLY)
