"""Questions on lesson 4: write a training loop."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "These lines run on each of eight replicas, with 32 examples each; the optimizer is "
            "`SGD`. On one GPU the program learned well. What does it do on eight?"
        ),
        code="""\
with tf.GradientTape() as tape:
    losses = example_losses(labels, network(images))
    loss = tf.reduce_mean(losses)
gradients = tape.gradient(loss, variables)
optimizer.apply_gradients(zip(gradients, variables))""",
        right=Choice(
            gettext_noop("It trains as if the learning rate were eight times as high."),
            gettext_noop(
                "Each replica divides by 32, and the eight gradients are added up. Divided by 256, "
                "the global batch, their sum would be the mean."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("It trains as before, on the mean of the eight means."),
                gettext_noop(
                    "The mean of the eight would be right. But `apply_gradients` adds the "
                    "gradients up."
                ),
            ),
            Choice(
                gettext_noop("It trains as if the learning rate were an eighth of what it is."),
                gettext_noop("The sum of eight means is eight times too large, not too small."),
            ),
            Choice(
                gettext_noop("It ends with an error, since a loss must not be divided like this."),
                gettext_noop(
                    "Only the losses of Keras 2 refuse it. What your own `reduce_mean` is for, "
                    "TensorFlow cannot know."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "`replica_step` computes its loss with `compute_average_loss`, applies the gradient, "
            "and returns the loss. There are four replicas. What is wrong with this step?"
        ),
        code="""\
@tf.function
def step(iterator):
    losses = strategy.run(replica_step, args=next(iterator))
    return strategy.reduce("MEAN", losses, axis=None)""",
        right=Choice(
            gettext_noop(
                "It reports a quarter of the loss, but the weights that it learns are right."
            ),
            gettext_noop(
                "Each value is already a share of the mean over the global batch, so `SUM` is "
                "right. The weights were changed before, inside `replica_step`."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("It reports a quarter of the loss, and learns a quarter as fast."),
                gettext_noop(
                    "The first is so. But the gradient does not come this way: `apply_gradients` "
                    "has exchanged and applied it already."
                ),
            ),
            Choice(
                gettext_noop("Nothing: the mean of four mean losses is the mean of all."),
                gettext_noop(
                    "`compute_average_loss` divides by the global batch. So each value is a "
                    "quarter of a mean over the replica's own part."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Two workers run this loop, and each takes `deadline` from its own clock. What can go "
            "wrong at the end?"
        ),
        code="""\
for number in range(10_000):
    loss = step(iterator)
    if time.monotonic() > deadline:
        break""",
        right=Choice(
            gettext_noop("One of them stops, and the other waits for it in the next step."),
            gettext_noop(
                "All workers must make the same calls in the same order. Let them all decide by "
                "something that is the same for all, such as a number of steps."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("One of them stops, and the other makes its last steps alone."),
                gettext_noop(
                    "No worker can make a step alone: in each there is an all-reduce, which waits "
                    "for everybody."
                ),
            ),
            Choice(
                gettext_noop("One of them stops, and its weights are a step behind the other's."),
                gettext_noop(
                    "Its peer cannot get ahead of it. A step needs both, so their weights stay "
                    "equal, and one of them waits."
                ),
            ),
            Choice(
                gettext_noop("Nothing: they end each step together, so they stop together."),
                gettext_noop(
                    "They end a step at almost the same moment, and then each looks at its own "
                    "clock. One may look before its deadline and the other after."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "There are four workers, each with one replica. On how many examples does one step "
            "train?"
        ),
        code="""\
global_batch = 64 * strategy.num_replicas_in_sync
distributed = strategy.distribute_datasets_from_function(
    lambda input_context: make_shard(input_context).batch(global_batch)
)""",
        right=Choice(
            gettext_noop("1,024"),
            gettext_noop(
                "The function makes the batches of one replica, and nobody splits them: four times "
                "256 examples. Batch by 64 here."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("256"),
                gettext_noop(
                    "So it would be with `experimental_distribute_dataset`, which splits each "
                    "global batch."
                ),
            ),
            Choice(
                gettext_noop("64"),
                gettext_noop(
                    "That was meant to be the part of one replica, but each of them gets a whole "
                    "batch of 256."
                ),
            ),
        ),
    ),
)
