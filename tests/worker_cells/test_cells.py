"""Cells that run in workers, in a Jupyter kernel with two real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernel import Kernel
from tests.support.processes import is_running, wait_until

DEADLINE = 60.0
SUM = """
@tf.function
def total(value):
    def in_replica():
        return tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(value))
    return strategy.run(in_replica)
"""
NAMES = """%%workers
import json, os, threading, time
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
x = 20"""
TRAINING_LOOP = """
@tf.function
def step(batch):
    def in_replica(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((batch * weight - 3.0 * batch) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss
    return strategy.reduce("MEAN", strategy.run(in_replica, args=(batch,)), axis=None)
"""


@pytest.fixture(autouse=True)
def names(kernel: Kernel) -> None:
    """Names that several tests use, each of which may be the first of its process."""
    assert not kernel.run(NAMES).error


def test_names_of_one_cell_exist_in_the_next_and_the_last_expression_is_shown(
    kernel: Kernel,
) -> None:
    assert kernel.run("%%workers\nx = 20\nx + 1").lines == ["[0-1] 21"]
    assert kernel.run("%%workers\nx").lines == ["[0-1] 20"]
    assert kernel.run("%%workers\nx;").text == ""
    assert "NameError" in kernel.run("x").error


def test_lines_have_the_number_of_their_worker_and_equal_lines_are_shown_once(
    kernel: Kernel,
) -> None:
    result = kernel.run("%%workers\nprint('all')\nprint('worker', index)\nprint('all again')")
    assert set(result.lines) >= {"[0] worker 0", "[1] worker 1"}
    assert result.lines[0] == "[0-1] all"
    assert sum("all again" in line for line in result.lines) <= 2


def test_a_cell_runs_in_the_chief_or_in_some_workers(kernel: Kernel) -> None:
    assert kernel.run("%%chief\nprint('here')").lines == ["[0] here"]
    assert kernel.run("%%workers 1\nprint('here')").lines == ["[1] here"]
    assert "no worker 7" in kernel.run("%%workers 7\nprint('here')").error


def test_output_arrives_while_the_cell_runs(kernel: Kernel, tmp_path: Path) -> None:
    """The cell ends only after its first line has arrived here."""

    def release(text: str) -> None:
        if "waiting" in text:
            (tmp_path / "go").touch()

    code = (
        f"%%workers\nprint('waiting')\nwhile not os.path.exists('{tmp_path / 'go'}'):\n"
        "    time.sleep(0.05)\nprint('done')"
    )
    assert kernel.run(code, release).lines == ["[0-1] waiting", "[0-1] done"]


def test_an_exception_shows_the_readers_lines_once(kernel: Kernel) -> None:
    result = kernel.run("%%workers\ndef divide(a):\n    return a / 0\ndivide(1)")
    assert result.error.count("return a / 0") == 1
    assert "[0-1] " in result.error
    assert "line 3, in divide" in result.error
    assert "helpers/" not in result.error
    assert result.error.startswith("WorkerCellError\nWorkerCellError:\n[0-1] Traceback")


def test_several_texts_in_one_cell_keep_their_lines(kernel: Kernel) -> None:
    kernel.run(
        "for k in range(2):\n"
        "    get_ipython().run_cell_magic('workers', '', f'def f{k}(): return {k} / 0')"
    )
    assert "return 0 / 0" in kernel.run("%%workers\nf0()").error
    assert "return 1 / 0" in kernel.run("%%workers\nf1()").error


def test_exceptions_that_differ_are_shown_for_each_worker(kernel: Kernel) -> None:
    result = kernel.run("%%workers\nraise ValueError(f'in {index}')")
    assert "[0] " in result.error and "ValueError: in 0" in result.error
    assert "[1] " in result.error and "ValueError: in 1" in result.error


def test_a_figure_is_shown_as_a_picture(kernel: Kernel) -> None:
    code = "%%workers\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('a line');"
    (data,) = kernel.run(code).data
    assert "image/png" in data
    (data,) = kernel.run("%%workers 1\nplt.plot([1]);\nplt.show()").data
    assert "image/png" in data


def test_a_rich_value_is_shown_as_the_notebook_shows_it(kernel: Kernel) -> None:
    code = (
        "%%workers\nclass Table:\n    def __repr__(self): return 'Table'\n"
        "    def _repr_html_(self): return '<table></table>'\nTable()"
    )
    result = kernel.run(code)
    assert result.data == [{"text/plain": "Table", "text/html": "<table></table>"}]
    assert result.lines == ["[0-1]"]


def test_a_cell_that_exceeds_its_timeout_names_the_line_of_each_worker(kernel: Kernel) -> None:
    code = "%%workers --timeout 2\nif index == 0:\n    time.sleep(60)\nwhile True:\n    index"
    result = kernel.run(code)
    assert "did not finish within 2 s" in result.error
    assert "worker 0 sleeps (Cell In[" in result.error
    assert "]:3, in <module>)" in result.error
    assert "worker 1 is at Cell In[" in result.error
    assert "keep their variables" in result.error
    assert kernel.run("%%workers\nx").lines == ["[0-1] 20"]


def test_an_interrupt_reaches_the_workers(kernel: Kernel) -> None:
    def interrupt(text: str) -> None:
        if "looping" in text:
            kernel.interrupt()

    code = "%%workers\nprint('looping')\nwhile True:\n    pass"
    result = kernel.run(code, interrupt)
    assert "KeyboardInterrupt" in result.error
    assert "Cell In[" in result.error
    assert kernel.run("%%workers\nx").lines == ["[0-1] 20"]


def test_values_are_pushed_and_pulled(kernel: Kernel) -> None:
    kernel.run("import numpy as np\na = np.arange(6.0).reshape(2, 3).T\nb = {'k': [1, a]}")
    assert not kernel.run("%push a b").error
    assert kernel.run("%%workers\na[0, 1] += 10 * (index + 1)\nb['k'][1].sum()").text
    assert kernel.run("%pull a\nprint(a[0, 1])").lines == ["13.0"]
    assert kernel.run("%pull a --worker 1\nprint(a[0, 1], a.shape)").lines == ["23.0 (3, 2)"]
    assert "no variable missing" in kernel.run("%push missing").error
    assert "no variable missing" in kernel.run("%pull missing").error
    kernel.run("import threading\nlock = threading.Lock()")
    assert "lock cannot be sent to the workers" in kernel.run("%push lock").error
    kernel.run("%%workers\nimport threading\nlock = threading.Lock()")
    assert "lock cannot be sent to the notebook" in kernel.run("%pull lock").error


def test_functions_and_classes_of_the_notebook_are_pushed(kernel: Kernel) -> None:
    kernel.run("class Pair:\n    def __init__(self, a): self.a = a\ndef twice(p): return 2 * p.a")
    kernel.run("pair = Pair(4)\n%push pair twice")
    assert kernel.run("%%workers\ntwice(pair)").lines == ["[0-1] 8"]


def test_names_of_workers_are_completed(kernel: Kernel) -> None:
    kernel.run("%%workers\nlearning_rate_of_workers = 0.1\nimport time")
    assert "learning_rate_of_workers" in kernel.complete("%%workers\nlearning_ra")
    assert "learning_rate_of_workers" in kernel.complete("%%chief\nx = learning_ra")
    assert "learning_rate_of_workers" in kernel.complete("%pull learning_ra")
    assert "sleep" in [name.rpartition(".")[2] for name in kernel.complete("%%workers\ntime.sl")]
    assert "learning_rate_of_workers" not in kernel.complete("learning_ra")


def test_the_output_of_a_thread_between_two_cells_is_shown_by_the_next_one(
    kernel: Kernel, tmp_path: Path
) -> None:
    printed = tmp_path / "printed"
    code = (
        "%%chief\ndef late():\n    time.sleep(0.3)\n    print('from a thread')\n"
        f"    sys.stdout.flush()\n    open('{printed}', 'w').close()\n"
        "import sys, threading\nthreading.Thread(target=late).start()"
    )
    kernel.run(code)
    assert wait_until(printed.exists, DEADLINE)
    assert "sleep" in [name.rpartition(".")[2] for name in kernel.complete("%%chief\ntime.sl")]
    kernel.run("%workers")
    assert kernel.run("%%workers 1\n1").lines == ["[0] from a thread", "[1] 1"]


def test_the_state_of_the_workers_is_shown(kernel: Kernel) -> None:
    (data,) = kernel.run("%workers").data
    text = data["text/plain"]
    assert "2 workers, Keras 3" in text
    assert "[1] worker 1: process" in text and "x" in text


def test_the_workers_of_a_named_cluster_run_a_cell(kernel: Kernel) -> None:
    kernel.run("from helpers import LocalCluster\nthree = LocalCluster(workers=3)")
    code = "%%workers 0,2 --cluster three\nprint('here')"
    assert kernel.run(code).lines == ["[0,2] here"]
    assert not kernel.run("%workers stop --cluster three").error
    assert "no variable" in kernel.run("%%workers --cluster other\n1").error
    assert kernel.run("%%workers\nx").lines == ["[0-1] 20"]


def test_a_training_loop_is_written_cell_by_cell(kernel: Kernel) -> None:
    kernel.run("%workers start 2")
    kernel.run("%%workers\nimport json, os\nimport tensorflow as tf")
    code = "%%workers\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()"
    assert not kernel.run(f"{code}\nstrategy.num_replicas_in_sync").error
    assert not kernel.run(f"%%workers{SUM}").error
    assert kernel.run("%%workers\nfloat(total(2.0))").lines == ["[0-1] 4.0"]
    code = "with strategy.scope():\n    weight = tf.Variable(0.0)\n"
    assert not kernel.run(f"%%workers\n{code}    optimizer = tf.keras.optimizers.SGD(0.1)").error
    assert not kernel.run(f"%%workers{TRAINING_LOOP}").error
    kernel.run("%%workers\nfor _ in range(30):\n    loss = step(tf.constant([1.0, 2.0]))")
    assert kernel.run("%%workers\nround(float(weight.numpy()), 3)").lines == ["[0-1] 3.0"]


def test_a_worker_that_dies_takes_the_variables_with_it_and_the_next_cell_runs(
    kernel: Kernel,
) -> None:
    kernel.run("%workers start 2")  # an error names twelve variables at most
    kernel.run("%%workers\nimport os\nweights = 1")
    result = kernel.run("%%workers 1\nos.kill(os.getpid(), 9)")
    assert "worker 1 ended with signal 9 (SIGKILL)" in result.error
    assert "weights" in result.error
    assert "NameError" in kernel.run("%%workers\nweights").error
    assert kernel.run("%%workers\n1").lines == ["[0-1] 1"]


def test_a_worker_that_dies_between_two_cells_is_reported_by_the_next_one(kernel: Kernel) -> None:
    kernel.run("%workers start 2")
    kernel.run("%%workers\nimport os, threading\nweights = 1")
    code = "%%workers 1\nthreading.Timer(0.2, os._exit, [3]).start()\nprint(os.getpid())"
    pid = int(kernel.run(code).text.split()[1])
    # A zombie may have threads that are still ending, and its connection is open until then.
    threads = Path(f"/proc/{pid}/task")
    assert wait_until(lambda: not is_running(pid) and len([*threads.glob("*")]) <= 1, DEADLINE)
    result = kernel.run("%%workers\nprint('this cell')")
    assert "worker 1 has ended since the last cell" in result.error
    assert "weights" in result.error
    assert "this cell" not in result.text
    assert kernel.run("%%workers\n1").lines == ["[0-1] 1"]
