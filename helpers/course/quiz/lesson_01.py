"""Questions on lesson 1: train on two workers."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "Two workers read their training data like this. What do they see in one epoch?"
        ),
        code="""\
workers, worker = input_context.num_input_pipelines, input_context.input_pipeline_id
dataset = tfds.load("mnist", split="train", data_dir=DATA_DIR, as_supervised=True)
dataset = dataset.shuffle(60_000, seed=worker)
dataset = dataset.shard(workers, worker)""",
        right=Choice(
            gettext_noop(
                "About a quarter of the images are read twice, and another quarter not at all."
            ),
            gettext_noop(
                "Each worker takes every second image of an order of its own, and two different "
                "orders do not divide the data. Shard first, then shuffle."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("Each image is read by exactly one of them, in an order of its own."),
                gettext_noop(
                    "That takes one order, which both divide. Here each worker has shuffled with a "
                    "seed of its own before `shard` counts."
                ),
            ),
            Choice(
                gettext_noop("Both read all of the 60,000 images, each in an order of its own."),
                gettext_noop(
                    "`shard` leaves each of them 30,000 images, wherever it stands in the pipeline."
                ),
            ),
            Choice(
                gettext_noop("Both read the same 30,000 images, because `shard` comes last."),
                gettext_noop(
                    "They take different places of different orders. Of what one of them reads, "
                    "the other reads about half."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "On four machines you start a program with `MultiWorkerMirroredStrategy`. On the "
            "fourth you forget to set `TF_CONFIG`. What happens?"
        ),
        right=Choice(
            gettext_noop("The fourth trains alone, and the other three wait until it comes."),
            gettext_noop(
                "Without the variable the strategy trains one worker, as if you had wanted that. "
                "The others have a list of four, and begin when all four are there."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("The fourth ends with an error, because it finds no cluster."),
                gettext_noop(
                    "A missing `TF_CONFIG` is no error: the process then counts as the only worker "
                    "there is."
                ),
            ),
            Choice(
                gettext_noop("The other three train, with a smaller global batch."),
                gettext_noop(
                    "Their `TF_CONFIG` lists four workers, and nobody is left out: each of them "
                    "waits for every other."
                ),
            ),
            Choice(
                gettext_noop("All four wait until the fourth is started again with `TF_CONFIG`."),
                gettext_noop(
                    "Three of them do. The fourth knows of nobody to wait for, and trains."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "You run the `input_fn` and the `model_fn` of this lesson on four workers instead of "
            "two, with the same `params`. What stays the same?"
        ),
        right=Choice(
            gettext_noop("the number of images that one worker computes in a step"),
            gettext_noop(
                "Here `batch_size` is the batch of one worker. The batches of all workers together "
                "are the global batch."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("the number of images that all workers together compute in a step"),
                gettext_noop(
                    "That is the global batch, `batch_size` times the number of workers. It grows "
                    "from 128 to 256."
                ),
            ),
            Choice(
                gettext_noop("the number of steps that make an epoch, if no image is read twice"),
                gettext_noop(
                    "With twice the global batch, an epoch has half as many steps: 234 instead of "
                    "468."
                ),
            ),
            Choice(
                gettext_noop("the learning rate that the optimizer uses when the warm-up is over"),
                gettext_noop(
                    "`make_train_op` scales it with the global batch, so it doubles as well."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "`TF_CONFIG` lists two workers, and both of them run these lines for an hour. No "
            "accuracy is written anywhere. Why?"
        ),
        code="""\
config = tf.estimator.RunConfig(model_dir=model_dir, train_distribute=strategy)
estimator = tf.estimator.Estimator(model_fn, params=params, config=config)
eval_spec = tf.estimator.EvalSpec(input_fn)
tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)""",
        right=Choice(
            gettext_noop("Neither of the two processes has the task type `evaluator`."),
            gettext_noop(
                "With several workers, `train_and_evaluate` leaves the evaluation to a process of "
                "that type. Where there is none, nothing is evaluated."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("`RunConfig` is not given `eval_distribute`."),
                gettext_noop(
                    "`eval_distribute` hands the evaluation to a strategy. Without it one process "
                    "evaluates, if there is one for that task."
                ),
            ),
            Choice(
                gettext_noop("The evaluation begins only when `max_steps` is reached."),
                gettext_noop(
                    "An evaluator evaluates checkpoints while the training goes on. Here nobody "
                    "does so, during the training or after it."
                ),
            ),
            Choice(
                gettext_noop("The chief evaluates, but keeps the results to itself."),
                gettext_noop(
                    "In this program the chief trains and saves, and does not evaluate. It does "
                    "under `LocalCluster`, which has it do so when the training is over."
                ),
            ),
        ),
    ),
)
