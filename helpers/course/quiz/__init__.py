"""Questions at the end of a lesson: a reader chooses, and is told at once why that is so."""

from __future__ import annotations

from helpers.course.quiz.view import quiz

__all__ = ["quiz"]
