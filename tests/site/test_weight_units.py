"""Removing what no page uses from the theme's style sheets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.site import weight

KNOWN = {"a", "b"}


@pytest.mark.parametrize(
    ("css", "left"),
    [
        (".a{x:1}.c{x:2}", ".a{x:1}"),
        (".a .c,.b:hover{x:1}", ".b:hover{x:1}"),
        (".a:not(.c,.d){x:1}", ".a:not(.c,.d){x:1}"),
        (".a:not(:is(.c)) > p, .c{x:1}", ".a:not(:is(.c)) > p{x:1}"),
        ("p,[class*='.c']{x:1}", "p,[class*='.c']{x:1}"),
        (".c-1\\/2{x:1}", ".c-1\\/2{x:1}"),
        ("@media print{.a{x:1}.c{x:2}}", "@media print{.a{x:1}}"),
        ("@media print{.c{x:2}}p{x:3}", "p{x:3}"),
        ("@media print{@supports (x:1){.c{x:2}.b{x:3}}}", "@media print{@supports (x:1){.b{x:3}}}"),
        (
            "@font-face{src:url(.c)}@keyframes c{0%{x:1}}",
            "@font-face{src:url(.c)}@keyframes c{0%{x:1}}",
        ),
        ('@charset "UTF-8";.c{x:1}', '@charset "UTF-8";'),
        ('.a{x:"}"}.c{x:"{"}', '.a{x:"}"}'),
        ("/*! license */.a{x:1}/* .b{ */", "/*! license */.a{x:1}"),
        ("/*! Font 7.2, Inc. */:host,:root{--x:1}", "/*! Font 7.2, Inc. */:host,:root{--x:1}"),
        ("/*! by a, b */.c{x:1}.a{x:2}", "/*! by a, b */.a{x:2}"),
    ],
)
def test_only_rules_with_known_classes_are_left(css: str, left: str) -> None:
    assert weight.purged(css, KNOWN) == left


def test_classes_are_those_of_pages_and_all_words_of_scripts(tmp_path: Path) -> None:
    static = tmp_path / "en" / "_static" / "scripts"
    static.mkdir(parents=True)
    (tmp_path / "en" / "x.html").write_text('<p class="a b-1\nc" id="d">e</p>')
    (static / "x.js").write_text("one.classList.add('collapsing', `f`)")
    assert weight.used_classes(tmp_path) >= {"a", "b-1", "c", "collapsing", "f"}
    assert not weight.used_classes(tmp_path) & {"d", "e"}


def test_icons_are_escapes_or_characters() -> None:
    assert weight.icons('a{--fa:"\\f0c9"}b{--icon:"\uf058";content:"\\2b"}') == {0xF0C9, 0xF058}
