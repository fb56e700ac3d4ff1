"""Splitting a Markdown cell into messages, and putting them back."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support import ROOT
from tools.l10n import markdown
from tools.lessons import notebook

NOTEBOOKS = sorted((ROOT / "notebooks" / "en").rglob("*.ipynb"))

RICH = """\
# Two workers

A **worker** trains,
and waits.

- read `TF_CONFIG`
  - inner item
1. first
   second line

| Name | What |
|------|------|
| `RING` | sends around \\| twice |

```python
x = "not a message"
```

$$
\\text{not a message}
$$

> A quoted
> paragraph

<div class="alert alert-block alert-warning">
<b>Careful.</b> Two processes
</div>

![A cluster](cluster.svg)
"""


def kinds(source: str) -> list[tuple[str, str]]:
    return [(message.kind, message.text) for message in markdown.split(source)]


def test_a_cell_is_split_into_headings_paragraphs_items_table_cells_and_html_texts() -> None:
    assert kinds(RICH) == [
        ("heading", "Two workers"),
        ("paragraph", "A **worker** trains, and waits."),
        ("list item", "read `TF_CONFIG`"),
        ("list item", "inner item"),
        ("list item", "first second line"),
        ("table cell", "Name"),
        ("table cell", "What"),
        ("table cell", "sends around \\| twice"),
        ("paragraph", "A quoted paragraph"),
        ("HTML text", "<b>Careful.</b> Two processes"),
        ("paragraph", "![A cluster](cluster.svg)"),
    ]


def test_a_translation_takes_the_place_of_its_message_and_moves_nothing_else() -> None:
    result = markdown.translate(RICH, lambda text: f"«{text}»")
    assert result.splitlines()[:9] == [
        "# «Two workers»",
        "",
        "«A **worker** trains, and waits.»",
        "",
        "- «read `TF_CONFIG`»",
        "  - «inner item»",
        "1. «first second line»",
        "",
        "| «Name» | «What» |",
    ]
    assert '<div class="alert alert-block alert-warning">\n«<b>Careful.' in result
    assert '```python\nx = "not a message"\n```' in result


@pytest.mark.parametrize(
    "source",
    [
        "`code`, `more`",
        "$x_1$",
        "https://example.org",
        "***",
        "![](picture.svg)",
        "| 1 | 2 |\n|--|--|",
    ],
)
def test_what_has_no_word_is_no_message(source: str) -> None:
    assert kinds(source) == []


def test_display_math_ends_a_paragraph_and_is_no_message() -> None:
    source = "The loss is\n$$\nL = \\text{mean}\n$$\nof the batch.\n\\begin{align}\nx\n\\end{align}"
    assert [text for _, text in kinds(source)] == ["The loss is", "of the batch."]


def test_a_hard_line_break_stays_and_its_translation_keeps_the_indent() -> None:
    source = "> - one  \n>   two"
    assert [text for _, text in kinds(source)] == ["one  \ntwo"]
    assert markdown.translate(source, lambda _: "eins  \nzwei") == "> - eins  \n>   zwei"


def test_words_in_an_svg_picture_are_messages_and_its_shapes_are_not() -> None:
    source = '<svg viewBox="0 0 9 9"><rect width="3"/><text x="1">worker 0</text></svg>'
    assert kinds(source) == [("HTML text", "worker 0")]


def test_alt_texts_and_titles_are_messages() -> None:
    source = '<div><img src="a.svg" alt="Two workers"></div>'
    assert kinds(source) == [("HTML text", '<img src="a.svg" alt="Two workers">')]


FRAGMENTS = [
    "# Heading `x` ##", "Set\n===", "One line.", "Two\nsoft lines", "hard  \nbreak",
    "hard\\\nbreak",
    "- item\n- other\n\n  more", "* a\n    * b", "1. one\n2. two\n   lazy\nline", "- [ ] do it",
    "> quote\n> on", "> - deep\n>   item", "> lazy\nquote", "| a | b |\n|---|:-:|\n| c\\|d | `e` |",
    "a | b\n--|--\nc | d", "> | q | r |\n> |---|---|\n> | s | t |", "```python\ncode = 1\n```",
    "~~~\nx\n~~~", "    indented code", "$$\nx = y\n$$", "text\n$$\nx\n$$\ntext", "$$ x $$ (label)",
    "\\begin{align}\nx\n\\end{align}", "costs $5 and $x_1$", "<div>\n<b>bold</b> text\n</div>",
    '<img src="a" alt="picture">', "<!-- a comment -->", "<svg><text>word</text></svg>",
    "![alt](a.png 'title') and [link](b.ipynb#Head)", "**bold** *it* ~~no~~", "***", "---",
    "[ref]: http://x.y 'title'", "[ref] used", "\ttabbed", "-\ttab item", "1.\ttab\n\tmore",
    "привет **мир**", "工作进程**重要。**下", "emoji 🎉", "trailing  ",
    "a\r\nb", "\\# escaped", "&amp; a",
    "- a\n\n      code", "-\n  late", "", " ", "+ plus\n  > in\n  > side",
]  # fmt: skip
SOURCES = st.lists(
    st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(["\n", "\n\n", "\n\n\n", " \n"])),
    max_size=8,
).map(lambda parts: "".join(text + end for text, end in parts))


def reworded(text: str) -> str:
    """Another text with the same beginning. A line that is a lone tag begins an HTML block."""
    return text if text.startswith("<") else f"W {text} W"


@settings(max_examples=400, deadline=None)
@given(SOURCES)
def test_splitting_and_putting_back_is_the_identity(source: str) -> None:
    assert markdown.translate(source, lambda text: text) == source
    assert markdown.translate(source, lambda _: None) == source


@settings(max_examples=400, deadline=None)
@given(SOURCES)
def test_what_is_outside_the_messages_keeps_every_byte(source: str) -> None:
    at, rest = 0, []
    for message in markdown.split(source):
        assert at <= message.start <= message.end <= len(source)
        rest.append(source[at : message.start])
        at = message.end
    rest.append(source[at:])
    result = markdown.translate(source, lambda _: "\0")
    assert result.split("\0") == rest


@settings(max_examples=400, deadline=None)
@given(SOURCES)
@example('<svg><text>word</text></svg>\nOne line.\n<img src="a" alt="picture">\n')
def test_a_translated_cell_splits_into_the_translations(source: str) -> None:
    before = [message.text for message in markdown.split(source)]
    result = markdown.translate(source, reworded)
    after = [message.text for message in markdown.split(result)]
    assert after == [reworded(text) for text in before]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_lessons_of_this_repository_split_and_join(path: object) -> None:
    lesson = notebook.read(path)  # type: ignore[arg-type]
    found = 0
    for cell in notebook.prose(lesson):
        source = notebook.source(cell)
        found += len(markdown.split(source))
        assert markdown.translate(source, lambda text: text) == source
    assert found > 0
