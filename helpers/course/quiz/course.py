"""The questions of every lesson."""

from __future__ import annotations

from collections.abc import Mapping

from helpers.course.quiz.lesson_01 import QUESTIONS as LESSON_01
from helpers.course.quiz.lesson_02 import QUESTIONS as LESSON_02
from helpers.course.quiz.lesson_03 import QUESTIONS as LESSON_03
from helpers.course.quiz.lesson_04 import QUESTIONS as LESSON_04
from helpers.course.quiz.lesson_05 import QUESTIONS as LESSON_05
from helpers.course.quiz.lesson_06 import QUESTIONS as LESSON_06
from helpers.course.quiz.lesson_07 import QUESTIONS as LESSON_07
from helpers.course.quiz.lesson_08 import QUESTIONS as LESSON_08
from helpers.course.quiz.lesson_09 import QUESTIONS as LESSON_09
from helpers.course.quiz.lesson_10 import QUESTIONS as LESSON_10
from helpers.course.quiz.lesson_11 import QUESTIONS as LESSON_11
from helpers.course.quiz.lesson_12 import QUESTIONS as LESSON_12
from helpers.course.quiz.question import Question
from helpers.errors import unknown_choice

COURSE: Mapping[str, tuple[Question, ...]] = {
    "01_train_on_two_workers": LESSON_01,
    "02_choose_a_strategy": LESSON_02,
    "03_train_with_keras_fit": LESSON_03,
    "04_write_a_training_loop": LESSON_04,
    "05_train_with_parameter_servers": LESSON_05,
    "06_evaluate_while_training": LESSON_06,
    "07_run_on_a_real_cluster": LESSON_07,
    "08_survive_failures": LESSON_08,
    "09_parameter_servers_with_estimator": LESSON_09,
    "10_make_it_faster": LESSON_10,
    "11_move_to_keras": LESSON_11,
    "12_keras_3_on_several_workers": LESSON_12,
}


def questions_of(lesson: str) -> tuple[Question, ...]:
    """The questions of a lesson.

    Raises:
      ConfigError: there is no such lesson.
    """
    if lesson not in list(COURSE):  # a list compares, so that whatever was passed gets an answer
        raise unknown_choice("lesson", lesson, COURSE)
    return COURSE[lesson]
