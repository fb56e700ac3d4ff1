"""Questions on lesson 6: evaluate while training."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "An epoch takes five minutes and ends with a checkpoint. The side-car needs ten "
            "minutes for an evaluation. What happens?"
        ),
        right=Choice(
            gettext_noop("It evaluates about every second checkpoint, and leaves out the others."),
            gettext_noop(
                "When it is done with one, it goes on with the newest that is there. The training "
                "does not wait for it."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("It evaluates all of them, and falls further behind."),
                gettext_noop(
                    "It has no queue to work off: when it is free, it takes the newest checkpoint "
                    "that is there."
                ),
            ),
            Choice(
                gettext_noop("The training waits five minutes after each epoch."),
                gettext_noop(
                    "The training does not wait for a side-car. It would for an inline evaluation."
                ),
            ),
            Choice(
                gettext_noop("It gives up an evaluation when a newer checkpoint comes."),
                gettext_noop(
                    "An evaluation that has begun is finished. Only then does the side-car look "
                    "for the newest checkpoint."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Two workers with `MultiWorkerMirroredStrategy` have this callback, and the evaluator "
            "writes the file. What can go wrong?"
        ),
        code="""\
def on_epoch_end(self, epoch, logs=None):
    if (folder / "stop").exists():
        self.model.stop_training = True""",
        right=Choice(
            gettext_noop(
                "One of them sees the file an epoch earlier, and the other then waits for it."
            ),
            gettext_noop(
                "The one that goes on needs the other for its next all-reduce. Let the workers add "
                "up what they saw, and act on the sum."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop(
                    "Both of them see the file an epoch too late, and the model is trained too "
                    "long."
                ),
                gettext_noop(
                    "A side-car's news comes a little late, and that does no harm. What must not "
                    "happen is that one worker stops and the other does not."
                ),
            ),
            Choice(
                gettext_noop(
                    "One of them sees the file an epoch earlier, and the other then trains on "
                    "alone."
                ),
                gettext_noop("No worker can go on alone: its next all-reduce waits for both."),
            ),
            Choice(
                gettext_noop(
                    "Nothing: the strategy keeps `stop_training` the same on all workers."
                ),
                gettext_noop(
                    "A strategy keeps variables the same. `stop_training` is an attribute of the "
                    "model object in each process."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "You add a side-car evaluator to a training on four workers. What changes for the "
            "workers?"
        ),
        right=Choice(
            gettext_noop("They have to save checkpoints where it can read them."),
            gettext_noop("A folder is all that the training and the evaluation have in common."),
        ),
        wrong=(
            Choice(
                gettext_noop("Their `num_replicas_in_sync` becomes 5."),
                gettext_noop("The evaluator trains no replica, and takes part in no all-reduce."),
            ),
            Choice(
                gettext_noop("They wait at the start until it is there as well."),
                gettext_noop(
                    "The evaluator belongs to no cluster, so nobody waits for it. It may come "
                    "late, or die and come back."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "The 10,000 test images come in batches of 1,000 from `create_per_worker_dataset`. The "
            "coordinator schedules this ten times, and both workers make some of the steps. What "
            "does the sum count?"
        ),
        code="""\
@tf.function
def count_right(iterator):
    images, labels = next(iterator)
    hits = tf.argmax(model(images), axis=1) == labels
    return tf.reduce_sum(tf.cast(hits, tf.int32))""",
        right=Choice(
            gettext_noop("some images twice, and others not at all"),
            gettext_noop(
                "Each worker reads a pipeline of its own, from its beginning. Pass each step a "
                "fixed range of images instead."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("each image once, as ten steps take ten batches"),
                gettext_noop(
                    "That would take one pipeline for both. Here each worker has one, and takes "
                    "its own first batches from it."
                ),
            ),
            Choice(
                gettext_noop("each image twice, as two workers read all of them"),
                gettext_noop(
                    "For that each worker would have to make ten steps. Together they make ten."
                ),
            ),
            Choice(
                gettext_noop("none, as the coordinator schedules only training"),
                gettext_noop(
                    "`schedule` takes any step, and brings its result back. Nothing says that a "
                    "step must train."
                ),
            ),
        ),
    ),
)
