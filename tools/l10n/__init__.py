"""Builds the lessons' other languages from the English notebooks and the catalogues here.

    python -m locales extract | update | build | check

A maintainers' program, run from the root of the repository; nothing of it is installed.
Arrows point one way::

    __main__ ─▶ update, build, checks ─▶ catalogue, structure ─▶ markdown ─▶ html
                                      └▶ exercises ─▶ notebook, project

TRANSLATING.md beside this file says how to translate.
"""
