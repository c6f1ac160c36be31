"""What a message has under each name (F6)."""

import json
import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.publication import Publication
from fumarole.core.query.message import LONGEST_JSON, OTHER, Found, Message, json_object, payload_number
from fumarole.core.query.tree import Field
from fumarole.exchange.readings import Reading
from fumarole.protocols.columns import number
from fumarole.sessions.msgpack import published
from fumarole.sessions.nats_forms import reading_of
from tests.conformance.messages import MESSAGE_CASES, shortened
from tests.core.query import json_definition

PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
HEADERS = f"NATS/1.0\r\nProducer: {PRODUCER}\r\n\r\n".encode()
VALUE = Field("value")
PAYLOADS = list(dict.fromkeys(case.message.payload for case in MESSAGE_CASES if len(case.message.payload) < 3000))


@pytest.mark.parametrize(
    ("field", "found"),
    [
        (Field("topic"), "a.b"),
        (Field("producer"), PRODUCER),
        (Field("size"), 28),
        (VALUE, None),
        (Field("", ("x",)), OTHER),
        (Field("", ("x", "y")), 1),
        (Field("", ("x", "y", "z")), None),
        (Field("", ("z",)), None),
        (Field("", ("é",)), "é"),
    ],
)
def test_names(field: Field, found: Found) -> None:
    payload = '{"x":{"y":1},"é":"é","z":null}'.encode()[:-1] + b"}"
    message = Message(Publication("a.b", payload, "", HEADERS, Reading(PRODUCER, {}, "")), {})
    expected = len(payload) if field.name == "size" else found
    assert message.get(field) == expected
    assert (field in message) is (expected is not None)


def test_metadata_is_found_too() -> None:
    message = Message(Publication("a", b"5"), {"Room": "4", "$value": True})
    assert message.get("Room") == "4"
    assert message.get("$value") is True
    assert message.get(VALUE) == 5
    assert "Floor" not in message


def test_a_message_without_a_producer() -> None:
    message = Message(Publication("a", b"21.5"), {})
    assert message.get(Field("producer")) is None
    assert message.get(VALUE) == 21.5


numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.integers(2**53 - 9, 2**53 + 9).map(float),
    st.sampled_from([0, -0.0, 2**53 + 1, 1e16, 1e22, 5e-324, float(2**63), float(2**64)]),
)


@given(numbers)
def test_a_reading_from_the_msgpack_door_has_its_value(value: float) -> None:
    """M8: what other doors get as text is the same number."""
    publication = published(Reading(PRODUCER, {}, value, b"raw"), "a")
    found = Message(publication, {}).get(VALUE)
    assert found == value
    assert payload_number(publication.payload) == value
    assert not isinstance(found, bool)


number_texts = st.one_of(
    numbers.map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,45})(\.[0-9]{1,30}|\.0{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.text("0123456789.eE+- \n", max_size=8),
    st.sampled_from([*dict.fromkeys(case.message.payload.decode(errors="replace") for case in MESSAGE_CASES)]),
)


@given(number_texts, st.sampled_from(["", " ", "\n", "\t \r"]))
@example("9" * 5000, "")
@example("1" * 300, "")
def test_value_equals_its_definition(text: str, space: str) -> None:
    """And what is recorded as the value is the same, as a double (P1)."""
    payload = (space + text + space).encode()
    found = payload_number(payload)
    stripped = payload.strip(b" \t\n\r").decode()
    expected = json_definition.number(stripped) if json_definition.NUMBER.fullmatch(stripped) else None
    if expected is not None and abs(expected) == float("inf"):
        expected = None
    assert found == expected
    assert number(payload) == (None if expected is None else float(expected))


@given(number_texts)
def test_a_reading_from_the_nats_door_has_the_value_of_its_payload(text: str) -> None:
    publication = Publication("a", text.encode(), "", HEADERS)
    publication.reading = reading_of(publication, 8 * 1024)
    assert Message(publication, {}).get(VALUE) == payload_number(text.encode())


# JSON.

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**40), 10**40), st.floats(allow_nan=False), st.text(max_size=5)
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=4)),
    max_leaves=10,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "é", "\\", '"', ""]), documents, max_size=4)
PIECES = ["", '"', "\\", "{", "}", "[", "]", ",", ":", " ", "0", "1", "-", ".", "e", "\\u00e9", "\\ud83c", "\\udf0b", "\n", "\0", "a", "true", "null", "NaN", "é", "\ufeff", '"a":1,']  # fmt: skip


def plain(value: Any) -> Any:
    """1 and true are equal to Python, and 5.0 is 5 here."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and abs(value) == float("inf"):
        return ("infinite", value > 0)
    return Fraction(value) if isinstance(value, int | float) and not isinstance(value, bool) else (type(value), value)


@given(st.one_of(objects, documents), st.booleans(), st.integers(0, 60), st.sampled_from(PIECES), st.integers(0, 3))
def test_objects_equal_their_definition(document: object, ascii_only: bool, at: int, piece: str, cut: int) -> None:
    """Well-formed ones, and such as a letter or two have made something else."""
    text = json.dumps(document, ensure_ascii=ascii_only)
    for payload in (text, text[:at] + piece + text[at + cut :]):
        encoded = payload.encode(errors="surrogatepass")
        assert plain(json_object(encoded)) == plain(json_definition.json_object(encoded))


@given(st.text('{}[]",:\\1e.-a \n', max_size=30))
def test_any_text_equals_its_definition(text: str) -> None:
    payload = text.encode()
    assert plain(json_object(payload)) == plain(json_definition.json_object(payload))


@pytest.mark.parametrize("payload", PAYLOADS, ids=shortened)
def test_the_tables_payloads_equal_their_definition(payload: bytes) -> None:
    assert plain(json_object(payload)) == plain(json_definition.json_object(payload))


SIZE = LONGEST_JSON
HOSTILE = {
    "brackets": "[" * SIZE,
    "brackets of objects": '{"a":' * (SIZE // 5),
    "quotes": '["' * (SIZE // 2),
    "escaped quotes": "[" * 100 + '"' + '\\"' * (SIZE // 2 - 60),
    "backslashes": "[" * 100 + '"' + "\\" * (SIZE - 110),
    "empty arrays": '{"a":[' + "[]," * (SIZE // 3 - 10) + "[]]}",
    "empty objects": '{"a":[' + "{}," * (SIZE // 3 - 10) + "{}]}",
    "keys": "{" + ",".join([f'"{number:x}":0' for number in range(SIZE // 8)]) + "}",
    "the same key": "{" + '"a":0,' * (SIZE // 6 - 5) + '"b":0}',
    "digits": '{"a":' + "9" * (SIZE - 10) + "}",
    "decimals": '{"a":0.' + "9" * (SIZE - 10) + "}",
    "numbers": '{"a":[' + "1.5," * (SIZE // 4 - 5) + "1]}",
    "escapes": '{"a":"' + "\\u00e9" * (SIZE // 6 - 5) + '"}',
    "pairs": '{"a":"' + "\\ud83c\\udf0b" * (SIZE // 12 - 5) + '"}',
    "white space": " " * (SIZE - 2) + "{}",
    "10,000 deep": '{"a":' + "[" * 10_000 + "]" * 10_000 + "}",
    "a megabyte": '{"a":"' + "x" * 2**20 + '"}',
    "a million keys": "{" + ",".join([f'"{number:x}":0' for number in range(10**6)]) + "}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_a_payload_can_cost_is_bounded(text: str) -> None:
    """L1: whatever it is, it is parsed, or left alone, in milliseconds, and once."""
    payload, field = text.encode(), Field("", ("a",))

    def cost() -> float:
        start = time.process_time()
        message = Message(Publication("a", payload), {})
        for _ in range(100):
            message.get(field)
        return time.process_time() - start

    assert min(cost() for _ in range(5)) < 0.03


def test_numbers_of_very_many_digits() -> None:
    start = time.process_time()
    assert payload_number(b"9" * 2**20) is None
    assert payload_number(b"0." + b"9" * 2**20) == 1
    assert payload_number(b"1e" + b"9" * 2**20) is None
    assert json_object(b'{"a":' + b"9" * 4301 + b"}") is None
    assert time.process_time() - start < 0.5
