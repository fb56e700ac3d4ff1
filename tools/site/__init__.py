"""Makes a web site of the course: a tree of pages for each language, and a search within each.

    python -m tools.site build      into .artefacts/site
    python -m tools.site serve      shows it on 127.0.0.1

`tree` says which page is made of which file, `sources` writes what Sphinx reads, `extension` is
what Sphinx does besides, `finish` adds what all languages share, and `check` looks for dead links.
"""
