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
ABOUT_REFERENCE = gettext_noop(
    "The functions and classes that lessons and exercises import, with their docstrings."
)
ABOUT_EXERCISES = gettext_noop(
    "Each lesson has an exercise. Here you can read the tasks. To solve them, open the notebook "
    "in Jupyter, where each answer is tested on real workers."
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
    "This lesson: {answered} of {total} questions answered, {first} on the first try."
)
# i18n: below the questions of a lesson, after the score of the lesson
COURSE_SCORE = gettext_noop(
    "Whole course: {answered} of {total} questions answered, {first} on the first try."
)
# i18n: a button below the questions of a lesson, which removes the answers given so far
START_OVER = gettext_noop("Start over")
# i18n: the name of the feed of new versions
RELEASES = gettext_noop("Releases")
ANSWERS_ARE_STORED = gettext_noop("Your answers are stored only in this browser.")
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
