"""Questions on lesson 7: run on a real cluster."""

from __future__ import annotations

from helpers.course.quiz.question import Choice, Question
from helpers.i18n import gettext_noop

QUESTIONS = (
    Question(
        gettext_noop(
            "You set this `TF_CONFIG` on both machines, and start the same program with "
            "`MultiWorkerMirroredStrategy`. What happens?"
        ),
        code="""\
{"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
 "task": {"type": "worker", "index": 0}}""",
        right=Choice(
            gettext_noop("The training never begins: there is no worker 1."),
            gettext_noop(
                "`cluster` is the same everywhere, but `task` must differ: on the second machine, "
                "`index` has to be 1."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("The training begins: each finds its own address."),
                gettext_noop(
                    "A process does not look for its own address. It takes the place that `task` "
                    "gives it."
                ),
            ),
            Choice(
                gettext_noop("Each machine trains alone, as its own cluster."),
                gettext_noop(
                    "That happens without `TF_CONFIG`. With this one, each process expects two "
                    "workers."
                ),
            ),
            Choice(
                gettext_noop("The training begins, but both read the same shard."),
                gettext_noop(
                    "For that they would have to be one group. Both are worker 0, so the group is "
                    "never complete."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "On three machines, a chief, a worker and an evaluator run the `program.py` of this "
            "lesson. Each is given `/tmp/model`, a folder on its own disk. What happens?"
        ),
        right=Choice(
            gettext_noop("The training succeeds, and the evaluator finds nothing to evaluate."),
            gettext_noop(
                "The chief writes its checkpoints to its own disk, and the evaluator waits for "
                "them on another. The folder has to be shared."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop(
                    "All goes well, since checkpoints reach the evaluator over the network."
                ),
                gettext_noop(
                    "The evaluator is connected to nobody. All that it learns, it reads in the "
                    "folder."
                ),
            ),
            Choice(
                gettext_noop("Nothing begins, since the workers cannot find each other."),
                gettext_noop(
                    "They find each other by the addresses in `TF_CONFIG`. The folder is for "
                    "checkpoints."
                ),
            ),
            Choice(
                gettext_noop(
                    "The training succeeds, and the evaluator evaluates untrained weights."
                ),
                gettext_noop(
                    "These, too, it would have to read from a checkpoint, and there is none on its "
                    "disk."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "So far you have trained on three machines, started by hand. What do you change to use "
            "eight?"
        ),
        right=Choice(
            gettext_noop("`cluster` in the `TF_CONFIG` of all, and start all of them anew"),
            gettext_noop(
                "Everybody needs the same list, and reads it at the start. The program stays as it "
                "is."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("`TF_CONFIG` of the five new ones, which then join the others"),
                gettext_noop(
                    "The first three would still have a list of three, and would not know of the "
                    "new ones."
                ),
            ),
            Choice(
                gettext_noop("`TF_CONFIG` of the chief, which tells the other seven"),
                gettext_noop("The chief tells nobody. Each process reads its own `TF_CONFIG`."),
            ),
            Choice(
                gettext_noop("the program, which has to know the number of workers"),
                gettext_noop(
                    "The program asks the strategy or the cluster resolver, and they take the "
                    "number from `TF_CONFIG`."
                ),
            ),
        ),
    ),
    Question(
        gettext_noop(
            "Your `input_fn` raises a `KeyError`, and `helpers.worker` ends with exit code 1 in "
            "every pod of a `TFJob` with `restartPolicy: ExitCode` and `backoffLimit: 3`. What "
            "does the operator do?"
        ),
        right=Choice(
            gettext_noop("It lets the job fail, and starts none of the pods again."),
            gettext_noop(
                "A code from 1 to 127 stands for an error that would come again. A pod is started "
                "again only from 128 on."
            ),
        ),
        wrong=(
            Choice(
                gettext_noop("It starts the pods again, up to three times."),
                gettext_noop(
                    "`backoffLimit` says how often to try where a new try is allowed. With exit "
                    "code 1 it is not."
                ),
            ),
            Choice(
                gettext_noop("It starts the pods again from the last checkpoint."),
                gettext_noop(
                    "That is for code 138, with which `helpers.worker` ends when it has lost a "
                    "peer. Then a new start helps."
                ),
            ),
        ),
    ),
)
