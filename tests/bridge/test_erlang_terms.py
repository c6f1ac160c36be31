"""External term format: what Erlang reads of ours and we of Erlang's, random terms, and hostile bytes."""

from __future__ import annotations

import contextlib
import random
import struct
import time
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.bridge.erlang_terms import DEEPEST, LARGEST_INTEGER, MOST_TERMS, Atom, decode, encode
from fumarole.bridge.errors import MalformedError
from tests.bridge.erlang import erlang

ATOMS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(Atom)
SCALARS = (
    st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.integers(-300, 300)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.binary(max_size=300)
    | ATOMS
)
TERMS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.lists(inner).map(tuple), max_leaves=20)


def random_term(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 5 else 5)
    if kind == 0:
        return chance.choice([-1, 1]) * chance.getrandbits(chance.randrange(1, 65))
    if kind == 1:
        return chance.uniform(-1e6, 1e6) * 10.0 ** chance.randrange(-200, 200)
    if kind == 2:
        return chance.randbytes(chance.choice([0, 1, 255, 256, 70_000]) if depth == 0 else chance.randrange(20))
    if kind in (3, 4):
        return Atom("".join(chance.choice("abz_@ é\0ž語") for _ in range(chance.choice([0, 1, 8, 255]))))
    elements = [random_term(chance, depth + 1) for _ in range(chance.choice([0, 1, 2, 3, 300 if depth == 0 else 5]))]
    return elements if kind == 5 else tuple(elements)


@given(TERMS)
def test_what_goes_in_comes_out(term: Any) -> None:
    data = encode(term)
    assert decode(data) == term
    assert repr(decode(data)) == repr(term)


@given(TERMS)
def test_every_cut_and_every_extra_byte_is_noticed(term: Any) -> None:
    data = encode(term)
    for length in range(min(len(data), 60)):
        with pytest.raises(MalformedError):
            decode(data[:length])
    with pytest.raises(MalformedError, match="1 bytes follow"):
        decode(data + b"j")


def test_erlang_reads_what_we_write_and_we_read_what_it_writes() -> None:
    """The same 400 random terms through Erlang's own codec, by each of its ways to write them."""
    terms = [random_term(random.Random(seed)) for seed in range(400)]
    written = [encode(term) for term in terms]
    for options in ("[]", "[{minor_version, 0}]", "[{minor_version, 1}]", "[{minor_version, 2}]"):
        back = erlang(f"fun(B) -> term_to_binary(binary_to_term(B), {options}) end", written)
        if options == "[{minor_version, 0}]":
            # Floats as text of 20 digits: all there is of them.
            assert [decode(each) for each in back] == [
                pytest.approx(term) if type(term) is float else term for term in terms
            ]
        else:
            assert [repr(decode(each)) for each in back] == [repr(term) for term in terms]


def test_terms_that_erlang_makes() -> None:
    texts = {
        '"abc"': [97, 98, 99],
        "lists:seq(1, 300)": list(range(1, 301)),
        '<<"abc">>': b"abc",
        "[]": [],
        "{}": (),
        "true": Atom("true"),
        "'with space'": Atom("with space"),
        "list_to_atom([382, 26085])": Atom("ž日"),
        "-1": -1,
        "1 bsl 63": 2**63,
        "-(1 bsl 63)": -(2**63),
        "(1 bsl 64) - 1": 2**64 - 1,
        "1.5": 1.5,
        "-0.0": -0.0,
        "erlang:make_tuple(300, a)": (Atom("a"),) * 300,
        "[a | [b]]": [Atom("a"), Atom("b")],
    }
    made = erlang(
        'fun(T) -> {ok, S, _} = erl_scan:string(binary_to_list(T) ++ "."), {ok, E} = erl_parse:parse_exprs(S),'
        " {value, V, _} = erl_eval:exprs(E, []), term_to_binary(V) end",
        [text.encode() for text in texts],
    )
    assert [repr(decode(each)) for each in made] == [repr(value) for value in texts.values()]


REFUSED_OF_ERLANG = {
    "#{a => 1}": "kind 116",
    "self()": "kind 88",
    "make_ref()": "kind 90",
    "fun lists:map/2": "kind 113",
    "fun(X) -> X end": "kind 112",
    "<<1:3>>": "kind 77",
    "1 bsl 64": "more than 64 bits",
    "-(1 bsl 3000)": "more than 64 bits",
    "[a | b]": r"does not end with \[\]",
    "lists:duplicate(70000, a)": "more than 65536 parts",
    "lists:foldl(fun(_, A) -> [A] end, a, lists:seq(1, 10000))": "nested deeper than 64",
    "lists:foldl(fun(_, A) -> {A} end, a, lists:seq(1, 10000))": "nested deeper than 64",
}


def test_what_erlang_has_and_a_message_has_not() -> None:
    made = erlang(
        'fun(T) -> {ok, S, _} = erl_scan:string(binary_to_list(T) ++ "."), {ok, E} = erl_parse:parse_exprs(S),'
        " {value, V, _} = erl_eval:exprs(E, []), term_to_binary(V) end",
        [text.encode() for text in REFUSED_OF_ERLANG],
    )
    for data, said in zip(made, REFUSED_OF_ERLANG.values(), strict=True):
        with pytest.raises(MalformedError, match=said):
            decode(data)


def test_compressed_terms_are_refused() -> None:
    (data,) = erlang("fun(B) -> term_to_binary(lists:duplicate(10000, B), [compressed]) end", [b"x"])
    assert data[:2] == b"\x83P"
    with pytest.raises(MalformedError, match="must not be compressed"):
        decode(data)
    bomb = b"\x83P" + struct.pack(">I", 1 << 30) + zlib.compress(bytes(1 << 20))
    with pytest.raises(MalformedError, match="must not be compressed"):
        decode(bomb)


def nested(tag: bytes, levels: int) -> bytes:
    return b"\x83" + tag * levels + b"j" + (b"j" * levels if tag.startswith(b"l") else b"")


HOSTILE = {
    "nothing": (b"", "begins with the byte 131"),
    "no version": (b"j", "begins with the byte 131"),
    "the version alone": (b"\x83", "ends too early"),
    "a version within": (b"\x83\x83j", "kind 131"),
    "tuples 10,000 deep": (nested(b"h\x01", 10_000), "nested deeper than 64"),
    "lists 10,000 deep": (nested(b"l\x00\x00\x00\x01", 10_000), "nested deeper than 64"),
    "large tuples 10,000 deep": (nested(b"i\x00\x00\x00\x01", 10_000), "nested deeper than 64"),
    "a list in its own tail, 10,000 times": (b"\x83" + b"l\x00\x00\x00\x01a\x01" * 10_000 + b"j", "does not end"),
    "a list of four billion": (b"\x83l\xff\xff\xff\xff" + b"j" * 100, "more than 65536 parts"),
    "a list that lies a little": (b"\x83l\x00\x00\x01\x00" + b"j" * 100, "ends too early"),
    "a tuple of four billion": (b"\x83i\xff\xff\xff\xff" + b"j" * 100, "more than 65536 parts"),
    "a tuple that lies": (b"\x83h\xff" + b"j" * 100, "ends too early"),
    "a binary of four gigabytes": (b"\x83m\xff\xff\xff\xff" + bytes(100), "ends too early"),
    "a string that lies": (b"\x83k\xff\xff" + bytes(100), "ends too early"),
    "many strings": (b"\x83h\x02" + (b"k\xff\xff" + bytes(65_535)) * 2, "more than 65536 parts"),
    "many lists": (b"\x83l\x00\x00\xff\xff" + b"l\x00\x00\x00\x01jj" * 65_535 + b"j", "more than 65536 parts"),
    "a bignum of four gigabytes": (b"\x83o\xff\xff\xff\xff\x00" + b"\xff" * 100, "ends too early"),
    "a bignum of a megabyte": (b"\x83o\x00\x10\x00\x00\x00" + b"\xff" * (1 << 20), "more than 64 bits"),
    "a bignum of 9 bytes": (b"\x83n\x09\x00" + b"\xff" * 9, "more than 64 bits"),
    "a sign that is none": (b"\x83n\x01\x02\x05", "a sign that is none"),
    "an atom of 256": (b"\x83d\x01\x00" + b"a" * 256, "256 characters"),
    "an atom of 256 in UTF-8": (b"\x83v\x02\x00" + "é".encode() * 256, "256 characters"),
    "an atom of 65,535": (b"\x83v\xff\xff" + b"a" * 65_535, "65535 characters"),
    "an atom that is not UTF-8": (b"\x83w\x02\xff\xfe", "not UTF-8"),
    "an atom that lies": (b"\x83s\xffabc", "ends too early"),
    "not a number": (b"\x83F\x7f\xf8" + bytes(6), "no number"),
    "infinity": (b"\x83F\x7f\xf0" + bytes(6), "no number"),
    "infinity as text": (b"\x83c" + b"inf".ljust(31, b"\0"), "no number"),
    "a float of nonsense": (b"\x83c" + b"1.5e9999".ljust(31, b"\0"), "no number"),
    "a float with underscores": (b"\x83c" + b"1_0.5".ljust(31, b"\0"), "no number"),
    "a float cut off": (b"\x83c1.5", "ends too early"),
}


@pytest.mark.parametrize(("data", "said"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes(data: bytes, said: str) -> None:
    """One sentence, at once, and nothing kept."""
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(MalformedError, match=said):
            decode(data)
        took, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 1024 * 1024
    assert took < 2.0


def test_the_deepest_and_the_largest_that_are_taken() -> None:
    term: Any = []
    for _ in range(DEEPEST):
        term = [term]
    assert decode(encode(term)) == term
    with pytest.raises(MalformedError, match="nested deeper"):
        encode([term])
    many = [1] * MOST_TERMS
    assert decode(encode(many)) == many
    with pytest.raises(MalformedError, match="more than 65536 parts"):
        decode(encode([*many, 1]))
    assert len(decode(encode(bytes(10_000_000)))) == 10_000_000


@pytest.mark.parametrize("term", [None, True, "text", {}, object(), 2**64, float("nan"), float("inf"), Atom("a" * 256)])
def test_what_is_no_term(term: object) -> None:
    with pytest.raises(MalformedError):
        encode(term)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_term_or_refused(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        term = decode(b"\x83" + data)
        assert repr(decode(encode(term))) == repr(term)


def test_mutations_never_take_long() -> None:
    chance = random.Random(5)
    for seed in range(300):
        data = bytearray(encode(random_term(random.Random(seed))))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(MalformedError):
            decode(bytes(data))
