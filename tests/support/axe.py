"""Accessibility faults found by axe-core, which the makers of browsers use too."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

GRAVE = ("serious", "critical")
RUN = """async within => {
    const found = await axe.run(within || document, {resultTypes: ['violations']});
    return found.violations.flatMap(fault => fault.nodes.map(node => ({
        impact: node.impact || fault.impact, rule: fault.id, target: node.target.flat().join(' '),
        todo: node.failureSummary, html: node.html.slice(0, 160), page: fault.helpUrl})));
}"""


@cache
def _source() -> str:
    """The source of axe-core, from the package `axe-playwright-python`."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")


def faults(page: Any, within: str | None = None) -> list[str]:
    """The serious and critical faults of a page: the rule, the element, and how to fix it.

    Args:
      page: of playwright.
      within: a CSS selector that limits the check to its elements.
    """
    if within is not None:
        assert page.locator(within).count(), f"there is no {within} on the page"
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_source())  # a script element might be blocked
    found = page.evaluate(RUN, within)
    return [_told(fault) for fault in found if fault["impact"] in GRAVE]


def _told(fault: dict[str, str]) -> str:
    todo = " ".join(fault["todo"].split())
    return "{impact}, {rule}: {target}: {html}\n    {0}\n    {page}".format(todo, **fault)
