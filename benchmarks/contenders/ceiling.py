"""The ceiling: the bare training step on synthetic data, without communication and input pipeline.

Each process has as many cores and threads as a worker of `LocalCluster` (on two cores: one core,
one thread). All run at the same time, because they share caches and memory. Their speeds are added.
"""

from __future__ import annotations

from benchmarks.contenders.report import Arguments, Report, StepClock, own_peaks, wait_for_peers
from helpers.course.model import make_network
from helpers.estimator import tf
from helpers.system.machine import share_cores
from helpers.worker.devices import use_cores

STEPS_PER_CALL = 10  # inside one TensorFlow function, so that Python adds no cost


def main() -> None:
    """Runs as many steps as a training run would, and reports."""
    args = Arguments.parse()
    use_cores(share_cores(args.workers)[args.rank])
    network = make_network()
    optimizer = tf.keras.optimizers.legacy.SGD(args.learning_rate, momentum=args.momentum)
    images = tf.random.uniform((args.batch_size, 28, 28, 1))
    labels = tf.random.uniform((args.batch_size,), maxval=10, dtype=tf.int64)

    def train(images: tf.Tensor, labels: tf.Tensor) -> None:
        for _ in tf.range(STEPS_PER_CALL):
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels, network(images, training=True)
                )
                loss = tf.reduce_mean(losses)
            weights = network.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    run = tf.function(train)
    run(images, labels)  # builds the graph
    wait_for_peers(args)
    clock = StepClock()
    for _ in range(max(args.steps // STEPS_PER_CALL, 2)):
        run(images, labels)
        clock.tick(STEPS_PER_CALL)
    Report(args.batch_size, clock.marks, own_peaks()).save(args.folder, args.rank)


if __name__ == "__main__":
    main()
