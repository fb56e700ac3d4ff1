"""Questions on lesson 3: train with Keras fit."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "How many examples does each GPU get in a step, and which batch should the learning "
            "rate suit?"
        ),
        code="""\
strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1", "GPU:2", "GPU:3"])
with strategy.scope():
    model = make_model(learning_rate)
model.fit(images, labels, batch_size=64)""",
        right=Choice(
            gettext_noop("16 examples; a batch of 64"),
            gettext_noop(
                "`batch_size` in `fit` is the global batch. It is split between the replicas, and "
                "all of it makes one update."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("64 examples; a batch of 256"),
                gettext_noop(
                    "So it would be if `batch_size` were that of one replica. `fit` splits the 64 "
                    "instead."
                ),
            ),
            Choice(
                gettext_noop("16 examples; a batch of 16"),
                gettext_noop(
                    "One replica sees 16 examples, but the update is made from the gradients of "
                    "all four."
                ),
            ),
            Choice(
                gettext_noop("64 examples; a batch of 64"),
                gettext_noop(
                    "If each of four GPUs had 64 examples, the update would be that of 256."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "A dataset reads four files. You pass it to `fit` on eight workers, and choose no "
            "auto-shard policy. What happens?"
        ),
        right=Choice(
            gettext_noop("The program ends with an error, since there are too few files."),
            gettext_noop(
                "For a dataset that reads files, `AUTO` means `FILE`, and four files cannot be "
                "dealt out to eight workers. Write more files, or choose `DATA`."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("TensorFlow sees that there are too few files, and takes `DATA`."),
                gettext_noop(
                    "`AUTO` takes `DATA` where a dataset reads no files. Where it reads files, it "
                    "takes `FILE`, even if they are too few."
                ),
            ),
            Choice(
                gettext_noop(
                    "Four workers train, and the other four get empty batches in every step."
                ),
                gettext_noop(
                    "A worker gets empty batches when its files come to an end before those of the "
                    "others. To have no file at all is an error."
                ),
            ),
            Choice(
                gettext_noop("Every file is read by two workers, so each example counts twice."),
                gettext_noop(
                    "`FILE` never gives one file to two workers. Under `OFF` everybody would read "
                    "everything."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Two workers run these lines with Keras 2, and worker 0 never gets past the last one. "
            "What do you change?"
        ),
        code="""\
model.fit(data, epochs=5, steps_per_epoch=100)
if resolver.task_id == 0:
    model.save("/shared/model")""",
        right=Choice(
            gettext_noop("Worker 1 calls `save` too, with a path that is then thrown away."),
            gettext_noop(
                "Before it writes, `save` adds up values of which each worker has a part, so all "
                "must call it. Only the chief's files count."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("Worker 1 calls `save` too, with the same path."),
                gettext_noop(
                    "All must call it, but two processes that write to one file spoil it."
                ),
            ),
            Choice(
                gettext_noop("Worker 1 waits until worker 0 has saved the model."),
                gettext_noop(
                    "To be there is not enough: worker 0 waits in an all-reduce, and that ends "
                    "only when worker 1 takes part in it."
                ),
            ),
            Choice(
                gettext_noop("Worker 0 saves to a folder that nobody shares with it."),
                gettext_noop(
                    "It does not wait for a file. Before anything is written, values are added up "
                    "over the workers, and for that all are needed."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "A dataset reads one large file, and its pipeline neither shards nor shuffles. You set "
            "the auto-shard policy `OFF`, and train on four workers. What do you gain over one?"
        ),
        right=Choice(
            gettext_noop("nothing, since all four compute the same gradient"),
            gettext_noop(
                "Under `OFF` everybody reads everything, and here in the same order too. The mean "
                "of four equal gradients is any one of them."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("four times the speed, since each reads a part of the file"),
                gettext_noop(
                    "That would be `DATA`, under which each worker keeps its part of every batch."
                ),
            ),
            Choice(
                gettext_noop("a less noisy gradient, since it comes from more examples"),
                gettext_noop(
                    "For that the examples would have to differ. Without shards, and without a "
                    "seed of its own, each worker has the same ones."
                ),
            ),
        ),
    ),
)
