"""Questions on lesson 11: move to Keras."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "You compare an Estimator with its Keras twin. At step 1 the losses agree in all "
            "digits. At step 2 they differ by 0.3. Where do you look first?"
        ),
        right=Choice(
            gettext_noop("at the optimizer and the learning rate"),
            gettext_noop(
                "At step 1, the same weights saw the same data and were given the same loss. What "
                "came in between is the first update."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("at the weights to begin with"),
                gettext_noop(
                    "With other weights, the losses would have differed at step 1 already."
                ),
            ),
            Choice(
                gettext_noop("at the number that the loss is divided by"),
                gettext_noop(
                    "With another number, the losses would have differed at step 1 already."
                ),
            ),
            Choice(
                gettext_noop("nowhere, since it is rounding"),
                gettext_noop(
                    "Rounding begins at about 1e-7 and grows slowly. A difference of 0.3 after one "
                    "step is another computation."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "The Estimator was trained to step 10,000, and the schedule warms the learning rate up "
            "in the first hundred steps. What is wrong when the training goes on like this?"
        ),
        code="""\
model = make_model(Schedule(global_batch))
load_estimator_weights(model, model_dir)
model.fit(data, epochs=1, steps_per_epoch=500)""",
        right=Choice(
            gettext_noop(
                "The learning rate is warmed up a second time, in the next hundred steps."
            ),
            gettext_noop(
                "It depends on `optimizer.iterations`, which is 0 in a new model. Assign the "
                "checkpoint's `global_step` to it."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("The weights are random again when `fit` begins."),
                gettext_noop(
                    "`fit` begins with the weights that the model has, and these are now the ones "
                    "of the checkpoint."
                ),
            ),
            Choice(
                gettext_noop("Without its momentum, it learns nothing for a long time."),
                gettext_noop(
                    "The momentum is lost, but it is built up again within some twenty steps."
                ),
            ),
            Choice(
                gettext_noop("`fit` ends at once, since step 500 has passed long ago."),
                gettext_noop("`fit` counts its own steps, and does not look at a `global_step`."),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "On two workers, a callback of the Keras twin is given losses in `on_train_batch_end` "
            "that are exactly twice those of the Estimator. The loss of the epoch is the same in "
            "both. What is wrong?"
        ),
        right=Choice(
            gettext_noop("the value that the callback is given, and nothing else"),
            gettext_noop(
                "For the callback, `fit` adds up over the workers what is an average already. The "
                "gradients, and the logs of the epoch, are right."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("the loss, which is divided by a worker's own batch"),
                gettext_noop(
                    "Then the gradients would be twice as long too, and the loss of the epoch "
                    "would not be the same."
                ),
            ),
            Choice(
                gettext_noop("the learning rate, which is not scaled for two workers"),
                gettext_noop(
                    "Then the losses would agree at step 1, and drift apart from step 2 on."
                ),
            ),
            Choice(
                gettext_noop("the data, of which each worker reads everything"),
                gettext_noop(
                    "The loss is a mean. More or other data would change it, but not double it."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "You replace an exported Estimator by a Keras model with the same weights, saved with "
            "`model.export`. Old clients get errors. Why?"
        ),
        right=Choice(
            gettext_noop("Inputs and outputs have other names."),
            gettext_noop(
                "`model.export` chooses names by itself. With `tf.saved_model.save` and a function "
                "as signature, you choose them."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("The signature has another name."),
                gettext_noop(
                    "It is called `serving_default` in both. What differs is what it takes and "
                    "what it returns."
                ),
            ),
            Choice(
                gettext_noop("The images need another shape."),
                gettext_noop(
                    "Their shape and their type are those of the network, and that has not changed."
                ),
            ),
            Choice(
                gettext_noop("The clients have no Keras installed."),
                gettext_noop(
                    "They need none: an exported model is a graph with signatures, whoever has "
                    "made it."
                ),
            ),
        ),
    ),
)
