"""Questions on lesson 12: Keras 3 on several workers."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "Which of these needs `import helpers.keras_3` to train, and is helped by it?"
        ),
        right=Choice(
            gettext_noop("`fit` with `MultiWorkerMirroredStrategy` on two machines"),
            gettext_noop(
                "There Keras 3 asks for two means that cannot be taken on several workers, and "
                "ends before the first step."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("`fit` with `MirroredStrategy` on a machine with eight GPUs"),
                gettext_noop("In one process `fit` trains as ever, on one device or on several."),
            ),
            Choice(
                gettext_noop("a loop with `strategy.run` on two machines"),
                gettext_noop(
                    "A loop of your own does not pass the two places at which `fit` fails. Nothing "
                    "in it needs to be replaced."
                ),
            ),
            Choice(
                gettext_noop("`fit` with `ParameterServerStrategy` on five machines"),
                gettext_noop(
                    "It does fail with Keras 3, but the import does not help. Write a loop with a "
                    "`ClusterCoordinator`, or stay with Keras 2."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Two workers come to these lines after `fit`, under Keras 3. What must not stand below "
            "the `if`?"
        ),
        code="""\
if context.config.task == context.config.chief:
    model.save("model.keras")
    loss, accuracy = model.evaluate(test)
    print(accuracy)""",
        right=Choice(
            gettext_noop("`evaluate`: the chief would wait for its peer"),
            gettext_noop(
                "Every worker takes its part of the test images, so all must call it. The chief "
                "alone saves and prints."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("`save`: the chief would wait for its peer"),
                gettext_noop(
                    "So it is with Keras 2. With Keras 3 there is nothing to add up over the "
                    "workers, and the chief saves alone."
                ),
            ),
            Choice(
                gettext_noop("`save` and `evaluate`: the model belongs to both"),
                gettext_noop(
                    "That is so of `evaluate`. If both called `save`, two processes would write to "
                    "one file."
                ),
            ),
            Choice(
                gettext_noop("none of them: after `fit` each is on its own"),
                gettext_noop(
                    "The model still belongs to the strategy, and `evaluate` is done by all "
                    "workers together."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "With a global batch of 128, the gradient of four workers is that of one, but for "
            "rounding. That of six workers differs in the third digit. Why?"
        ),
        right=Choice(
            gettext_noop("128 examples cannot be divided evenly among six."),
            gettext_noop(
                "Each worker takes the mean over its part, and all means count alike. So an "
                "example in a smaller part counts more. Take 120 or 132 examples."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("With more workers, rounding errors add up."),
                gettext_noop(
                    "Rounding changes the last of some seven digits, and two more workers do not "
                    "bring that to the third."
                ),
            ),
            Choice(
                gettext_noop("The learning rate was not scaled for six workers."),
                gettext_noop(
                    "A learning rate does not change a gradient. And the global batch is the same "
                    "as before."
                ),
            ),
            Choice(
                gettext_noop("The slowest gradients come too late to be added."),
                gettext_noop(
                    "None comes too late: the training is synchronous, and a step waits for all "
                    "gradients."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "A model has a layer `BatchNormalization()`. Four workers train it on a global batch "
            "of 32. How many images go into the mean with which a worker normalizes?"
        ),
        right=Choice(
            gettext_noop("8"),
            gettext_noop(
                "Each worker normalizes with its own part of the batch. With `synchronized=True`, "
                "it would be all 32."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("32"),
                gettext_noop(
                    "Only with `synchronized=True`. By themselves, the workers exchange gradients, "
                    "and not the statistics of a batch."
                ),
            ),
            Choice(
                gettext_noop("128"),
                gettext_noop(
                    "The four workers share the 32 images of the global batch: each of them has 8."
                ),
            ),
        ),
    ),
)
