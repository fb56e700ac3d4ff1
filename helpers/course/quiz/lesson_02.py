"""Questions on lesson 2: choose a strategy."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "This program is meant to train on all GPUs of a machine. What has to be moved?"
        ),
        code="""\
strategy = tf.distribute.MirroredStrategy()
model = make_model()
with strategy.scope():
    model.compile("sgd", "mse")
    model.fit(dataset, epochs=5)""",
        right=Choice(
            gettext_noop("`make_model()`, into the scope"),
            gettext_noop(
                "The variables come into being there, and only under the scope does the strategy "
                "make a copy of them for each replica."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("`model.fit`, out of the scope"),
                gettext_noop(
                    "`fit` finds the strategy of its model by itself. It works inside the scope "
                    "and outside of it."
                ),
            ),
            Choice(
                gettext_noop("`model.compile`, out of the scope"),
                gettext_noop(
                    "The optimizer and the metrics have variables too. They belong in the scope, "
                    "as the model does."
                ),
            ),
            Choice(
                gettext_noop("`MirroredStrategy()`, into the scope"),
                gettext_noop(
                    "There is no scope before there is a strategy: the strategy is made first, and "
                    "then opens its scope."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Two machines have four GPUs each, and on each of them you start one worker with "
            "`MultiWorkerMirroredStrategy`. What is `num_replicas_in_sync`?"
        ),
        right=Choice(
            gettext_noop("8"),
            gettext_noop(
                "Each GPU of each worker holds a copy of the model, and all eight take every step "
                "together."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("4"),
                gettext_noop(
                    "That would be `MirroredStrategy` on one machine. Here the gradients of both "
                    "machines are added up in each step."
                ),
            ),
            Choice(
                gettext_noop("2"),
                gettext_noop(
                    "That is the number of workers. A worker with four GPUs is four replicas."
                ),
            ),
            Choice(
                gettext_noop("1"),
                gettext_noop(
                    "So it is with parameter servers and workers without GPUs, which are not in "
                    "step with each other. Here all are."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Ten workers without GPUs train on this dataset, beside parameter servers. From how "
            "many examples does a worker compute one gradient?"
        ),
        code="""\
strategy = tf.distribute.ParameterServerStrategy(resolver)
batch_size = 64 * strategy.num_replicas_in_sync
dataset = make_dataset().repeat().batch(batch_size)""",
        right=Choice(
            gettext_noop("64"),
            gettext_noop(
                "`num_replicas_in_sync` is 1, because these workers are not in step with each "
                "other. So the batch is 64, and nobody splits it."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("640"),
                gettext_noop(
                    "`num_replicas_in_sync` counts what is in step with each other, and the ten "
                    "workers are not: it is 1."
                ),
            ),
            Choice(
                gettext_noop("6 or 7"),
                gettext_noop(
                    "A batch would be split so in a synchronous group. Here each worker takes "
                    "whole batches of 64."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "One of four machines is half as fast as the others, and they should not wait for it. "
            "Which strategy do you choose, and what is its price?"
        ),
        right=Choice(
            gettext_noop("`ParameterServerStrategy`: some gradients are computed from old values."),
            gettext_noop(
                "Each worker sends its update when it is ready. Nobody waits, but others may have "
                "changed the variables in the meantime, and no two runs are the same."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop(
                    "`MultiWorkerMirroredStrategy`: the gradients of the slow machine are left out."
                ),
                gettext_noop("Nothing is left out: in each step, all wait for the slowest."),
            ),
            Choice(
                gettext_noop(
                    "`CentralStorageStrategy`: all gradients travel to the machine that has the "
                    "variables."
                ),
                gettext_noop(
                    "It is a synchronous strategy for the devices of one machine, with the "
                    "variables on the CPU."
                ),
            ),
            Choice(
                gettext_noop(
                    "`MirroredStrategy`: the copies of the slow machine lag behind the others."
                ),
                gettext_noop(
                    "It is for one machine. And copies never lag behind: every replica applies the "
                    "same sum in every step."
                ),
            ),
        ),
    ),
)
