"""Questions on lesson 10: make it faster."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "One worker computes a step of 100 examples in 20 ms. With two, each on a machine of "
            "its own and with 100 examples, the all-reduce adds 10 ms to a step. How many times as "
            "many examples a second do they train on?"
        ),
        right=Choice(
            gettext_noop("1.33"),
            gettext_noop(
                "200 examples in 30 ms are 6,667 a second. 100 examples in 20 ms were 5,000."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("2.00"),
                gettext_noop("So it would be if the exchange took no time."),
            ),
            Choice(
                gettext_noop("1.50"),
                gettext_noop(
                    "A step takes 1.5 times as long as before. In that time, there are twice as "
                    "many examples."
                ),
            ),
            Choice(
                gettext_noop("0.67"),
                gettext_noop(
                    "There are two thirds as many steps in a second, but each step has twice as "
                    "many examples."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "What this pipeline keeps in its cache does not fit into memory. Which order needs a "
            "quarter of the memory, and the least time?"
        ),
        code="""\
dataset = load("train").map(scale)
dataset = dataset.cache().shuffle(1_000).batch(64)""",
        right=Choice(
            gettext_noop("`cache().shuffle(1_000).batch(64).map(scale)`"),
            gettext_noop(
                "The cache holds `uint8` instead of `float32`, and one call of `scale` does 64 "
                "images."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("`cache().map(scale).shuffle(1_000).batch(64)`"),
                gettext_noop(
                    "It needs as little memory, but calls `scale` for every single image, in every "
                    "epoch."
                ),
            ),
            Choice(
                gettext_noop("`map(scale).shuffle(1_000).batch(64)`"),
                gettext_noop(
                    "Without a cache every image is decoded again in every epoch, and that takes "
                    "the most time."
                ),
            ),
            Choice(
                gettext_noop("`map(scale).batch(64).cache().shuffle(1_000)`"),
                gettext_noop(
                    "The cache still holds `float32`. And whole batches change places, so the same "
                    "images stay together."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "In a ring of eight, each worker sends 1.75 times the size of the gradients in a step. "
            "How much does each send in a ring of 64?"
        ),
        right=Choice(
            gettext_noop("a little more, about twice the size of the gradients"),
            gettext_noop(
                "It is 2(N − 1)/N times their size. The more workers there are, the closer that "
                "comes to 2, which it never reaches."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("eight times as much as in a ring of eight"),
                gettext_noop(
                    "It would grow about so if each sent its gradients to all the others. In a "
                    "ring it sends parts of them to one neighbour."
                ),
            ),
            Choice(
                gettext_noop("an eighth of what it was in a ring of eight"),
                gettext_noop(
                    "The parts are smaller, but there are more rounds, in each of which a part is "
                    "sent."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "A step takes 20 ms of computation and 10 ms of exchange, one after the other. On your "
            "GPUs, `mixed_bfloat16` halves the computation. How long is the step now?"
        ),
        right=Choice(
            gettext_noop("20 ms"),
            gettext_noop(
                "10 ms of computation, and 10 ms of exchange as before: gradients have the type of "
                "the weights, which stay in 32 bits."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("15 ms"),
                gettext_noop(
                    "That would be half of everything. But the gradients are exchanged in 32 bits, "
                    "as before."
                ),
            ),
            Choice(
                gettext_noop("30 ms"),
                gettext_noop(
                    "The weights stay in 32 bits, and so does the exchange. The computation does "
                    "not."
                ),
            ),
        ),
    ),
)
