"""The same Keras `fit` with this package's threads and input: `LocalCluster(...).run(function)`."""

from __future__ import annotations

import time
from functools import partial

from benchmarks.contenders.keras_fit import compiled_network, evaluate, length
from benchmarks.contenders.ours import Watch
from benchmarks.contenders.report import Arguments, Report
from helpers import LocalCluster, input_fn
from helpers.estimator import tf
from helpers.keras_callbacks import StepReportCallback
from helpers.worker.context import WorkerContext


def train(args: Arguments, context: WorkerContext) -> float | None:
    """Trains in every worker, with its Keras version. The chief returns the accuracy."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    params = {"batch_size": args.batch_size}
    dataset = strategy.distribute_datasets_from_function(
        lambda input_context: input_fn("train", params, input_context).repeat()
    )
    with strategy.scope():
        network = compiled_network(args)
    report = StepReportCallback(context, args.global_batch)
    network.fit(dataset, verbose=0, callbacks=[report], **length(args))
    chief = context.config.task == context.config.chief
    return evaluate(network.get_weights()) if chief else None


def main() -> None:
    """Trains, and reports the data from the events."""
    args = Arguments.parse()
    with LocalCluster(workers=args.workers, max_restarts=0) as cluster:
        watch = Watch(cluster)
        accuracy, *_others = cluster.run(partial(train, args), keras=2, on_event=watch)
    report = Report(args.global_batch, watch.marks, watch.peaks, accuracy, evaluated=time.time())
    report.save(args.folder, args.rank)


if __name__ == "__main__":
    main()
