"""The timeline of real workers, from their profiles."""

from __future__ import annotations

import pytest

from helpers import LocalCluster, input_fn, model_fn
from helpers.protocol.spans import Span
from helpers.results.timeline import exclusive_times, merge_traces, timeline_chart
from helpers.worker.context import WorkerContext
from tests.support.faults import needs_keras_3

STEPS = ["12", "13", "14"]


def train_and_trace(context: WorkerContext) -> tuple[list[Span], float]:
    """Traces three steps, before which worker 1 sleeps, and returns the milliseconds it slept."""
    import time

    import keras

    from helpers.course.data import input_fn
    from helpers.course.model import make_network
    from helpers.either_keras import tf
    from helpers.keras_callbacks import TraceStep

    slept = []

    class Sleep(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
            start = time.perf_counter()
            if context.config.task.index == 1:
                time.sleep(0.1)
            slept.append((time.perf_counter() - start) * 1000)

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = make_network()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.05), loss)
    dataset = strategy.distribute_datasets_from_function(
        lambda context: input_fn("train", {"batch_size": 64}, context).repeat()
    )
    trace = TraceStep(12, 14)
    model.fit(dataset, steps_per_epoch=15, verbose=0, callbacks=[trace, Sleep()])
    return trace.spans, sum(slept[11:14])


@needs_keras_3
def test_a_worker_waits_as_long_as_its_peer_sleeps() -> None:
    with LocalCluster(workers=2, collective="RING") as cluster:
        found = cluster.run(train_and_trace, keras=3)
    traces = {f"worker {k}": spans for k, (spans, _slept) in enumerate(found)}
    for spans in traces.values():
        kinds = [kind for _category, kind, *_times in spans]
        assert [span[1] for span in spans if span[0] == "step"] == STEPS
        assert kinds.count("IteratorGetNext") == len(STEPS)
        assert "CollectiveReduceV2" in kinds
        assert any("Conv2DBackprop" in kind for kind in kinds)
        times = exclusive_times(spans)
        assert min(times["compute"], times["all-reduce"]) > 0
        extent = max(span[3] for span in spans) - min(span[2] for span in spans)
        assert sum(times.values()) == pytest.approx(extent / 1000)
    timeline = merge_traces(traces)
    assert timeline.clock_error == 0
    waits = {worker: exclusive_times(s)["waiting"] for worker, s in timeline.workers.items()}
    slept = found[1][1]
    assert 0.5 * slept < waits["worker 0"]
    assert waits["worker 1"] < 0.5 * waits["worker 0"]
    assert "<img" in timeline_chart(traces)._repr_html_()


def test_an_estimator_is_traced_too() -> None:
    with LocalCluster(workers=2, collective="RING") as cluster:
        result = cluster.train(
            model_fn, input_fn, steps=8, evaluate=None, trace_steps=range(5, 7), progress=False
        )
    assert set(result.traces) == {"worker 0", "worker 1"}
    timeline = merge_traces(result.traces)
    for spans in timeline.workers.values():
        assert [span[1] for span in spans if span[0] == "step"] == ["5", "6"]
        times = exclusive_times(spans)
        assert min(times["compute"], times["communication"]) > 0
        assert times.get("all-reduce", 0) == 0
