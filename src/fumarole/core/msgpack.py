"""MsgPack as plain values, by the standard library alone: for declared payloads (P6), of which it is the definition.

Maps have text for keys; other keys are left out, because no path leads to them. An extension is an `Extension`, which
is of no type that can be declared.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

DEEPEST: Final = 64
"""Levels of maps and lists."""


class Extension(NamedTuple):
    """A value of a type that an application has made for itself."""

    code: int
    data: bytes


def unpack(data: bytes) -> Any:
    """The one value that these bytes are. Raises ValueError where they are something else, or more."""
    reader = _Reader(data)
    try:
        value = reader.value(0)
    except (struct.error, IndexError):
        raise ValueError("it ends too early") from None
    if reader.at != len(data):
        raise ValueError("there is more behind it")
    return value


_NUMBERS: Final = dict(
    zip(range(0xCA, 0xD4), (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True)
)
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS: Final = {
    first + step: (form, kind)
    for first, kind, forms in (
        (0xC4, "bytes", (">B", ">H", ">I")),
        (0xC7, "extension", (">B", ">H", ">I")),
        (0xD9, "text", (">B", ">H", ">I")),
        (0xDC, "list", (">H", ">I")),
        (0xDE, "map", (">H", ">I")),
    )
    for step, form in enumerate(forms)
}
"""First bytes of what has a length, by how many bytes that takes."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self, depth: int) -> Any:
        first = self.data[self.at]
        self.at += 1
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self.number(_NUMBERS[first])
        if first < 0xC0:
            kind = "map" if first < 0x90 else "list" if first < 0xA0 else "text"
            return self.long(kind, first & (0x1F if kind == "text" else 0x0F), depth)
        if 0xD4 <= first <= 0xD8:
            return self.long("extension", 1 << (first - 0xD4), depth)
        if first not in _LENGTHS:
            raise ValueError("a byte that begins no value")
        form, kind = _LENGTHS[first]
        return self.long(kind, int(self.number(form)), depth)

    def number(self, form: str) -> float:
        size = struct.calcsize(form)
        (number,) = struct.unpack(form, self.take(size))
        assert isinstance(number, int | float)
        return number

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise ValueError("it ends too early")
        taken = self.data[self.at : self.at + size]
        self.at += size
        return taken

    def long(self, kind: str, length: int, depth: int) -> Any:
        if kind == "text":
            return self.take(length).decode()  # a UnicodeDecodeError is a ValueError
        if kind == "bytes":
            return self.take(length)
        if kind == "extension":
            code = int(self.number(">b"))
            return Extension(code, self.take(length))
        if depth == DEEPEST:
            raise ValueError("nested too deep")
        if kind == "list":
            return [self.value(depth + 1) for _ in range(length)]
        pairs = [(self.value(depth + 1), self.value(depth + 1)) for _ in range(length)]
        return {key: value for key, value in pairs if isinstance(key, str)}
