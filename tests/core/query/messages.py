"""Messages of the case table as the exchange has them, and random ones."""

from hypothesis import strategies as st

from fumarole.core.publication import Publication
from fumarole.core.query.message import Message
from fumarole.core.query.tree import (
    OPERATORS,
    Between,
    Compare,
    Field,
    Has,
    In,
    IsNull,
    Key,
    Like,
    Matches,
    Metadata,
    Query,
    constant,
)
from fumarole.exchange.readings import Reading
from tests.conformance.messages import MessageCase, Sent
from tests.core.query.strategies import joined, values


def message(sent: Sent, metadata: Metadata) -> Message:
    reading = None if sent.producer is None else Reading(sent.producer, {}, sent.payload.decode(errors="replace"))
    return Message(Publication(sent.topic, sent.payload, reading=reading), metadata)


def message_of(case: MessageCase) -> Message:
    return message(case.message, case.metadata)


# From a small stock, so that queries and messages meet.
FIELDS = [Field("value"), Field("topic"), Field("size"), Field("", ("x",)), Field("", ("x", "y")), Field("", ("z",))]
PAYLOADS = [
    *[b"", b"0", b"1", b"2.5", b"ab", b"9007199254740993", b"1e20", b"{}", b"[]", b"[1]", b'{"x": 1, "x": 1}'],
    *[b'{"x": 1}', b'{"x": "a"}', b'{"x": "ab", "z": true}', b'{"x": {"y": 2.5}}', b'{"x": {"y": "b"}, "z": null}'],
    *[b'{"x": [1], "z": 9007199254740993}', b'{"x": {}, "z": false}', b'{"z": 18446744073709551615}', b'{"x": 1'],
]
sents = st.builds(Sent, st.sampled_from(PAYLOADS), st.sampled_from(["", "a", "b", "ab"]))
_likes = st.text("ab%_", max_size=4)


def tests_of(*keys: Key) -> st.SearchStrategy[Query]:
    named = st.sampled_from(keys)
    return st.one_of(
        st.builds(Compare, named, st.sampled_from(OPERATORS), values.map(constant)),
        st.builds(In, named, st.lists(values.map(constant), min_size=1, max_size=4).map(tuple)),
        st.builds(Between, named, values.map(constant), values.map(constant)),
        st.builds(Like, named, _likes),
        st.builds(Matches, named, st.sampled_from(["a", "^a", "b$", ""])),
        st.builds(Has, named),
        st.builds(IsNull, named),
    )


queries = joined(st.one_of(tests_of("a", "b"), tests_of(*FIELDS)))
