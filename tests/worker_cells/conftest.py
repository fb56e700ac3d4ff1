"""A kernel with two workers, which the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kernel import Kernel, running_kernel


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    with running_kernel() as started:
        assert not started.run("%load_ext helpers").error
        assert not started.run("%workers start 2").error
        # On a busy machine, equal lines of two workers may arrive at very different times.
        started.run("from helpers.worker_cells import output\noutput.FOLD_SECONDS = 20.0")
        started.run("output.FOLD_BUNDLE_SECONDS = 20.0\ndel output")
        yield started
