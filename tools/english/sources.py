"""The English texts of the repository: lessons, documents, questions, messages, docstrings."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tools.l10n import badges, extract, markdown
from tools.l10n.text_checks import strip_markup
from tools.lessons import exercises, notebook
from tools.lessons.project import HELPERS, Project, read_text

CODE_FOLDERS = ("helpers", "tools", "tests", "benchmarks")
OTHER_DOCUMENTS = (
    "CHANGELOG.md",
    "benchmarks/README.md",
    "locales/TRANSLATING.md",
    "notebooks/AGENTS.md",
    "tests/README.md",
)
SECTION = re.compile(r"^\s*(?:Args|Attributes|Raises|Returns|Yields):\s*")
ENTRY = re.compile(r"^\s*\*{0,2}\w+(?:, \*{0,2}\w+)*: ")  # an argument in Google's style
PRAGMA = re.compile(r"#\s*(?:noqa|type:|fmt:|ruff:|pragma|i18n:|!)|#:|# -+$|#$")
FENCE = re.compile(r"^\s*(?:```|~~~)")
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")


class Passage(NamedTuple):
    """A paragraph, list item, table cell, message, docstring paragraph or comment.

    Attributes:
      file: the path from the root of the repository.
      place: the cell or the line, if known.
      text: one line without markup, in which code is `x`.
    """

    file: str
    place: str
    text: str


def passages(project: Project) -> list[Passage]:
    """All texts, beginning with the lessons."""
    return [
        *_lessons(project),
        *_documents(project),
        *_messages(project),
        *(
            found
            for folder in CODE_FOLDERS
            for path in sorted((project.root / folder).rglob("*.py"))
            for found in of_code(read_text(path), project.short(path))
        ),
    ]


def of_markdown(text: str, file: str, place: str = "") -> Iterator[Passage]:
    """The texts of a Markdown file or cell."""
    for message in markdown.split(text):
        yield Passage(file, place or message.kind, plain(message.text))


def of_code(text: str, file: str) -> Iterator[Passage]:
    """The docstrings and comments of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = getattr(node, "name", "module")
            for paragraph in paragraphs(ast.get_docstring(node) or ""):
                yield Passage(file, f"docstring of {name}", plain(paragraph))
    for line, comment in _comments(text):
        yield Passage(file, f"comment, line {line}", plain(comment))


def paragraphs(docstring: str) -> Iterator[str]:
    """The prose of a docstring: each paragraph, list item and argument, without code."""
    block: list[str] = []
    fenced = False
    for line in [*docstring.splitlines(), ""]:
        fence = bool(FENCE.match(line))
        fenced ^= fence
        code = fenced or fence or line.lstrip().startswith((">>>", "... ", "|", "python -m"))
        starts = SECTION.match(line) or ENTRY.match(line) or line.lstrip().startswith(("* ", "- "))
        if block and (code or starts or not line.strip()):
            yield " ".join(block)
            block = []
        text = ENTRY.sub("", SECTION.sub("", line)).strip()
        if text and not code:
            block.append(text)


def plain(text: str) -> str:
    """A text in one line, without markup."""
    return " ".join(strip_markup(text).split())


def count_words(found: Iterable[Passage]) -> int:
    """The number of words in the texts."""
    return sum(len(WORD.findall(passage.text)) for passage in found)


def _lessons(project: Project) -> Iterator[Passage]:
    for domain in project.notebooks:
        path = project.solution(domain)
        name = project.short(path if path and path.exists() else project.notebook(domain))
        english = notebook.parse(exercises.source_text(project, domain), domain)
        for cell in notebook.prose(english):
            yield from of_markdown(notebook.source(cell), name, f"cell {cell['id']}")
        for cell in notebook.cells(english, "code"):
            for line, comment in _comments(notebook.source(cell)):
                yield Passage(name, f"cell {cell['id']}, line {line}", plain(comment))


def _documents(project: Project) -> Iterator[Passage]:
    paths = [project.document(domain) for domain in project.documents]
    paths += [path for name in OTHER_DOCUMENTS if (path := project.root / name).exists()]
    for path in paths:
        yield from of_markdown(badges.without(read_text(path)), project.short(path))


def _messages(project: Project) -> Iterator[Passage]:
    for message in extract.template(project, HELPERS):
        texts = [message.id] if isinstance(message.id, str) else message.id
        for text in filter(None, texts):
            yield Passage(message.locations[0][0], "message", plain(text))


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Each comment with its line. Consecutive lines with only a comment are joined."""
    block: list[str] = []
    first = last = 0
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):  # a cell with a magic command
        return
    for token in tokens:
        if token.type != tokenize.COMMENT or PRAGMA.match(token.string):
            continue
        if block and (token.start[0] != last + 1 or not token.line.lstrip().startswith("#")):
            yield first, " ".join(block)
            block = []
        first = first if block else token.start[0]
        last = token.start[0]
        block.append(token.string.lstrip("# "))
    if block:
        yield first, " ".join(block)
