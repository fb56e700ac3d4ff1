"""What axe-core finds wrong with a page for those who cannot see it, or have no mouse."""

from __future__ import annotations

from typing import Any

import pytest

Axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe

GRAVE = ("serious", "critical")


def faults(page: Any) -> list[str]:
    """The serious and critical faults: the rule, how many elements break it, and the first one."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{fault['id']} ({fault['impact']}, {len(fault['nodes'])}): {fault['help']}: "
        f"{fault['nodes'][0]['html'][:200]}"
        for fault in found
        if fault["impact"] in GRAVE
    ]
