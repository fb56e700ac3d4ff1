"""Questions on lesson 9: parameter servers with Estimator."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop("You train five epochs with this pipeline. What is wrong with it?"),
        code="""\
dataset = load("train", params, input_context)
dataset = dataset.shuffle(10_000).cache()
dataset = dataset.batch(64).map(scale).prefetch(2)""",
        right=Choice(
            gettext_noop("Every epoch has the images in the same order."),
            gettext_noop(
                "`cache` keeps what it was given, and so the order of the first epoch too. Put "
                "`shuffle` after `cache`."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("Every epoch decodes all of the images again."),
                gettext_noop(
                    "From the second epoch on the images come from the cache, where they are kept "
                    "decoded."
                ),
            ),
            Choice(
                gettext_noop("The batches change places, with the same images in each."),
                gettext_noop(
                    "That is what `batch` before `shuffle` does. Here not even the batches change "
                    "places."
                ),
            ),
            Choice(
                gettext_noop("`scale` is called anew for every single image."),
                gettext_noop("It comes after `batch`, so that one call scales 64 images."),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "60,000 images lie sorted by class, 6,000 of each. A pipeline has `shuffle(1_000)` and "
            "then `batch(64)`. What is in the first batch?"
        ),
        right=Choice(
            gettext_noop("images of one class only"),
            gettext_noop(
                "An image comes at most 999 places early, and the second class begins 6,000 places "
                "from the start."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("images of two or three classes"),
                gettext_noop(
                    "For that the buffer would have to reach into the second class, and it "
                    "begins with the first 1,000 images."
                ),
            ),
            Choice(
                gettext_noop("some six images of each class"),
                gettext_noop(
                    "That takes a buffer as large as the data, or files that are in random order "
                    "already."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "A chief and eight workers train an Estimator beside a parameter server, with "
            "`max_steps=1000`. How many steps do they make in all?"
        ),
        right=Choice(
            gettext_noop("1,000 or a few more"),
            gettext_noop(
                "There is one global step, to which all nine of them add. Each stops when it finds "
                "that 1,000 is reached, and steps under way still count."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("1,000 exactly"),
                gettext_noop(
                    "So it would be in a synchronous group. Here a worker sees only when it looks "
                    "how far the others have come."
                ),
            ),
            Choice(
                gettext_noop("8,000, or 1,000 for each worker"),
                gettext_noop(
                    "The global step is one variable, and counts the steps of all. (The chief "
                    "trains here as well.)"
                ),
            ),
            Choice(
                gettext_noop("9,000, or 1,000 for each of the nine"),
                gettext_noop(
                    "The global step is one variable on the parameter server, and counts the steps "
                    "of all."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Eight workers train no faster than four did. Their processors are idle half of the "
            "time, and the link of the only parameter server is always busy. What do you add?"
        ),
        right=Choice(
            gettext_noop("another parameter server"),
            gettext_noop(
                "All gradients and all variables pass through that link. With two servers, the "
                "variables are dealt out to both."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("eight more workers"),
                gettext_noop("They would bring more traffic to a link that is full already."),
            ),
            Choice(
                gettext_noop("a faster processor for each worker"),
                gettext_noop(
                    "The workers wait for the link already. They would wait a little longer."
                ),
            ),
            Choice(
                gettext_noop("a faster link for the chief"),
                gettext_noop(
                    "The chief trains as a worker does. What all the others wait for does not pass "
                    "through it."
                ),
            ),
        ),
    ),
)
