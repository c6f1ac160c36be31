"""Erlang's external term format, as far as a message needs it: numbers, atoms, binaries, tuples and lists.

    Erlang                 Python              on the wire
    17, -5, 1 bsl 63       int                 97 byte, 98 32 bits, 110 and 111 up to 64 bits and a sign
    0.5                    float               70 eight bytes; 99 the text that old versions write
    undefined              Atom("undefined")   100, 115 Latin-1; 118, 119 UTF-8
    <<"bytes">>            bytes               109
    {a, 1}                 tuple               104, 105
    [1, 2], []             list                108 and 106; 107 where all are bytes

The first byte is 131. An atom is a text here, never an entry of a table that only grows. Depth, terms and sizes have
limits, and no length is believed before its bytes are there. What else Erlang has (maps, processes, functions, terms
that are compressed) is refused. `decode` and `encode` raise MalformedError.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from fumarole.bridge.errors import MalformedError

VERSION: Final = 131
COMPRESSED: Final = 80
DEEPEST: Final = 64
"""Tuples and lists inside each other."""
MOST_TERMS: Final = 65_536
"""In one message, each element of a list or tuple being one; a binary is one, however long."""
LONGEST_ATOM: Final = 255
"""Characters, as in Erlang itself."""
LARGEST_INTEGER: Final = 2**64 - 1
_UINT16 = struct.Struct(">H")
_UINT32 = struct.Struct(">I")
_INT32 = struct.Struct(">i")
_DOUBLE = struct.Struct(">d")
_OLD_FLOAT = re.compile(rb"[+-]?[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?\0*")


class Atom(NamedTuple):
    """An atom, by its text."""

    text: str


def decode(data: bytes) -> Any:
    """The one term that the bytes are."""
    if data[:1] != bytes((VERSION,)):
        raise MalformedError("an Erlang term begins with the byte 131")
    if data[1:2] == bytes((COMPRESSED,)):
        raise MalformedError("an Erlang term must not be compressed")
    reader = _Reader(data)
    try:
        term = reader.read(1)
    except (struct.error, IndexError):
        raise MalformedError("the Erlang term ends too early") from None
    if reader.at != len(data):
        raise MalformedError(f"{len(data) - reader.at} bytes follow the Erlang term")
    return term


class _Reader:
    """Reads terms one after the other."""

    def __init__(self, data: bytes) -> None:
        self.at = 1
        self._data = data
        self._terms = MOST_TERMS

    def read(self, depth: int) -> Any:
        tag = self._data[self.at]
        self.at += 1
        reader = _READERS.get(tag)
        if reader is None:
            raise MalformedError(f"an Erlang term of the kind {tag} has no place in a message")
        return reader(self, depth)

    def _take(self, size: int) -> bytes:
        start = self.at
        end = start + size
        if end > len(self._data):
            raise IndexError
        self.at = end
        return self._data[start:end]

    def _number(self, layout: struct.Struct) -> Any:
        (number,) = layout.unpack_from(self._data, self.at)
        self.at += layout.size
        return number

    def _reserve(self, count: int, depth: int) -> None:
        """Every element takes a byte at least, so a length that lies is noticed before anything is made for it."""
        self._terms -= count
        if self._terms < 0:
            raise MalformedError(f"an Erlang term of more than {MOST_TERMS} parts")
        if count > len(self._data) - self.at:
            raise IndexError
        _check_depth(depth)

    def byte(self, _: int) -> int:
        return self._take(1)[0]

    def integer(self, _: int) -> int:
        return int(self._number(_INT32))

    def small_big(self, _: int) -> int:
        return self._big(self._take(1)[0])

    def large_big(self, _: int) -> int:
        return self._big(self._number(_UINT32))

    def _big(self, size: int) -> int:
        sign, digits = self._take(1)[0], self._take(size).rstrip(b"\0")
        if sign > 1:
            raise MalformedError("an Erlang integer with a sign that is none")
        if len(digits) > 8:
            raise MalformedError("an Erlang integer of more than 64 bits")
        number = int.from_bytes(digits, "little")
        return -number if sign else number

    def double(self, _: int) -> float:
        number = float(self._number(_DOUBLE))
        if not math.isfinite(number):
            raise MalformedError("an Erlang float that is no number")
        return number

    def old_float(self, _: int) -> float:
        text = self._take(31)
        if not _OLD_FLOAT.fullmatch(text):
            raise MalformedError("an Erlang float that is no number")
        number = float(text.rstrip(b"\0"))
        if not math.isfinite(number):
            raise MalformedError("an Erlang float that is no number")
        return number

    def latin_atom(self, _: int) -> Atom:
        return self._atom(self._take(self._number(_UINT16)), "latin-1")

    def small_latin_atom(self, _: int) -> Atom:
        return self._atom(self._take(self._take(1)[0]), "latin-1")

    def atom(self, _: int) -> Atom:
        return self._atom(self._take(self._number(_UINT16)), "utf-8")

    def small_atom(self, _: int) -> Atom:
        return self._atom(self._take(self._take(1)[0]), "utf-8")

    def _atom(self, data: bytes, encoding: str) -> Atom:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            raise MalformedError("an Erlang atom that is not UTF-8") from None
        if len(text) > LONGEST_ATOM:
            raise MalformedError(f"an Erlang atom of {len(text)} characters; {LONGEST_ATOM} are allowed")
        return Atom(text)

    def binary(self, _: int) -> bytes:
        return self._take(self._number(_UINT32))

    def small_tuple(self, depth: int) -> tuple[Any, ...]:
        return tuple(self._elements(self._take(1)[0], depth))

    def large_tuple(self, depth: int) -> tuple[Any, ...]:
        return tuple(self._elements(self._number(_UINT32), depth))

    def nil(self, _: int) -> list[Any]:
        return []

    def string(self, depth: int) -> list[Any]:
        size = self._number(_UINT16)
        self._reserve(size, depth)
        return list(self._take(size))

    def long_list(self, depth: int) -> list[Any]:
        elements = self._elements(self._number(_UINT32), depth)
        if self._take(1) != b"j":
            raise MalformedError("an Erlang list that does not end with []")
        return elements

    def _elements(self, count: int, depth: int) -> list[Any]:
        self._reserve(count, depth)
        return [self.read(depth + 1) for _ in range(count)]


_READERS: Final[dict[int, Callable[[_Reader, int], Any]]] = {
    70: _Reader.double,
    97: _Reader.byte,
    98: _Reader.integer,
    99: _Reader.old_float,
    100: _Reader.latin_atom,
    104: _Reader.small_tuple,
    105: _Reader.large_tuple,
    106: _Reader.nil,
    107: _Reader.string,
    108: _Reader.long_list,
    109: _Reader.binary,
    110: _Reader.small_big,
    111: _Reader.large_big,
    115: _Reader.small_latin_atom,
    118: _Reader.atom,
    119: _Reader.small_atom,
}


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise MalformedError(f"an Erlang term that is nested deeper than {DEEPEST}")


def encode(term: Any) -> bytes:
    """The bytes of a term, with the tags that every version of Erlang reads where possible."""
    return bytes((VERSION,)) + encode_part(term)


def encode_part(term: Any, depth: int = 1) -> bytes:
    """A term within another: without the first byte."""
    encoder = _ENCODERS.get(type(term))
    if encoder is None:
        raise MalformedError(f"a {type(term).__name__} is no Erlang term")
    return encoder(term, depth)


def _encode_integer(term: int, _: int) -> bytes:
    if 0 <= term <= 255:
        return b"a%c" % term
    if -(1 << 31) <= term < 1 << 31:
        return b"b" + _INT32.pack(term)
    if abs(term) > LARGEST_INTEGER:
        raise MalformedError("an Erlang integer of more than 64 bits")
    digits = abs(term).to_bytes((term.bit_length() + 7) // 8, "little")
    return b"n%c%c%s" % (len(digits), term < 0, digits)


def _encode_float(term: float, _: int) -> bytes:
    if not math.isfinite(term):
        raise MalformedError(f"Erlang has no float {term}")
    return b"F" + _DOUBLE.pack(term)


def _encode_atom(term: Atom, _: int) -> bytes:
    text = term.text
    if len(text) > LONGEST_ATOM:
        raise MalformedError(f"an Erlang atom of {len(text)} characters; {LONGEST_ATOM} are allowed")
    try:
        return b"d%s%s" % (_UINT16.pack(len(text)), text.encode("latin-1"))
    except UnicodeEncodeError:
        data = text.encode()
        return b"v%s%s" % (_UINT16.pack(len(data)), data)


def _encode_tuple(term: tuple[Any, ...], depth: int) -> bytes:
    _check_depth(depth)
    head = b"h%c" % len(term) if len(term) < 256 else b"i" + _UINT32.pack(len(term))
    return head + b"".join([encode_part(each, depth + 1) for each in term])


def _encode_list(term: list[Any], depth: int) -> bytes:
    if not term:
        return b"j"
    _check_depth(depth)
    return b"l%s%sj" % (_UINT32.pack(len(term)), b"".join([encode_part(each, depth + 1) for each in term]))


_ENCODERS: Final[dict[type, Callable[[Any, int], bytes]]] = {
    int: _encode_integer,
    float: _encode_float,
    bytes: lambda term, _: b"m" + _UINT32.pack(len(term)) + term,
    Atom: _encode_atom,
    tuple: _encode_tuple,
    list: _encode_list,
}
