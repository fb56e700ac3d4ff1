"""Questions on lesson 5: train with parameter servers."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop("Each step takes one batch, and there are two workers. How does this end?"),
        code="""\
iterator = iter(coordinator.create_per_worker_dataset(
    lambda: tf.data.Dataset.range(1000).batch(10)
))
for _ in range(150):
    coordinator.schedule(step, args=(iterator,))
coordinator.join()""",
        right=Choice(
            gettext_noop("Well or with `OutOfRangeError`, depending on who is faster."),
            gettext_noop(
                "Each worker has 100 batches of its own. A worker that is handed more than 100 of "
                "the 150 steps runs out of them, so let such datasets `repeat()`."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("Always well: the two workers have 200 batches between them."),
                gettext_noop(
                    "Steps are not dealt out evenly, but to whoever is free. One worker alone may "
                    "come to the end of its 100 batches."
                ),
            ),
            Choice(
                gettext_noop("Always with `OutOfRangeError`: they share 100 batches."),
                gettext_noop(
                    "Nobody shards for you here. Each worker builds its own pipeline, and reads "
                    "everything."
                ),
            ),
            Choice(
                gettext_noop("Always with `OutOfRangeError`: an epoch has 100 steps."),
                gettext_noop(
                    "Here there are no epochs, only steps. The error comes when a worker's own "
                    "pipeline is at its end, and that need not happen."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "A firewall forbids connections from one worker to another. All others are allowed. "
            "What becomes of a training with parameter servers?"
        ),
        right=Choice(
            gettext_noop("It runs as before, since no worker has to reach another."),
            gettext_noop(
                "The coordinator calls all the others, and the workers call the parameter servers. "
                "Nothing else is needed."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("It waits for ever in the first all-reduce."),
                gettext_noop(
                    "There is no all-reduce. Gradients are sent to the parameter servers, and "
                    "applied there."
                ),
            ),
            Choice(
                gettext_noop("It runs, but each worker trains a model of its own."),
                gettext_noop(
                    "There is only one set of variables, on the parameter servers, and the updates "
                    "of all workers reach it."
                ),
            ),
            Choice(
                gettext_noop("It waits until all workers have found each other."),
                gettext_noop(
                    "They need not find each other, as they would with "
                    "`MultiWorkerMirroredStrategy`. The coordinator has to reach them, and it can."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "The variable takes 25.6 MB, and there are four parameter servers. Where is it?"
        ),
        code="""\
partitioner = MinSizePartitioner(min_shard_bytes=1_000_000)
strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
with strategy.scope():
    table = tf.Variable(tf.zeros([100_000, 64]))""",
        right=Choice(
            gettext_noop("on one of the four servers, as a whole"),
            gettext_noop(
                "`max_shards` is 1 unless you say more. With `max_shards=4`, each server would "
                "hold a quarter."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("on four servers, a quarter on each"),
                gettext_noop(
                    "`max_shards=4` would do that. By itself, the partitioner does not ask how "
                    "many servers there are."
                ),
            ),
            Choice(
                gettext_noop("on four servers, in 25 shards of about 1 MB"),
                gettext_noop(
                    "The size alone would allow as many, but `max_shards` is 1 unless you say more."
                ),
            ),
            Choice(
                gettext_noop("on four servers, with a full copy on each"),
                gettext_noop(
                    "Parameter servers hold no copies: a variable, or a shard of one, is on one of "
                    "them."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "With three workers the loss fell smoothly. With thirty it jumps up and down. What do "
            "you try first?"
        ),
        right=Choice(
            gettext_noop("a lower learning rate"),
            gettext_noop(
                "More updates arrive while a worker computes, so its gradient is staler when it "
                "comes. Shorter steps make that do less harm."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("a learning rate ten times as high"),
                gettext_noop(
                    "The rule to scale it is for a global batch that grows. Here each update comes "
                    "from one worker's batch, as before."
                ),
            ),
            Choice(
                gettext_noop("batches of a tenth of the size"),
                gettext_noop("Smaller batches make each gradient noisier, and no less stale."),
            ),
            Choice(
                gettext_noop("more parameter servers"),
                gettext_noop(
                    "They share the traffic. But there are still thirty workers, each of which "
                    "changes what the others have read."
                ),
            ),
        ),
    ),
)
