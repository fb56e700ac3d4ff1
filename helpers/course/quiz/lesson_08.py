"""Questions on lesson 8: survive failures."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "One of the workers is never started. Half an hour later the others still wait, "
            "without a word. Why does the deadline not help?"
        ),
        code="""\
options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=30)
strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
print("all are here", flush=True)""",
        right=Choice(
            gettext_noop("It limits the wait in an all-reduce, and none has begun."),
            gettext_noop(
                "The constructor waits until all workers have come, with a deadline of "
                "TensorFlow's own, about an hour. A supervisor can notice sooner."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("It has to be set on the worker that is missing."),
                gettext_noop(
                    "A deadline is for those who wait. But these wait in the constructor, and not "
                    "in an all-reduce."
                ),
            ),
            Choice(
                gettext_noop("It begins only when a connection is closed."),
                gettext_noop(
                    "It needs no closed connection. Beside a frozen peer, whose connections stay "
                    "open, it is what helps."
                ),
            ),
            Choice(
                gettext_noop("It is printed as a warning, which nobody has looked for."),
                gettext_noop(
                    "An all-reduce that passes its deadline raises `DeadlineExceededError`. Here "
                    "no all-reduce was reached."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Under parameter servers, 24 steps with the numbers 0 to 23 begin with these lines, "
            "and then compute. One worker is killed and replaced. What do you find at the end?"
        ),
        code="""\
@tf.function
def step(number):
    total.assign_add(1)
    done.scatter_update(tf.IndexedSlices(tf.constant(1), number))""",
        right=Choice(
            gettext_noop("`total` is 24 or more, and the sum of `done` is 24"),
            gettext_noop(
                "A step that was under way is run again by another worker. To add twice changes "
                "the result, and to mark a number twice does not."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("`total` is 24, and the sum of `done` is 24 or more"),
                gettext_noop(
                    "It is the other way about: `done` has one place for each number, and a 1 "
                    "written there twice is still a 1."
                ),
            ),
            Choice(
                gettext_noop("both are 24, since what was half done is undone"),
                gettext_noop(
                    "Nothing is undone. What has reached the parameter server stays there, and "
                    "then the step runs again."
                ),
            ),
            Choice(
                gettext_noop("both are 23, since the step of the lost worker is lost"),
                gettext_noop(
                    "The coordinator has it run again by somebody else, so every step is done at "
                    "least once."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Eight workers train with `MultiWorkerMirroredStrategy`, and a checkpoint is saved "
            "every 200 steps. After step 730 one of them dies. How does it go on?"
        ),
        right=Choice(
            gettext_noop("All eight start again, from step 600."),
            gettext_noop(
                "A group takes nobody in again, and the last checkpoint is the place from which to "
                "go on. 130 steps are trained once more."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("Seven go on, with a smaller global batch."),
                gettext_noop(
                    "Nobody is left out. The exchange is broken for all of them, and stays so."
                ),
            ),
            Choice(
                gettext_noop("Another one replaces it, and joins at step 731."),
                gettext_noop(
                    "So it is with a worker beside parameter servers. A group with all-reduce "
                    "takes nobody in again."
                ),
            ),
            Choice(
                gettext_noop("All eight start again, from step 0."),
                gettext_noop(
                    "Every worker had all the weights, and so has the checkpoint. Only what came "
                    "after it is lost."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "You move from 8 machines to 32, so faults come four times as often. A checkpoint "
            "takes as long as before. What is now the best interval between two of them?"
        ),
        right=Choice(
            gettext_noop("half as long"),
            gettext_noop(
                "The best interval grows with the square root of the time between faults, and the "
                "root of a quarter is a half."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("a quarter as long"),
                gettext_noop(
                    "Then you would save four times as often, and lose more time by saving than "
                    "you win."
                ),
            ),
            Choice(
                gettext_noop("as long as before"),
                gettext_noop(
                    "Each fault costs half an interval on average, and there are four times as "
                    "many. So it pays to save more often."
                ),
            ),
            Choice(
                gettext_noop("twice as long"),
                gettext_noop(
                    "The more faults there are, the closer together checkpoints should be, and not "
                    "the further apart."
                ),
            ),
        ),
    ),
)
