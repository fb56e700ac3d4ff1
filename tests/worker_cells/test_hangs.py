"""Cells in which workers wait for each other forever."""

from __future__ import annotations

import pytest

from tests.support.kernel import Kernel
from tests.worker_cells.test_cells import SUM

pytestmark = pytest.mark.faults


def test_a_worker_that_waits_for_one_that_has_raised_is_named(kernel: Kernel) -> None:
    kernel.run("%%workers\nimport json, os\nimport tensorflow as tf")
    kernel.run(
        "%%workers\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
        "index = json.loads(os.environ['TF_CONFIG'])['task']['index']"
    )
    assert not kernel.run(f"%%workers{SUM}").error
    assert not kernel.run("%%workers\ntotal(1.0)").error
    result = kernel.run("%%workers\nif index == 1:\n    raise ValueError('no data')\ntotal(1.0)")
    assert "workers wait for other workers" in result.error
    assert "worker 0 waits in a collective (Cell In[" in result.error
    assert "ValueError: no data" in result.error
    assert "strategy" in result.error
    assert kernel.run("%%workers\n1").lines == ["[0-1] 1"]


def test_a_strategy_in_the_chief_alone_is_reported(kernel: Kernel) -> None:
    result = kernel.run(
        "%%chief\nimport tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()"
    )
    assert "worker 0 waits for the start of a peer (Cell In[" in result.error
    assert kernel.run("%%workers\n1").lines == ["[0-1] 1"]
