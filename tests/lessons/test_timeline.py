"""The operations of a step, from real profiles of real workers."""

from __future__ import annotations

import pytest

from helpers import LocalCluster
from helpers.course.step_trace import Span, exclusive_times, timeline_chart
from tests.support.faults import needs_keras_3


def train_and_trace() -> list[Span]:
    import keras

    from helpers.course.data import input_fn
    from helpers.course.model import make_network
    from helpers.course.step_trace import TraceStep
    from helpers.either_keras import tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = make_network()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.05), loss)
    dataset = strategy.distribute_datasets_from_function(
        lambda context: input_fn("train", {"batch_size": 64}, context).repeat()
    )
    trace = TraceStep(12)
    model.fit(dataset, steps_per_epoch=15, verbose=0, callbacks=[trace])
    return trace.spans


@needs_keras_3
def test_a_step_of_two_workers_waits_for_input_computes_and_sums_gradients() -> None:
    with LocalCluster(workers=2, collective="RING") as cluster:
        workers: list[list[Span]] = cluster.run(train_and_trace, keras=3)
    for spans in workers:
        kinds = [kind for _category, kind, _start, _end in spans]
        assert kinds.count("IteratorGetNext") == 1
        assert "CollectiveReduceV2" in kinds
        assert any("Conv2DBackprop" in kind or "Conv2DB" in kind for kind in kinds)
        assert spans[0][2] == 0
        times = exclusive_times(spans)
        assert min(times["compute"], times["all-reduce"]) > 0
        assert sum(times.values()) == pytest.approx(max(span[3] for span in spans) / 1000)
    chart = timeline_chart({f"worker {k}": spans for k, spans in enumerate(workers)})
    assert [axes.get_title(loc="left") for axes in chart.figure.axes] == ["worker 0", "worker 1"]
    assert "<img" in chart._repr_html_()


def test_an_all_reduce_counts_only_while_nothing_else_runs() -> None:
    spans = [
        ["input", "IteratorGetNext", 0, 1000],
        ["compute", "MatMul", 1000, 4000],
        ["all-reduce", "CollectiveReduceV2", 3000, 9000],
        ["compute", "MatMul", 5000, 6000],
        ["compute", "AssignAdd", 9500, 10000],
    ]
    assert exclusive_times(spans) == {
        "input": pytest.approx(1.0),
        "compute": pytest.approx(4.5),
        "all-reduce": pytest.approx(4.0),
        "idle": pytest.approx(0.5),
    }


def test_of_no_spans_nothing_is_said() -> None:
    assert set(exclusive_times([]).values()) == {0.0}
