"""Pyodide's program, reduced to the functions that pages call.

In the reduced program, every other function ends the program at once. Then the page starts the
complete one (theme/static/python.js). So a wrong guess costs time, but never an answer. `counting`
makes a program that notes which functions run. The format of modules is that of
https://webassembly.github.io/spec/core/binary/modules.html.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from tools.lessons.project import ToolError

HEADER = 8  # bytes before the first section
IMPORTS, GLOBALS, EXPORTS, CODE, DATA = 2, 6, 7, 10, 11  # the numbers of sections
FUNCTION, TABLE, MEMORY, GLOBAL = range(4)  # the kinds of imports and exports
I32, MUTABLE = b"\x7f", b"\x01"
I32_CONST, GLOBAL_SET, UNREACHABLE, END = b"\x41", b"\x24", b"\x00", b"\x0b"
NO_LOCALS = b"\x00"
MARK = "called "  # the start of the names of the exports that `counting` adds
# The assignment of a function that C exports, as Emscripten writes it into a script.
EXPORT = re.compile(r'(_[\w$]+)=Module\["\1"\]=wasmExports\["([\w$]+)"\];')
WORD = re.compile(r"[\w$]+")
Range = tuple[int, int]  # an address of the program's memory, and a number of bytes


class Reader:
    """Reads a section from its start."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content = content
        self.at = at

    def integer(self) -> int:
        """An unsigned integer of 7 bits per byte."""
        value = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def block(self) -> bytes:
        """Bytes after their number."""
        size = self.integer()
        self.at += size
        return self.content[self.at - size : self.at]

    def rest(self) -> bytes:
        """All bytes that were not read."""
        return self.content[self.at :]


def counting(program: bytes) -> bytes:
    """A program in which function N sets the export `MARK`N to 1 when it runs.

    N counts the functions without the imported ones.
    """
    parts = _sections(program)
    bodies = list(_bodies(parts[CODE]))
    first = _imported_globals(parts[IMPORTS]) + Reader(parts[GLOBALS]).integer()
    places = [_integer(first + k) for k in range(len(bodies))]
    zero = I32 + MUTABLE + I32_CONST + b"\0" + END
    names = [_block(f"{MARK}{k}".encode()) for k in range(len(bodies))]
    exports = [name + bytes([GLOBAL]) + place for name, place in zip(names, places, strict=True)]
    parts[GLOBALS] = _extended(parts[GLOBALS], [zero] * len(bodies))
    parts[EXPORTS] = _extended(parts[EXPORTS], exports)
    parts[CODE] = _vector(map(_block, map(_marked, bodies, places)))
    return _program(program, parts)


def reduced(program: bytes, called: Collection[int], unused: Iterable[Range] = ()) -> bytes:
    """A program whose functions end it unless they are among those that were called.

    Args:
      called: the numbers of functions, as in `counting`.
      unused: data that only the other functions read. It becomes zeros.
    """
    parts = _sections(program)
    bodies = enumerate(_bodies(parts[CODE]))
    stop = NO_LOCALS + UNREACHABLE + END
    parts[CODE] = _vector(_block(body if number in called else stop) for number, body in bodies)
    parts[DATA] = _without(parts[DATA], unused)
    return _program(program, parts)


def without_unused_exports(script: str) -> str:
    """A script of Emscripten without the variables of C functions that the script never mentions.

    Python and C find such functions in the program itself.
    """
    words = Counter(WORD.findall(script))
    # A variable has its declaration and the two names of the assignment.
    unused = {
        variable
        for variable, function in EXPORT.findall(script)
        if words[variable] <= 3 and words[function] == 1
    }
    script = EXPORT.sub(lambda found: "" if found[1] in unused else found[0], script)
    return re.sub(r"(?<=[ ,])(_[\w$]+),", lambda one: "" if one[1] in unused else one[0], script)


def _sections(program: bytes) -> dict[int, bytes]:
    """The contents by their numbers. Of the sections for tools, only the first one matters."""
    reader = Reader(program, HEADER)
    found: dict[int, bytes] = {}
    while reader.at < len(program):
        number = reader.integer()
        found.setdefault(number, reader.block())
    return found


def _program(program: bytes, parts: dict[int, bytes]) -> bytes:
    """A program with these sections, in the order of the dictionary."""
    sections = (bytes([number]) + _block(content) for number, content in parts.items())
    return program[:HEADER] + b"".join(sections)


def _bodies(code: bytes) -> Iterator[bytes]:
    reader = Reader(code)
    return (reader.block() for _function in range(reader.integer()))


def _marked(body: bytes, place: bytes) -> bytes:
    """A body that first sets a global variable to 1."""
    reader = Reader(body)
    for _group in range(reader.integer()):  # its own variables: a number and a type
        reader.integer()
        reader.integer()
    return body[: reader.at] + I32_CONST + b"\1" + GLOBAL_SET + place + reader.rest()


def _imported_globals(imports: bytes) -> int:
    reader, found = Reader(imports), 0
    for _import in range(reader.integer()):
        reader.block()  # the module
        reader.block()  # the name
        kind = reader.integer()
        if kind in (TABLE, MEMORY):
            reader.at += kind == TABLE  # the type of its elements
            for _limit in range(1 + reader.integer() % 2):  # odd if there is an upper limit
                reader.integer()
        else:  # a function has one number; a global and a tag have two
            reader.integer()
            reader.at += kind != FUNCTION
            found += kind == GLOBAL
    return found


def _without(data: bytes, ranges: Iterable[Range]) -> bytes:
    """A section of active segments, with zeros in these ranges."""
    cleared = bytearray(data)
    places = sorted(_segments(data))
    starts = [address for address, _offset, _size in places]
    for address, size in ranges:
        for start, offset, length in places[max(0, bisect_right(starts, address) - 1) :]:
            if start >= address + size:
                break
            low, high = max(start, address), min(start + length, address + size)
            if low < high:
                at = offset + low - start
                cleared[at : at + high - low] = bytes(high - low)
    return bytes(cleared)


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The address of each active segment, its offset in the section, and its size."""
    reader = Reader(data)
    for _segment in range(reader.integer()):
        if reader.integer():
            raise ToolError("The program has a segment of data that is not active.")
        reader.at += len(I32_CONST)
        address = reader.integer()  # signed, but below the sign's bit
        reader.at += len(END)
        content = reader.block()
        yield address, reader.at - len(content), len(content)


def _extended(vector: bytes, more: Collection[bytes]) -> bytes:
    reader = Reader(vector)
    return _integer(reader.integer() + len(more)) + reader.rest() + b"".join(more)


def _vector(items: Iterable[bytes]) -> bytes:
    found = list(items)
    return _integer(len(found)) + b"".join(found)


def _block(content: bytes) -> bytes:
    return _integer(len(content)) + content


def _integer(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
