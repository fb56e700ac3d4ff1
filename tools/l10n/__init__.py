"""Builds the lessons' other languages from the English notebooks and the catalogs in `locales`.

    python -m tools.l10n extract | update | build | check

A maintainers' program, run from the root of the repository; nothing of it is installed.
Arrows point one way::

    __main__ ─▶ update, build, checks ─▶ catalog, structure ─▶ markdown ─▶ html
                                      └▶ tools.lessons: exercises ─▶ notebook, project

locales/TRANSLATING.md says how to translate.
"""
