"""A message as Erlang's AMQP client has it, in external term format: seed 004's own encoding.

    #amqp_msg{props = #'P_basic'{content_type = <<"text/plain">>, headers = [{<<"a">>, long, 1}]}, payload = <<"x">>}

is {amqp_msg, {'P_basic', the 14 properties in AMQP's order, `undefined` where there is none}, Payload}. A header is
{Name, Type, Value} with the names that RabbitMQ gives to AMQP's types; an element of an array is {Type, Value}. Every
type comes back as it was.

A MsgPack message may begin with the same byte, 131, as a map of three entries. Then a key follows, a text; in a term
the kind of term follows, which MsgPack would read as a number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from msgpack import ExtType, Timestamp

from fumarole.bridge.erlang_terms import VERSION, Atom, decode, encode_part
from fumarole.bridge.errors import MalformedError
from fumarole.bridge.fields import DECIMAL, DEEPEST, PROPERTIES, Typed, decode_properties

REST: Final = 64 * 1024
"""Bytes that a message may have beside its payload."""
UNDEFINED: Final = Atom("undefined")
TYPES: Final = {
    "byte": b"b",
    "unsignedbyte": b"B",
    "short": b"s",
    "unsignedshort": b"u",
    "signedint": b"I",
    "unsignedint": b"i",
    "long": b"l",
    "float": b"f",
    "double": b"d",
    "bool": b"t",
    "decimal": b"D",
    "longstr": b"S",
    "binary": b"x",
    "timestamp": b"T",
    "void": b"V",
    "array": b"A",
    "table": b"F",
}
"""RabbitMQ's names of AMQP's types, and their letters."""
_NAMES: Final = {letter: Atom(name) for name, letter in TYPES.items()}
_HEAD: Final = b"%ch\x03" % VERSION + encode_part(Atom("amqp_msg"))
_RECORD = Atom("P_basic")
_LAST_TAG: Final = 0x80


def is_erlang(part: bytes) -> bool:
    """True for a term, False for MsgPack."""
    return len(part) > 1 and part[0] == VERSION and part[1] < _LAST_TAG


# From Erlang.


def unpack_record(part: bytes) -> tuple[bytes, dict[str, Any], dict[Any, Any]]:
    """Payload, properties and headers of an `amqp_msg`. Raises MalformedError."""
    term = decode(part)
    if type(term) is not tuple or len(term) != 3 or term[0] != Atom("amqp_msg"):
        raise MalformedError("an Erlang message is {amqp_msg, Props, Payload}")
    _, props, payload = term
    if type(payload) is not bytes:
        raise MalformedError("the payload of an amqp_msg is a binary")
    if len(part) - len(payload) > REST:
        raise MalformedError(f"properties and headers have more than {REST} bytes")
    if type(props) is not tuple or len(props) != 1 + len(PROPERTIES) or props[0] != _RECORD:
        raise MalformedError(f"the props of an amqp_msg are a record 'P_basic' with {len(PROPERTIES)} fields")
    properties: dict[str, Any] = {}
    headers: dict[Any, Any] = {}
    for (name, (_, kind)), value in zip(PROPERTIES.items(), props[1:], strict=True):
        if value == UNDEFINED:
            continue
        if kind == "table":
            headers = _table(value, 1)
        else:
            properties[name] = _PROPERTY_READERS[kind](name, value)
    return payload, properties, headers


def _text(name: str, value: Any) -> str | bytes:
    if type(value) is not bytes:
        raise MalformedError(f"{name} is a binary, or undefined")
    return _as_text(value)


def _as_text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _time(name: str, value: Any) -> Timestamp:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise MalformedError(f"{name} is seconds from 0 to 64 bits, or undefined")
    # RabbitMQ reads the 64 bits without a sign, MsgPack's timestamp has one.
    return Timestamp(value - (1 << 64) if value >> 63 else value, 0)


def _octet(name: str, value: Any) -> int:
    if type(value) is not int:
        raise MalformedError(f"{name} is an integer, or undefined")
    return value


_PROPERTY_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {"text": _text, "time": _time, "octet": _octet}


def _table(value: Any, depth: int) -> dict[Any, Any]:
    _check(type(value) is list, "headers and tables are lists of {Name, Type, Value}")
    if depth > DEEPEST:
        raise MalformedError(f"headers are nested deeper than {DEEPEST}")
    table: dict[Any, Any] = {}
    for entry in value:
        _check(type(entry) is tuple and len(entry) == 3, "a header is {Name, Type, Value}")
        name, kind, content = entry
        _check(type(name) is bytes, "the name of a header is a binary")
        key = _as_text(name)
        if key in table:
            raise MalformedError(f"the header {key[:40]!r} is there twice")
        table[key] = _value(kind, content, depth)
    return table


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise MalformedError(text)


def _value(kind: Any, value: Any, depth: int) -> Any:
    letter = TYPES.get(kind.text) if isinstance(kind, Atom) else None
    if letter is None:
        raise MalformedError(f"the type of a header is one of {', '.join(TYPES)}")
    reader = _VALUE_READERS.get(letter)
    found = _fixed(letter, value) if reader is None else reader(value, depth)
    if found is _WRONG:
        raise MalformedError(f"a header of the type {kind.text} has another value")
    return found


_WRONG: Final = object()


def _fixed(letter: bytes, value: Any) -> Any:
    """A number. Whether it fits is seen when it is encoded."""
    if letter in b"fd":
        # RabbitMQ takes integers there too.
        if type(value) not in (float, int):
            return _WRONG
        return float(value) if letter == b"d" else Typed(letter, float(value))
    if type(value) is not int:
        return _WRONG
    return value if letter == b"l" else Typed(letter, value)


def _long_string(value: Any, _: int) -> Any:
    if type(value) is not bytes:
        return _WRONG
    text = _as_text(value)
    return text if isinstance(text, str) else Typed(b"S", text)


def _decimal(value: Any, _: int) -> Any:
    if type(value) is not tuple or len(value) != 2 or not all(type(each) is int for each in value):
        return _WRONG
    scale, number = value
    if not 0 <= scale <= 255 or not -(1 << 31) <= number < 1 << 32:
        return _WRONG
    return ExtType(DECIMAL, bytes((scale,)) + (number & 0xFFFF_FFFF).to_bytes(4, "big"))


def _array(value: Any, depth: int) -> Any:
    if type(value) is not list:
        return _WRONG
    if depth >= DEEPEST:
        raise MalformedError(f"headers are nested deeper than {DEEPEST}")
    found = []
    for entry in value:
        _check(type(entry) is tuple and len(entry) == 2, "an element of an array is {Type, Value}")
        found.append(_value(entry[0], entry[1], depth + 1))
    return found


_VALUE_READERS: Final[dict[bytes, Callable[[Any, int], Any]]] = {
    b"t": lambda value, _: (
        {Atom("true"): True, Atom("false"): False}.get(value, _WRONG) if isinstance(value, Atom) else _WRONG
    ),
    b"D": _decimal,
    b"S": _long_string,
    b"x": lambda value, _: value if type(value) is bytes else _WRONG,
    b"T": lambda value, _: _time("a timestamp", value),
    b"V": lambda value, _: None if value == UNDEFINED else _WRONG,
    b"A": _array,
    b"F": lambda value, depth: _table(value, depth + 1),
}


def unpack_options(part: bytes) -> dict[str, Any]:
    """The options of a call, a list as seed 004 has it: [{replies, 1 or infinity}, {timeout, milliseconds}]."""
    term = decode(part)
    options: dict[str, Any] = {}
    right = "the options of a call are [{replies, N}, {timeout, Milliseconds}]"
    _check(type(term) is list, right)
    for entry in term:
        _check(type(entry) is tuple and len(entry) == 2, right)
        name, value = entry
        _check(name in (Atom("replies"), Atom("timeout")), right)
        if name == Atom("replies"):
            options["replies"] = None if value == Atom("infinity") else value
        else:
            options["timeout"] = value / 1000 if type(value) is int else value
    return options


# To Erlang.


def record_from_amqp(property_list: bytes, body: bytes) -> bytes:
    """The `amqp_msg` of a property list and a body. Raises MalformedError."""
    properties = _cached(property_list) if len(property_list) <= 256 else _basic(property_list)
    return b"%s%sm%s%s" % (_HEAD, properties, len(body).to_bytes(4, "big"), body)


def _basic(property_list: bytes) -> bytes:
    """The record of the properties."""
    properties, headers = decode_properties(property_list, exact=True)
    record: list[Any] = [_RECORD]
    for name, (_, kind) in PROPERTIES.items():
        value = properties.get(name)
        if kind == "table":
            record.append(_table_term(headers) if headers else UNDEFINED)
        elif value is None:
            record.append(UNDEFINED)
        else:
            record.append(_plain_term(value))
    return encode_part(tuple(record))


_cached = lru_cache(1024)(_basic)


def _plain_term(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return value.seconds & 0xFFFF_FFFF_FFFF_FFFF
    return value.encode() if isinstance(value, str) else value


def _table_term(table: dict[Any, Any]) -> list[Any]:
    return [(_plain_term(name), *_typed_term(value)) for name, value in table.items()]


def _typed_term(value: Any) -> tuple[Atom, Any]:
    """The type and the value of a header."""
    if isinstance(value, Typed):
        return _NAMES[value.kind], value.value
    if isinstance(value, ExtType):
        return _NAMES[b"D"], (value.data[0], int.from_bytes(value.data[1:], "big"))
    letter, term = _TERMS[type(value)]
    return _NAMES[letter], term(value)


_TERMS: Final[dict[type, tuple[bytes, Callable[[Any], Any]]]] = {
    type(None): (b"V", lambda _: UNDEFINED),
    bool: (b"t", lambda value: Atom("true" if value else "false")),
    int: (b"l", lambda value: value),
    float: (b"d", lambda value: value),
    str: (b"S", _plain_term),
    bytes: (b"x", lambda value: value),
    Timestamp: (b"T", _plain_term),
    list: (b"A", lambda value: [_typed_term(each) for each in value]),
    dict: (b"F", _table_term),
}


def pack_record(payload: bytes, content_type: str) -> bytes:
    """An `amqp_msg` of the bridge's own."""
    fields = [content_type.encode(), *[UNDEFINED] * (len(PROPERTIES) - 1)]
    return b"%s%sm%s%s" % (_HEAD, encode_part((_RECORD, *fields)), len(payload).to_bytes(4, "big"), payload)
