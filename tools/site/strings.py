"""The site's own texts. Its other texts belong to the course or to the theme."""

from __future__ import annotations

from collections.abc import Callable

from helpers.i18n import gettext_noop
from tools.l10n import catalog
from tools.lessons.project import HELPERS, SOURCE, Project

Translate = Callable[[str], str]

# i18n: the name of the course, at the top of each page
NAME = gettext_noop("Distributed training with TensorFlow")
# i18n: a place in the site's navigation
LESSONS = gettext_noop("Lessons")
# i18n: a place in the site's navigation
EXERCISES = gettext_noop("Exercises")
# i18n: a place in the site's navigation
PROJECTS = gettext_noop("Projects")
# i18n: a place in the site's navigation: pages for those who own clusters, programs or a class
DOCUMENTS = gettext_noop("Documents")
# i18n: a place in the site's navigation: what the package offers, name by name
REFERENCE = gettext_noop("Reference")
# i18n: a place in the site's navigation: tables of what was measured
MEASUREMENTS = gettext_noop("Benchmarks")
# i18n: the name of the search page, and of its button
SEARCH = gettext_noop("Search")
# i18n: on the search page, where the browser runs no JavaScript
NO_SCRIPT = gettext_noop("Search needs JavaScript.")
ABOUT_PATHS = gettext_noop(
    "Two paths lead through the course, and you can follow each of them without the other one."
)
# i18n: a heading above the lessons of a path
PATH = gettext_noop("{path} path")
# i18n: the last entry of a list of lessons
THEN = gettext_noop("then the {path} path")
# i18n: below the lists of lessons
OPTIONAL = gettext_noop("Optional: {lessons}")
# i18n: the name of the list of languages
LANGUAGE = gettext_noop("Language")
# i18n: opens a folded code cell
SHOW_CODE = gettext_noop("Show the code")
# i18n: folds a code cell
HIDE_CODE = gettext_noop("Hide the code")
IN_ENGLISH = gettext_noop("This page is in English.")
# i18n: a place in the site's navigation: recorded runs into which a fault was injected
FAULT_LAB = gettext_noop("Fault-injection lab")
ABOUT_FAULT_LAB = gettext_noop(
    "Choose a fault, predict its effect, and watch what happened. The runs were recorded with real "
    "worker processes on a machine with two CPU cores. To inject faults into your own workers, "
    "open {lesson} in Jupyter."
)
# i18n: above a list of timeouts, one of which ends the waiting for a frozen worker
TIMEOUTS = gettext_noop("Timeouts")
# i18n: a choice of timeouts
TIMEOUT_CHOICE = gettext_noop("{heartbeat} s without a heartbeat, {step} s without a step")
# i18n: the column of a table, and the heading of a form
PREDICTION = gettext_noop("Your prediction")
# i18n: the column of a table, next to "Your prediction"
RECORDED = gettext_noop("Recorded run")
# i18n: the row of a table; its value is one of the next three sentences
OUTCOME = gettext_noop("Outcome")
GROUP_RESTARTS = gettext_noop("The group restarts from its last checkpoint.")
TRAINING_CONTINUES = gettext_noop("Training continues without a restart.")
TRAINING_ENDS = gettext_noop("Training ends with an error.")
STANDSTILL = gettext_noop("Longest time without a step, in seconds")
# i18n: the row of a table: the number of steps that were lost, so that they were trained again
REPEATED = gettext_noop("Steps trained twice")
# i18n: a button that accepts the prediction and starts the recording
SHOW_RECORDING = gettext_noop("Show the recording")
# i18n: a button that starts a recording
PLAY = gettext_noop("Play")
# i18n: a button that pauses a recording
PAUSE = gettext_noop("Pause")
# i18n: a choice of 0.5×, 1×, 2× or 4×
PLAYBACK_SPEED = gettext_noop("Playback speed")
# i18n: the label of a slider, for screen readers
POSITION = gettext_noop("Position in the recording")
# i18n: below a recording: the seconds so far, and all seconds
TIME_OF = gettext_noop("{seconds} s of {total} s")
LAB_NEEDS_SCRIPT = gettext_noop(
    "Playing a recording needs JavaScript. Below is the end of one recording."
)
# i18n: a button on the first page, which leads to the fault-injection lab
TRY_IT = gettext_noop("Try it here")
# i18n: a button on the first page, which leads to the commands that install the course
RUN_IT = gettext_noop("Run it on your machine")
# i18n: below the recording on the first page
ABOUT_FIRST_RECORDING = gettext_noop(
    "A recorded run: one of two workers freezes, and the group recovers."
)
ABOUT_REFERENCE = gettext_noop(
    "The functions and classes that lessons and exercises import, with their docstrings."
)
ABOUT_EXERCISES = gettext_noop(
    "Each lesson has an exercise. Here you can read the tasks, and solve those that need no "
    "cluster. For the others, open the notebook in Jupyter, where each answer is tested on real "
    "workers."
)
ABOUT_PROJECTS = gettext_noop(
    "In a project, you build a part of a distributed system yourself. Here you can read the "
    "specifications. To work on one, open the notebook in Jupyter, where the check runs your "
    "module in real processes."
)
ABOUT_LESSONS = gettext_noop(
    "Every lesson is a Jupyter notebook, shown here with the outputs and plots of a run."
)
# i18n: below the questions of a lesson; "answered" counts questions whose right choice was found
LESSON_SCORE = gettext_noop(
    "This lesson: {answered} of {total} questions answered correctly, {first} on the first try."
)
# i18n: below the questions of a lesson, after the score of the lesson
COURSE_SCORE = gettext_noop(
    "Whole course: {answered} of {total} questions answered correctly, {first} on the first try."
)
# i18n: a button below the questions of a lesson, which removes the answers given so far
START_OVER = gettext_noop("Start over")
# i18n: the name of the feed of new versions
RELEASES = gettext_noop("Releases")
ANSWERS_ARE_STORED = gettext_noop("Your answers are stored only in this browser.")
# i18n: on a page of the site, while Python starts in the browser
PYTHON_LOADS = gettext_noop("Python is starting in your browser. This happens once per page.")
PYTHON_FAILED = gettext_noop(
    "Python could not run in your browser. Check your connection, and try again."
)
# i18n: above a field for code, on the page of an exercise
TRY_HERE = gettext_noop(
    "This task needs no cluster, so you can also solve it here, where Python runs in your browser."
)
# i18n: the name of a field for code, on the page of an exercise
YOUR_ANSWER = gettext_noop("Your answer")
# i18n: a button, on the page of an exercise
CHECK_ANSWER = gettext_noop("Check the answer")
ANSWER_IS_SLOW = gettext_noop(
    "Your code ran for ten seconds and was stopped. Check whether it has an endless loop."
)
# i18n: a menu in the navigation with the pages that have no room there
MORE = gettext_noop("More")
# The theme's own texts, for languages without a translation in the theme, such as Korean.
THEME_STRINGS = (
    gettext_noop("Back to top"),
    gettext_noop("Breadcrumb"),
    gettext_noop("Color mode"),
    gettext_noop("Dark"),
    gettext_noop("Home"),
    gettext_noop("Light"),
    gettext_noop("Navbar"),
    gettext_noop("On this page"),
    gettext_noop("Section Navigation"),
    gettext_noop("Site navigation"),
    gettext_noop("Skip to main content"),
    gettext_noop("System Settings"),
    gettext_noop("next"),
    gettext_noop("next page"),
    gettext_noop("previous"),
    gettext_noop("previous page"),
)


def translator(project: Project, lang: str) -> Translate:
    """A function that translates texts with the catalog of helpers, or returns English text."""
    if lang == SOURCE:
        return str
    messages = catalog.read(project.catalog(HELPERS, lang), lang)

    def translate(text: str) -> str:
        message = messages.get(text)
        if message is None or not catalog.is_current(message):
            return text
        return catalog.strings(message)[0]

    return translate
