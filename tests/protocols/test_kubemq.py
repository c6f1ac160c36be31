"""KubeMQ's messages as publications and back."""

from collections.abc import Callable, MutableMapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fumarole.core import headers
from fumarole.core.publication import Publication
from fumarole.protocols import kubemq
from fumarole.protocols.columns import said
from fumarole.protocols.kubemq_pb2 import DESCRIPTOR, Event, EventReceive, Request, Response

# Any text that protobuf takes, which is all but halves of surrogate pairs; line ends and blanks more than by chance.
texts = st.text(st.characters(codec="utf-8")) | st.text("\r\n\0\t :=%*a \u2028\x85", max_size=8)
tags = st.dictionaries(texts, texts, max_size=4)
some_bytes = st.binary(max_size=8)
int32 = st.integers(0, 2**31 - 1)


def no_id(publication: Publication) -> str:
    raise AssertionError("it had an id")


@given(texts.filter(bool), texts, some_bytes, tags)
def test_an_event_is_the_same_after_its_way_through_a_publication(
    event_id: str, metadata: str, body: bytes, event_tags: dict[str, str]
) -> None:
    """And the frame that is made the quick way is the frame made from what every door sees."""
    event = Event(EventID=event_id, Channel="a.b", Metadata=metadata, Body=body, Tags=event_tags)
    publication = kubemq.event_publication(event, "a.b")
    received = kubemq.publication_event(publication, no_id)
    assert received == EventReceive(EventID=event_id, Channel="a.b", Metadata=metadata, Body=body, Tags=event_tags)
    assert EventReceive.FromString(kubemq.event_frame(event)) == received


@given(texts.filter(bool), texts.filter(bool), texts, texts, some_bytes, some_bytes, int32, int32, tags)
def test_a_request_is_the_same_after_its_way_through_a_publication(
    request_id: str,
    client: str,
    metadata: str,
    cache_key: str,
    body: bytes,
    span: bytes,
    timeout: int,
    cache_ttl: int,
    request_tags: dict[str, str],
) -> None:
    request = Request(
        RequestID=request_id, RequestTypeData=Request.Query, ClientID=client, Channel="a.b", Metadata=metadata,
        Body=body, Timeout=timeout, CacheKey=cache_key, CacheTTL=cache_ttl, Span=span, Tags=request_tags,
    )  # fmt: skip
    publication = kubemq.request_publication(request, "_INBOX.1")
    assert publication.topic == "_QUERIES_.a.b"
    assert publication.reply == "_INBOX.1"
    request.ReplyChannel = "_INBOX.1"
    assert kubemq.publication_request(publication, kubemq.QUERY, no_id) == request


@given(texts, texts, texts, some_bytes, some_bytes, st.booleans(), st.booleans(), st.integers(1, 2**63 - 1), tags)
def test_an_answer_is_the_same_after_its_way_through_a_publication(
    client: str,
    metadata: str,
    error: str,
    body: bytes,
    span: bytes,
    executed: bool,
    cache_hit: bool,
    timestamp: int,
    response_tags: dict[str, str],
) -> None:
    response = Response(
        ClientID=client, RequestID="1", ReplyChannel="_INBOX.1", Metadata=metadata, Body=body, CacheHit=cache_hit,
        Timestamp=timestamp, Executed=executed, Error=error, Span=span, Tags=response_tags,
    )  # fmt: skip
    publication = kubemq.response_publication(response)
    assert publication.topic == "_INBOX.1"
    response.ClearField("ReplyChannel")
    query = Request(RequestID="1", RequestTypeData=Request.Query)
    assert kubemq.publication_response(publication, query, 0) == response
    # A Command has been executed, or has not: there is nothing more to its answer.
    for field in ("Body", "Metadata", "CacheHit"):
        response.ClearField(field)
    command = Request(RequestID="1", RequestTypeData=Request.Command)
    assert kubemq.publication_response(publication, command, 0) == response


@given(texts.filter(bool), texts, tags)
@example("1", "a\u2028b", {})
@example("a\x85b", "", {"a": "b\x85c", "b": "c\u2029d"})
def test_nothing_breaks_out_of_its_header(event_id: str, metadata: str, event_tags: dict[str, str]) -> None:
    """Whatever a client writes, the block has one line for each, and its end at its end."""
    event = Event(EventID=event_id, Metadata=metadata, Tags=event_tags)
    block = kubemq.event_publication(event, "a").headers
    lines = block.split(b"\r\n")
    assert lines[0] == b"NATS/1.0"
    assert lines[-2:] == [b"", b""]
    assert len(lines[1:-2]) == 1 + bool(metadata) + len(event_tags)
    assert all(name.decode().isascii() and value for name, _, value in (line.partition(b":") for line in lines[1:-2]))
    assert not set(block.replace(b"\r\n", b"")) & set(range(32))
    assert len(block.decode().splitlines()) == len(lines) - 1  # nor is there what only Unicode takes for a line end


SPEAKING = {"Producer": "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", "Metadata": '{"Room": "forged"}'}


def test_no_tags_make_a_reading_of_a_message() -> None:
    """Not to a NATS client or a recorder; KubeMQ's receivers get them as they were."""
    event = Event(EventID="1", Channel="a", Body=b"21.5", Tags=SPEAKING)
    request = Request(RequestID="1", RequestTypeData=Request.Query, ClientID="me", Channel="a", Tags=SPEAKING)
    response = Response(RequestID="1", ClientID="me", ReplyChannel="r", Executed=True, Timestamp=1, Tags=SPEAKING)
    sent = (
        kubemq.event_publication(event, "a"),
        kubemq.request_publication(request, "r"),
        kubemq.response_publication(response),
    )
    for publication in sent:
        assert not {"Producer", "Metadata"} & {name for name, _ in headers.parse(publication.headers)}
        assert said(publication.headers).producer is None
    received = (
        kubemq.publication_event(sent[0], no_id),
        kubemq.publication_request(sent[1], kubemq.QUERY, no_id),
        kubemq.publication_response(sent[2], request, 0),
    )
    assert [dict(message.Tags) for message in received] == [SPEAKING] * 3
    assert dict(EventReceive.FromString(kubemq.event_frame(event)).Tags) == SPEAKING


def test_a_message_has_so_many_tags() -> None:
    """L1: they are looked at one by one, also those that a NATS client says as headers."""
    many = {f"t{number}": "" for number in range(kubemq.MOST_TAGS + 1)}
    event = Event(ClientID="me", Channel="a", Body=b"1", Tags=many)
    request = Request(
        RequestID="1", RequestTypeData=Request.Query, ClientID="me", Channel="a", Body=b"1", Timeout=1, Tags=many
    )
    response = Response(RequestID="1", ClientID="me", ReplyChannel="r", Executed=True, Timestamp=1, Tags=many)
    checks: tuple[tuple[Callable[[], None], MutableMapping[str, str]], ...] = (
        (lambda: kubemq.check_event(event), event.Tags),
        (lambda: kubemq.check_request(request), request.Tags),
        (lambda: kubemq.check_response(response), response.Tags),
    )
    for check, its_tags in checks:
        with pytest.raises(kubemq.Fault, match="more than 1000 tags"):
            check()
        del its_tags["t0"]
        check()
    event.EventID = "1"
    assert kubemq.publication_event(kubemq.event_publication(event, "a"), no_id).Tags == event.Tags
    headed = Publication("a", b"", "", b"NATS/1.0\r\nKubemq-Id: 1\r\n" + b"".join(b"%d:\r\n" % n for n in range(9_000)))
    fields = len(kubemq.EVENT_FIELDS)
    assert len(kubemq.publication_event(headed, no_id).Tags) == kubemq.MOST_TAGS + fields - 1


HEADERS = [
    ("plain", [("Unit", "celsius")], {"Tags": {"Unit": "celsius"}}),
    ("ours", [("Kubemq-Id", "7"), ("Kubemq-Metadata", "m")], {"EventID": "7", "Metadata": "m"}),
    ("encoded", [("Kubemq-Metadata*", "a%0Ab")], {"Metadata": "a\nb"}),
    ("a tag with an odd name", [("Kubemq-Tag", "a%20b=c%3Dd")], {"Tags": {"a b": "c=d"}}),
    ("a tag without a value", [("Kubemq-Tag", "a")], {"Tags": {"a": ""}}),
    ("ours, but of another message", [("Kubemq-Timeout", "7")], {}),
    ("ours, but unknown", [("Kubemq-Whatever", "7")], {}),
    ("not UTF-8 when decoded", [("Kubemq-Metadata*", "%ff")], {"Metadata": "\ufffd"}),
    ("the same twice", [("a", "1"), ("a", "2")], {"Tags": {"a": "2"}}),
]


@pytest.mark.parametrize(("pairs", "fields"), [row[1:] for row in HEADERS], ids=[row[0] for row in HEADERS])
def test_headers_that_others_wrote(pairs: list[tuple[str, str]], fields: dict[str, object]) -> None:
    received = kubemq.publication_event(Publication("a", b"x", "", headers.build(pairs)), lambda _: "new")
    assert received == EventReceive(**{"EventID": "new", "Channel": "a", "Body": b"x", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["-1", "+7", "1_0", " 5 x", "٣", "2147483648", "9" * 40, "0x1", "1e3", ""])
def test_numbers_that_are_none(text: str) -> None:
    block = headers.build([("Kubemq-Timeout", text), ("Kubemq-Span", "!"), ("Kubemq-Id", "1")])
    request = kubemq.publication_request(Publication("_COMMANDS_.a", b"", "r", block), kubemq.COMMAND, no_id)
    assert (request.Timeout, request.Span) == (0, b"")


def test_the_answer_of_one_who_knows_nothing_of_kubemq_is_a_success() -> None:
    query = Request(RequestID="7", RequestTypeData=Request.Query)
    response = kubemq.publication_response(Publication("r", b"21.5"), query, 1.5)
    assert response == Response(RequestID="7", Executed=True, Body=b"21.5", Timestamp=1_500_000_000)


SEARCHES = [("", "a.b b.c ab"), ("a", "a.b ab"), ("*", "a.b b.c ab"), ("a*b", "a.b ab"), (".*c", "b.c"), ("z", "")]


@pytest.mark.parametrize(("search", "found"), SEARCHES)
def test_searches(search: str, found: str) -> None:
    assert kubemq.names_found(["a.b", "b.c", "ab"], search) == found.split()


def test_the_service_is_kubemqs() -> None:
    """The names on the wire, which are those of the clients."""
    (service,) = DESCRIPTOR.services_by_name.values()
    assert service.full_name == "kubemq.kubemq"
    described = {
        method.name: (method.input_type.name, method.client_streaming, method.output_type.name, method.server_streaming)
        for method in service.methods
    }
    assert described == {
        "Ping": ("Empty", False, "PingResult", False),
        "SendEvent": ("Event", False, "Result", False),
        "SendEventsStream": ("Event", True, "Result", True),
        "SubscribeToEvents": ("Subscribe", False, "EventReceive", True),
        "SubscribeToRequests": ("Subscribe", False, "Request", True),
        "SendRequest": ("Request", False, "Response", False),
        "SendResponse": ("Response", False, "Empty", False),
    }
