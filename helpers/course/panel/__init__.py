"""The panel: choose workers and collective, press Run, watch real training."""

from __future__ import annotations

from helpers.course.panel.view import Panel

__all__ = ["Panel"]
