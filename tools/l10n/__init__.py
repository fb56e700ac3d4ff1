"""Builds the lessons in other languages from the English notebooks and the catalogs in `locales`.

    python -m tools.l10n extract | update | build | check

It is a program for maintainers, which runs from the root of the repository and is not installed.
Imports have one direction::

    __main__ ─▶ update, build, checks ─▶ catalog, structure ─▶ markdown ─▶ html
                                      └▶ tools.lessons: exercises ─▶ notebook, project

locales/TRANSLATING.md describes how to translate.
"""
