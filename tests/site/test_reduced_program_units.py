"""Pyodide's program without functions, on a module written by hand."""

from __future__ import annotations

import pytest

from tools.lessons.project import ToolError
from tools.site import reduced_program

HEADER = b"\0asm\1\0\0\0"
TYPES = b"\1\x60\0\0"  # one: a function without arguments and results
IMPORTS = (
    b"\5"
    b"\1m\1f\0\0"  # a function
    b"\1m\1t\1\x70\1\1\2"  # a table of functions, 1 to 2
    b"\1m\1n\2\0\xe0\3"  # a memory of 480 pages or more
    b"\1m\1g\3\x7f\1"  # a global
    b"\1m\1e\4\0\0"  # a tag
)
GLOBALS = b"\1\x7f\0\x41\7\x0b"
EXPORTS = b"\1\3one\0\1"
FIRST, SECOND = b"\0\1\x0b", b"\1\2\x7f\1\x0b"  # no local variables; two numbers
DATA = b"\2\0\x41\xe4\0\x0b\4abcd\0\x41\xc8\1\x0b\3efg"  # at 100 and at 200
SCRIPT = (
    'var _used,_unused,_named,_last;function assignWasmExports(){_used=Module["_used"]='
    'wasmExports["used"];_unused=Module["_unused"]=wasmExports["unused"];_named=Module["_named"]='
    'wasmExports["named"];_last=Module["_last"]=wasmExports["last"];}_used();ccall("named")'
)


def module(**changed: bytes) -> bytes:
    """A module of sections shorter than 128 bytes."""
    sections = {
        "custom": (0, b"\4name"),
        "types": (1, TYPES),
        "imports": (2, IMPORTS),
        "functions": (3, b"\2\0\0"),
        "globals": (6, GLOBALS),
        "exports": (7, EXPORTS),
        "code": (10, code(FIRST, SECOND)),
        "data": (11, DATA),
    }
    return HEADER + b"".join(
        bytes([number, len(found)]) + found
        for name, (number, content) in sections.items()
        for found in [changed.get(name, content)]
    )


def code(*bodies: bytes) -> bytes:
    return bytes([len(bodies)]) + b"".join(bytes([len(body)]) + body for body in bodies)


def test_each_function_sets_an_export_of_its_own_when_it_runs() -> None:
    """The first new global is 2: one is imported, and the module has one."""
    assert reduced_program.counting(module()) == module(
        globals=b"\3" + GLOBALS[1:] + 2 * b"\x7f\1\x41\0\x0b",
        exports=b"\3" + EXPORTS[1:] + b"\x08called 0\3\2" + b"\x08called 1\3\3",
        code=code(b"\0\x41\1\x24\2\1\x0b", b"\1\2\x7f\x41\1\x24\3\1\x0b"),
    )


def test_functions_that_were_not_called_end_the_program() -> None:
    assert reduced_program.reduced(module(), {1}) == module(code=code(b"\0\0\x0b", SECOND))
    assert reduced_program.reduced(module(), {0, 1}) == module()


@pytest.mark.parametrize(
    ("unused", "first", "second"),
    [
        ((100, 4), b"\0\0\0\0", b"efg"),
        ((101, 2), b"a\0\0d", b"efg"),
        ((90, 12), b"\0\0cd", b"efg"),
        ((103, 98), b"abc\0", b"\0fg"),
        ((104, 96), b"abcd", b"efg"),
        ((202, 50), b"abcd", b"ef\0"),
        ((100, 0), b"abcd", b"efg"),
    ],
)
def test_data_that_only_other_functions_read_becomes_zeros(
    unused: tuple[int, int], first: bytes, second: bytes
) -> None:
    found = reduced_program.reduced(module(), {0, 1}, [unused])
    assert found == module(data=DATA.replace(b"abcd", first).replace(b"efg", second))


def test_data_that_code_would_copy_is_not_guessed_at() -> None:
    with pytest.raises(ToolError, match="not active"):
        reduced_program.reduced(module(data=b"\1\1\4abcd"), {0})


def test_sections_for_tools_are_left_out_but_the_first() -> None:
    assert reduced_program.reduced(module() + b"\0\5\4more", {0, 1}) == module()


def test_only_functions_that_a_script_never_mentions_are_left_out() -> None:
    short = reduced_program.without_unused_exports(SCRIPT)
    assert short == SCRIPT.replace("_unused,", "").replace(
        '_unused=Module["_unused"]=wasmExports["unused"];', ""
    ).replace('_last=Module["_last"]=wasmExports["last"];', "")
