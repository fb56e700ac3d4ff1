"""Questions at the end of a lesson, with an explanation of each chosen answer."""

from __future__ import annotations

from helpers.course.quiz.view import quiz

__all__ = ["quiz"]
