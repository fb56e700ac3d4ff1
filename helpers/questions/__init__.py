"""Questions at the end of a lesson: a reader chooses, and is told at once why that is so."""

from __future__ import annotations

from helpers.questions.view import ask

__all__ = ["ask"]
