"""The API reference, with a page for each module of `helpers.PUBLIC_API`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import helpers
from tools.site import strings
from tools.site.tree import REFERENCE, Tree

PACKAGE = helpers.__name__
FOLDER = REFERENCE.partition("/")[0]
# Lines that own the indented text below them: a list item, a directive, a mark.
OWNERS = re.compile(r"(?:[-*+•]|\.\.|(?:\d+|\w)[.)]) .*|.*::\s*")


def write(tree: Tree, folder: Path) -> None:
    """Writes the pages, for Sphinx's autodoc to fill with docstrings."""
    importlib.import_module("helpers.estimator")  # needs Keras 2, which TensorFlow's import selects
    _ = strings.translator(tree.project, tree.lang)
    target = folder / REFERENCE
    target.parent.mkdir(parents=True, exist_ok=True)
    modules = "\n".join(f"   {module}" for module in helpers.PUBLIC_API)
    listed = "\n".join(_listed(module, names) for module, names in helpers.PUBLIC_API.items())
    contents = f".. toctree::\n   :hidden:\n\n{modules}\n"
    text = (
        f"{_heading(_(strings.REFERENCE))}\n{_(strings.ABOUT_REFERENCE)}\n\n{listed}\n\n{contents}"
    )
    target.with_suffix(".rst").write_text(text, "utf-8")
    for module, names in helpers.PUBLIC_API.items():
        parts = [_heading(module), f".. automodule:: {module}\n   :no-members:\n"]
        parts += ["\n".join(_directive(module, name)) + "\n" for name in names]
        (target.parent / f"{module}.rst").write_text("\n".join(parts), "utf-8")


def with_code(lines: list[str]) -> list[str]:
    """A docstring in which text indented after a paragraph and an empty line is marked as code.

    After a list item, such text is part of the item.
    """
    found: list[str] = []
    last = " "
    for line in lines:
        indented = line[:1].isspace() and line.strip() and not last[:1].isspace()
        if indented and not found[-1].strip() and not OWNERS.fullmatch(last):
            found += ["::", ""]
        found.append(line)
        last = line if line.strip() else last
    return found


def _listed(module: str, names: tuple[str, ...]) -> str:
    links = ", ".join(f":py:obj:`~{module}.{name}`" for name in names)
    return f"- :doc:`{module} <{module}>`: {links}"


def _heading(text: str) -> str:
    # A line at least as long as the text, even if letters are two columns wide.
    return f"{text}\n{'=' * 2 * len(text)}\n"


def _directive(module: str, name: str) -> Iterator[str]:
    """The autodoc directive for a name, by its kind."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isclass(value):
        # Under another name, autodoc would only document it as an alias.
        value.__name__ = value.__qualname__ = name
        yield f".. autoclass:: {module}.{name}\n"
        for member, kind in sorted(_members(value).items()):
            yield f"   .. {kind}:: {module}.{name}.{member}"
    elif callable(value):
        yield f".. autofunction:: {module}.{name}"
    else:
        yield f".. autodata:: {module}.{name}\n   :no-value:"


def _members(value: type) -> dict[str, str]:
    """The documented public methods and properties of a class and of its bases in this package."""
    ours = [base for base in value.__mro__ if base.__module__.partition(".")[0] == PACKAGE]
    return {
        name: "autoproperty" if isinstance(member, property) else "automethod"
        for base in ours
        for name, member in vars(base).items()
        if not name.startswith("_")
        and (inspect.isroutine(member) or isinstance(member, property))
        and member.__doc__
    }
