"""The compiled walk over a JSON payload against the definition: the same fields, or NOT_SURE (F6)."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core.publication import Publication
from fumarole.core.query.message import LONGEST_JSON, Message
from fumarole.fastpath.json_paths import JsonPaths
from tests.core.query.test_message import HOSTILE, PIECES, number_texts, objects, plain
from tests.random_examples import examples

Path = tuple[str, ...]
PATHS: tuple[Path, ...] = (
    ("a",),
    ("a", "a"),
    ("a", "é"),
    ("b", "a", "b"),
    ("é",),
    ("",),
    ("", ""),
    ("a" * 9,),
    ("\\",),
)
FIELDS = JsonPaths(PATHS)
NOT_SURE = "not sure"


def found(payload: bytes) -> Any:
    """By the compiled walk."""
    read = FIELDS.reads(payload)
    return NOT_SURE if read is None else {path: plain(value) for path, value in read.items()}


def defined(payload: bytes) -> Any:
    message = Message(Publication("", payload), {})
    return {path: plain(message.field(path)) for path in PATHS}


def check(payload: bytes) -> None:
    assert found(payload) in (defined(payload), NOT_SURE), payload


inner = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=12)),
    lambda each: st.one_of(
        st.lists(each, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "é", "", "\\", "a" * 9, "a" * 8 + "b"]), each, max_size=4),
    ),
    max_leaves=12,
)


@examples(400)
@given(
    st.one_of(objects, st.dictionaries(st.sampled_from(["a", "b", "é", ""]), inner, max_size=4), inner),
    st.booleans(),
    st.sampled_from([None, (",", ":"), (" ,\t", "\n: ")]),
    st.lists(st.tuples(st.integers(0, 80), st.sampled_from(PIECES), st.integers(0, 3)), max_size=3),
)
def test_equal(document: Any, ascii_only: bool, separators: tuple[str, str] | None, changes: list[Any]) -> None:
    """Objects as others write them, and such as a few letters have made something else."""
    text = json.dumps(document, ensure_ascii=ascii_only, separators=separators)
    check(text.encode(errors="surrogatepass"))
    for at, piece, cut in changes:
        text = text[:at] + piece + text[at + cut :]
    check(text.encode(errors="surrogatepass"))


@examples(400)
@given(st.text('{}[]",:\\1e.-ab \nutrlf', max_size=30), st.text('{}[]",:\\1e.-ab \n', max_size=12))
def test_any_text(text: str, more: str) -> None:
    check(text.encode())
    check(b'{"a":' + text.encode() + b"}")
    check(b'{"a":{"a":1' + more.encode() + b"}")


@examples(300)
@given(st.binary(max_size=12), st.sampled_from([b"", b"a", b"aaaaaaa", b"a" * 15]))
@example(b"\xed\xa0\x80", b"")
@example(b"\xf4\x90\x80\x80", b"")
@example(b"\xc0\xaf", b"")
def test_utf8(letters: bytes, before: bytes) -> None:
    """In a text that is asked for, in one that is not, and in a key."""
    check(b'{"a":"' + before + letters + b'"}')
    check(b'{"b":"' + before + letters + b'"}')
    check(b'{"' + before + letters + b'":1}')


@examples(300)
@given(number_texts)
def test_numbers(text: str) -> None:
    check(f'{{"a": {text}}}'.encode())
    check(f'{{"b": [{text}, {text}]}}'.encode())


@examples(100)
@given(st.lists(st.text("ab", min_size=1, max_size=9), max_size=70), st.sampled_from(["a", "b"]))
def test_keys_twice(keys: list[str], at: str) -> None:
    """In any object of the payload."""
    made = "{" + ",".join([f'"{key}":0' for key in keys]) + "}"
    check(made.encode())
    check(f'{{"{at}":{made},"c":{made}}}'.encode())
    check(f'{{"c":[{made},{made}],"a":1}}'.encode())


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"a": {"a": 2.5}, "x": [1, {"a": 3}]}', {("a", "a"): 2.5}),
        (b'{"a": 123456789012345}', {("a",): 123456789012345}),
        (b'{"a": "\xc3\xa9\xf0\x9f\x8c\x8b"}', {("a",): "é🌋"}),
        (b'{"a": true, "b": "a\\n", "\xc3\xa9": false}', {("a",): True, ("é",): False}),
        (b' {"a": null, "": 1e3}\n', {("",): 1000.0}),
        (b'{"b": ' + b"[" * 30 + b"]" * 30 + b', "a": 1}', {("a",): 1}),
        (b"{" + b",".join([b'"k%d":0' % number for number in range(63)]) + b',"a":1}', {("a",): 1}),
        (b"[1]", {}),
        (b"21.5", {}),
        (b"", {}),
        (b'{"a":"' + b"x" * LONGEST_JSON + b'"}', {}),
    ],
)
def test_usual_payloads_are_read(payload: bytes, expected: dict[Path, Any]) -> None:
    """Otherwise the definition would decide all of them, and the comparison would see nothing."""
    read = FIELDS.reads(payload)
    assert read is not None
    assert {path: value for path, value in read.items() if type(value) in (str, int, float, bool)} == expected
    check(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a": 9007199254740993}',
        b'{"a": 1e999}',
        b'{"\\u0061": 1}',
        b'{"a": "\\n"}',
        b'{"b": "\\ud83c\\udf0b"}',
        b'{"b": "\\ud83c"}',
        b'{"a": 1, "a": 1}',
        b'{"b": ' + b"[" * 60 + b"]" * 60 + b"}",
        b'{"a": 1',
        b'{"a": 01}',
    ],
)
def test_unusual_ones_are_left_to_the_definition(payload: bytes) -> None:
    assert found(payload) == NOT_SURE


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_payloads(text: str) -> None:
    check(text.encode())


def test_every_beginning_of_a_payload() -> None:
    """What is not whole is no object, and nothing behind the end is looked at."""
    payload = b'{"a":{"a":-1.5e+3,"k\xc3\xa9":"x\\u00e9\\\\"},"b":[true,false,null,{"b":""}],"\xc3\xa9":0}'
    for end in range(len(payload) + 1):
        check(payload[:end])
        assert (found(payload[:end]) == NOT_SURE) is (0 < end < len(payload))
