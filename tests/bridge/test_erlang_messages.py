"""`amqp_msg` records: every property and every type of a header, held equal to RabbitMQ's own code, and what is refused."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.bridge.erlang_messages import (
    TYPES,
    UNDEFINED,
    is_erlang,
    pack_record,
    record_from_amqp,
    unpack_options,
    unpack_record,
)
from fumarole.bridge.erlang_terms import Atom, decode, encode
from fumarole.bridge.errors import MalformedError
from fumarole.bridge.fields import PROPERTIES, encode_properties
from fumarole.bridge.messages import to_amqp, unpack
from tests.bridge.erlang import erlang

A = Atom
HEADERS = [
    (b"byte", A("byte"), -128),
    (b"unsignedbyte", A("unsignedbyte"), 255),
    (b"short", A("short"), -32768),
    (b"unsignedshort", A("unsignedshort"), 65535),
    (b"signedint", A("signedint"), -(2**31)),
    (b"unsignedint", A("unsignedint"), 2**32 - 1),
    (b"long", A("long"), -(2**63)),
    (b"float", A("float"), 0.5),
    (b"double", A("double"), 0.1),
    (b"yes", A("bool"), A("true")),
    (b"no", A("bool"), A("false")),
    (b"decimal", A("decimal"), (2, 4294965297)),
    (b"longstr", A("longstr"), "žluťoučký".encode()),
    (b"not text", A("longstr"), b"\xff\xfe"),
    (b"binary", A("binary"), b"\x00text"),
    (b"timestamp", A("timestamp"), 1_700_000_000),
    (b"far", A("timestamp"), 2**64 - 1),
    (b"void", A("void"), UNDEFINED),
    (b"array", A("array"), [(A("longstr"), b"a"), (A("signedint"), 5), (A("table"), [(b"in", A("byte"), 1)])]),
    (b"table", A("table"), [(b"t", A("table"), [(b"a", A("array"), [(A("array"), [])])])]),
    (b"\xff name", A("long"), 1),
]
PROPS = (
    A("P_basic"),
    b"text/plain",
    b"utf-8",
    HEADERS,
    2,
    7,
    b"c-1",
    b"answers",
    b"60000",
    b"m-1",
    1_700_000_000,
    b"reading",
    b"guest",
    b"test",
    b"here",
)
MESSAGE = (A("amqp_msg"), PROPS, b"\x00payload")


def through_amqp(message: bytes) -> bytes:
    """What the bridge does: from the client to the broker's bytes, and back."""
    payload, properties, headers = unpack_record(message)
    return record_from_amqp(to_amqp(properties, headers, "guest"), payload)


def test_all_14_properties_and_every_type_come_back() -> None:
    """B1, exactly: not even an integer gets wider."""
    assert len(PROPS) == 15
    assert {kind.text for _, kind, _ in HEADERS} == set(TYPES)
    assert decode(through_amqp(encode(MESSAGE))) == MESSAGE


def basic_of(record: tuple[Any, ...]) -> bytes:
    payload, properties, headers = unpack_record(encode((A("amqp_msg"), record, b"")))
    assert payload == b""
    return encode_properties(properties, headers)


def random_value(chance: random.Random, depth: int = 0) -> tuple[Atom, Any]:
    kind = chance.choice([name for name in TYPES if depth < 3 or name not in ("array", "table")])
    widths = {"byte": 8, "short": 16, "signedint": 32, "long": 64}
    unsigned = {"unsignedbyte": 8, "unsignedshort": 16, "unsignedint": 32, "timestamp": 64}
    if kind in widths:
        value: Any = chance.getrandbits(widths[kind]) - (1 << widths[kind] - 1)
    elif kind in unsigned:
        value = chance.getrandbits(unsigned[kind])
    elif kind in ("float", "double"):
        value = struct.unpack(">f", struct.pack(">f", chance.uniform(-1e9, 1e9)))[0]
    elif kind == "bool":
        value = A(chance.choice(["true", "false"]))
    elif kind == "decimal":
        value = (chance.getrandbits(8), chance.getrandbits(32))
    elif kind in ("longstr", "binary"):
        value = chance.choice([b"", b"text", "ž".encode(), chance.randbytes(20)])
    elif kind == "array":
        value = [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    elif kind == "table":
        value = random_table(chance, depth + 1)
    else:
        value = UNDEFINED
    return A(kind), value


def random_table(chance: random.Random, depth: int = 0) -> list[Any]:
    names = {chance.choice([b"", b"a", b"\xff", b"%d" % chance.randrange(100), "é".encode() * 20]) for _ in range(4)}
    return [(name, *random_value(chance, depth)) for name in sorted(names)]


def random_record(chance: random.Random) -> tuple[Any, ...]:
    record: list[Any] = [A("P_basic")]
    for kind in (kind for _, kind in PROPERTIES.values()):
        value: Any = {
            "text": chance.choice([b"", b"text", b"\xff" * 255]),
            "octet": chance.getrandbits(8),
            "time": chance.getrandbits(64),
            "table": random_table(chance),
        }[kind]
        record.append(UNDEFINED if chance.random() < 0.4 or value == [] else value)
    return tuple(record)


def test_the_same_bytes_as_rabbitmqs_own_code_writes() -> None:
    """300 random records: property lists are equal to the byte, and so are the records that are read from them."""
    records = [(A("P_basic"), *PROPS[1:]), *(random_record(random.Random(seed)) for seed in range(300))]
    theirs = erlang(
        "fun(B) -> rabbit_framing_amqp_0_9_1:encode_properties(binary_to_term(B)) end",
        [encode(each) for each in records],
    )
    assert [basic_of(record) for record in records] == theirs
    # Their own reader wants text to be text.
    readable = erlang(
        "fun(B) -> R = (catch rabbit_framing_amqp_0_9_1:decode_properties(60, B)), term_to_binary(R) end", theirs
    )
    compared = 0
    for ours, data, record in zip(theirs, readable, records, strict=True):
        mine = decode(record_from_amqp(ours, b"body"))
        assert mine == (A("amqp_msg"), record, b"body")
        with contextlib.suppress(MalformedError):
            if (read := decode(data))[0] == A("P_basic"):
                assert read == record
                compared += 1
    assert compared > 100


def test_erlang_reads_our_records() -> None:
    """Also a careful client that takes no atom which its own code does not have."""
    payload, properties, headers = unpack_record(encode(MESSAGE))
    message = record_from_amqp(encode_properties(properties, headers), payload)
    (back,) = erlang(
        "fun(B) -> code:ensure_loaded(rabbit_binary_parser), {amqp_msg, P, Payload} = binary_to_term(B, [safe]), "
        "['P_basic', <<\"text/plain\">> | _] = tuple_to_list(P), [Payload, integer_to_binary(tuple_size(P))] end",
        [message],
    )
    assert back == b"\x00payload15"


@pytest.mark.parametrize(
    ("part", "erlang"),
    [
        pytest.param(encode(MESSAGE), True, id="a record"),
        pytest.param(b"\x83P", True, id="a compressed one"),
        pytest.param(b"\x83", False, id="one byte"),
        pytest.param(b"", False, id="nothing"),
        pytest.param(msgpack.packb({"payload": b"", "properties": {}, "headers": {}}), False, id="a map of three"),
        pytest.param(b"\x83\xd9\x07payload", False, id="a map of three with a long key"),
        pytest.param(b"\x80", False, id="an empty map"),
    ],
)
def test_the_forms_are_told_apart(part: bytes, erlang: bool) -> None:
    """A map of three begins with 131 too."""
    assert is_erlang(part) == erlang


def test_msgpack_that_looks_like_a_term_was_never_a_message() -> None:
    """A map of three whose first key is a number."""
    for tag in range(0x80):
        with pytest.raises(MalformedError):
            unpack(b"\x83" + bytes((tag,)) + b"\x01\x02\x02\x03\x03")


EMPTY = (A("P_basic"), *[UNDEFINED] * 14)


def message(props: Any = EMPTY, payload: Any = b"") -> bytes:
    return encode((A("amqp_msg"), props, payload))


def with_header(kind: str, value: Any, name: Any = b"a") -> bytes:
    return message((A("P_basic"), UNDEFINED, UNDEFINED, [(name, A(kind), value)], *[UNDEFINED] * 11))


def with_property(name: str, value: Any) -> bytes:
    fields = [value if each == name else UNDEFINED for each in PROPERTIES]
    return message((A("P_basic"), *fields))


def deep(levels: int) -> list[Any]:
    table: list[Any] = []
    for _ in range(levels):
        table = [(b"a", A("table"), table)]
    return table


REFUSED = {
    "no record": (encode([]), "an Erlang message is {amqp_msg, Props, Payload}"),
    "another record": (encode((A("amqp_message"), 1, 2)), "an Erlang message is"),
    "a record cut short": (encode((A("amqp_msg"), PROPS)), "an Erlang message is"),
    "a payload of a list": (message(payload=[1]), "the payload of an amqp_msg is a binary"),
    "props that are none": (message(props=UNDEFINED), "the props of an amqp_msg are a record 'P_basic' with 14 fields"),
    "props of 13": (message(props=PROPS[:-1]), "with 14 fields"),
    "another's props": (message(props=(A("P_file"), *PROPS[1:])), "with 14 fields"),
    "a string for text": (with_property("content_type", [97]), "content_type is a binary, or undefined"),
    "an atom for text": (with_property("app_id", A("me")), "app_id is a binary"),
    "text too long": (with_property("app_id", b"x" * 256), "app_id has 256 bytes"),
    "a priority of text": (with_property("priority", b"1"), "priority is an integer"),
    "a priority of 256": (with_property("priority", 256), "priority is a whole number from 0 to 255"),
    "a time before all time": (with_property("timestamp", -1), "timestamp is seconds"),
    "a delivery mode that is none": (with_property("delivery_mode", 3), "delivery_mode is 1"),
    "somebody else's user": (with_property("user_id", b"admin"), "user_id is the name"),
    "headers that are none": (with_property("headers", 1), "headers and tables are lists"),
    "a header of two": (with_property("headers", [(b"a", 1)]), "a header is {Name, Type, Value}"),
    "a header's name that is none": (with_header("long", 1, A("a")), "the name of a header is a binary"),
    "a header's name too long": (with_header("long", 1, b"n" * 256), "the name of a header has 256 bytes"),
    "an unknown type": (with_header("longlong", 1), "the type of a header is one of byte, unsignedbyte"),
    "a type that is none": (message((A("P_basic"), UNDEFINED, UNDEFINED, [(b"a", b"long", 1)], *[UNDEFINED] * 11)), "the type of a header"),
    "the same header twice": (with_property("headers", [(b"a", A("long"), 1)] * 2), "the header 'a' is there twice"),
    "a byte of 128": (with_header("byte", 128), "128 does not fit into AMQP's type b"),
    "a long of 64 bits": (with_header("long", 2**63), "does not fit into the 64 bits"),
    "a float too large": (with_header("float", 1e300), "does not fit into AMQP's type f"),
    "a long of text": (with_header("long", b"1"), "a header of the type long has another value"),
    "a double of an atom": (with_header("double", A("nan")), "a header of the type double has another value"),
    "a bool of 1": (with_header("bool", 1), "a header of the type bool has another value"),
    "a bool of another atom": (with_header("bool", A("maybe")), "a header of the type bool has another value"),
    "a longstr of a list": (with_header("longstr", [97]), "a header of the type longstr has another value"),
    "a void of something": (with_header("void", 1), "a header of the type void has another value"),
    "a decimal of one": (with_header("decimal", 5), "a header of the type decimal has another value"),
    "a decimal of 33 bits": (with_header("decimal", (0, 2**32)), "a header of the type decimal has another value"),
    "an array of values": (with_header("array", [1]), "an element of an array is {Type, Value}"),
    "an array of none": (with_header("array", A("a")), "a header of the type array has another value"),
    "copies of one": (with_header("longstr", b"k", b"CC"), "the header CC is a list of routing keys"),
    "tables too deep": (with_property("headers", deep(17)), "headers are nested deeper than 16"),
    "headers too large": (with_header("longstr", bytes(70_000)), "properties and headers have more than 65536 bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("part", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(part: bytes, said: str) -> None:
    with pytest.raises(MalformedError, match=said.replace("{", r"\{").replace("(", r"\(")):
        through_amqp(part)


def test_the_deepest_that_is_taken() -> None:
    record = with_property("headers", deep(15))
    assert through_amqp(record) == record


def test_a_large_payload() -> None:
    record = message(payload=bytes(1_000_000))
    assert through_amqp(record) == record


def test_what_erlang_has_no_word_for() -> None:
    for value in (float("nan"), float("inf")):
        table = b"\x01ad" + struct.pack(">d", value)
        with pytest.raises(MalformedError, match="Erlang has no float"):
            record_from_amqp(b"\x20\x00" + struct.pack(">I", len(table)) + table, b"")


def test_the_bridges_own_message() -> None:
    assert unpack_record(pack_record(b"{}", "application/json")) == (b"{}", {"content_type": "application/json"}, {})


def test_options_of_a_call_as_the_seed_has_them() -> None:
    infinite = encode([(A("replies"), A("infinity")), (A("timeout"), 5000)])
    assert unpack_options(infinite) == {"replies": None, "timeout": 5.0}
    assert unpack_options(encode([(A("replies"), 1)])) == {"replies": 1}
    assert unpack_options(encode([])) == {}
    for wrong in (
        encode(1),
        encode([1]),
        encode([(A("replies"),)]),
        encode([(A("retries"), 1)]),
    ):
        with pytest.raises(MalformedError, match="the options of a call are"):
            unpack_options(wrong)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    head = encode((A("amqp_msg"), 1, 2))[:13]
    for part in (b"\x83" + data, head + data, head + encode(PROPS)[1:40] + data):
        with contextlib.suppress(MalformedError):
            through_amqp(part)
