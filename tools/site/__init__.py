"""Builds a website of the course, with a tree of pages and a search for each language.

    python -m tools.site build      into .artefacts/site
    python -m tools.site serve      shows it on 127.0.0.1

`tree` maps files to pages, `sources` writes the input of Sphinx, and `extension` extends Sphinx.
`postprocess` adds the files that all languages share, and `check` looks for dead links.
"""
