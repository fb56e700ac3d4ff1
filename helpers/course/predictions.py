"""Predictions: a reader commits to a number before a run, and sees it next to the result.

The number is in the source of a cell. It is saved with the notebook and needs no widget.
`tools.teaching.predictions` collects the numbers of a class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from numbers import Real

from helpers.errors import unknown_choice
from helpers.i18n import _, gettext_noop, join_items, join_phrases, join_sentences, labeled, number

MAX_SHOWN = 40  # characters of a value that is not a number
FOUR_DIGITS = 999.5  # from here on, three significant digits would need an exponent


class Scale(Enum):
    """How a prediction is compared with the result."""

    LINEAR = auto()  # by their difference
    RATIO = auto()  # by their ratio, because they may differ by orders of magnitude


@dataclass(frozen=True)
class Question:
    """A question of a lesson, whose answer is a number.

    Attributes:
      lesson: the name of the notebook.
      label: the predicted quantity with its unit, in English.
    """

    lesson: str
    label: str
    scale: Scale


_TWO_WORKERS = "01_train_on_two_workers"
_FAILURES = "08_survive_failures"
_FASTER = "10_make_it_faster"

QUESTIONS: Mapping[str, Question] = {
    "published_accuracy": Question(
        _TWO_WORKERS, gettext_noop("accuracy with the published settings"), Scale.LINEAR
    ),
    "speed_up_batch_64": Question(
        _TWO_WORKERS, gettext_noop("speed-up of two workers, 64 examples each"), Scale.RATIO
    ),
    "speed_up_batch_256": Question(
        _TWO_WORKERS, gettext_noop("speed-up of two workers, 256 examples each"), Scale.RATIO
    ),
    "gradient_factor": Question(
        "04_write_a_training_loop",
        gettext_noop("norm of the gradient divided by the right norm"),
        Scale.RATIO,
    ),
    "staleness": Question(
        "05_train_with_parameter_servers",
        gettext_noop("average staleness with three workers, in updates"),
        Scale.LINEAR,
    ),
    "resume_epoch": Question(
        _FAILURES, gettext_noop("epoch at which training resumes"), Scale.LINEAR
    ),
    "images_per_worker": Question(
        _FAILURES, gettext_noop("images per worker and step, without the lost worker"), Scale.LINEAR
    ),
    "step_traffic": Question(
        "09_parameter_servers_with_estimator", gettext_noop("traffic in a step, in MB"), Scale.RATIO
    ),
    "weak_scaling_2": Question(
        _FASTER, gettext_noop("weak scaling, speed-up of two workers"), Scale.RATIO
    ),
    "weak_scaling_4": Question(
        _FASTER, gettext_noop("weak scaling, speed-up of four workers"), Scale.RATIO
    ),
    "nudged_loss": Question(
        "11_move_to_keras",
        gettext_noop("largest difference between the losses in the last 50 steps"),
        Scale.RATIO,
    ),
    "worker_difference": Question(
        "12_keras_3_on_several_workers",
        gettext_noop("largest difference from one worker"),
        Scale.RATIO,
    ),
}


@dataclass
class _Session:
    """The predictions of this kernel, by question.

    Attributes:
      current: the number that was recorded last, or None.
      committed: the number that was current when the result was first shown, or None.
    """

    current: dict[str, float | None] = field(default_factory=dict)
    committed: dict[str, float | None] = field(default_factory=dict)


_session = _Session()


def record_prediction(name: str, prediction: object = None, /, *rest: object) -> None:
    """Records your prediction for a question of the lesson, and prints it.

    Without a number it prints how to enter one, and nothing stops: "Run All" works on a notebook
    without predictions.

    Args:
      name: a name in `QUESTIONS`.
      prediction: a finite number, or None.
      *rest: must be empty. A decimal comma creates a second argument, which is reported.

    Raises:
      ConfigError: there is no such question.
    """
    question = find_question(name)
    found = None if rest else to_prediction(prediction)
    _session.current[name] = found
    if found is not None:
        sentence = _("your prediction is {number}.").format(number=_format(found))
        print(labeled(_(question.label), join_sentences([sentence, *_late_sentences(name)])))
    elif prediction is None and not rest:
        sentence = _("no prediction yet. Replace None with a number, and run this cell again.")
        print(labeled(_(question.label), sentence))
    else:
        entered = join_items(_shorten(value) for value in (prediction, *rest))
        message = _("{entered} is not a number. Enter one number, with a decimal point, as in 0.5.")
        print(labeled(_(question.label), message.format(entered=entered)))


def compare_prediction(name: str, result: float | None, /) -> None:
    """Prints the prediction and the result, with their difference or ratio (result/prediction).

    A prediction that was entered or changed after the result was first shown is marked. A restart
    of the kernel forgets this, because only the source of the cell is saved.

    Args:
      name: a name in `QUESTIONS`.
      result: the measured value, or None if this machine cannot measure it.

    Raises:
      ConfigError: there is no such question.
    """
    question = find_question(name)
    prediction = _session.current.get(name)
    phrases = [_("no prediction")]
    if prediction is not None:
        phrases = [_("prediction {number}").format(number=_format(prediction))]
    if result is None:
        phrases.append(_("no result on this machine"))
    else:
        result = float(result)
        _session.committed.setdefault(name, prediction)
        phrases.append(_("result {number}").format(number=_format(result)))
        if prediction is not None:
            phrases += _distance(question.scale, prediction, result)
    print(labeled(_(question.label), join_phrases(phrases)), *_late_sentences(name), sep="\n")


def find_question(name: str) -> Question:
    """The question with this name.

    Raises:
      ConfigError: there is no such question.
    """
    if name not in QUESTIONS:
        raise unknown_choice("name", name, QUESTIONS)
    return QUESTIONS[name]


def to_prediction(value: object) -> float | None:
    """A finite number as a float. None for anything else, including True and False."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (OverflowError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _late_sentences(name: str) -> list[str]:
    """Whether a prediction was entered or changed after the result was shown."""
    current = _session.current.get(name)
    if current is None or name not in _session.committed:
        return []
    first = _session.committed[name]
    if first is None:
        return [_("You entered it after the result was shown.")]
    if first != current:
        message = _("You changed it after the result was shown. It was {number} before.")
        return [message.format(number=_format(first))]
    return []


def _distance(scale: Scale, prediction: float, result: float) -> list[str]:
    if scale is Scale.RATIO and prediction > 0 and result > 0:
        distance, message = result / prediction, _("ratio {number}")
    else:
        distance, message = result - prediction, _("difference {number}")
    return [message.format(number=_format(distance))] if math.isfinite(distance) else []


def _format(value: float) -> str:
    """Three significant digits, or a whole number from 1,000 on."""
    return number(value, ",.0f" if FOUR_DIGITS <= abs(value) < 1e15 else ".3g")


def _shorten(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of more than 4,300 digits
        text = type(value).__name__
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
