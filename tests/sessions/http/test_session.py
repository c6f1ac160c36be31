"""What requests mean: each call, on a node without sockets."""

import base64
import gzip
import json
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from fumarole.core.limits import Limits
from fumarole.exchange.permissions import Permissions, User
from fumarole.exchange.tracer import Tracer
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.http import last_values
from fumarole.sessions.http.metrics import FAMILIES, NAMESPACES
from fumarole.sessions.http.streams import COMMENT_EVERY
from tests.desk import Desk
from tests.sessions.http.web import PAGE, Web, answers

ATKA = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
ETNA = "3a1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e61"


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


@pytest.fixture
def web(desk: Desk) -> Web:
    return Web(desk)


# Publishing.


def test_a_message(web: Web, desk: Desk) -> None:
    consumer = desk.connect().say("SUB volcanoes.> 1\r\n")
    said = web.asks("POST", "/v1/topics/volcanoes/usa.atka", "21.5")
    assert (said.status, said.json()) == (202, {"delivered_to": 1})
    assert consumer.hears() == b"MSG volcanoes.usa.atka 1 4\r\n21.5\r\n"


def test_nobody_hears_it(web: Web) -> None:
    assert web.asks("POST", "/v1/topics/a").json() == {"delivered_to": 0}


def test_its_type_and_headers_go_with_it(web: Web, desk: Desk) -> None:
    consumer = desk.connect().say("SUB a 1\r\n")
    web.asks("POST", "/v1/topics/a", "x", Content_Type="text/csv", Fumarole_Header_Unit="celsius", Traceparent="00-1")
    assert b"NATS/1.0\r\nContent-Type: text/csv\r\nUnit: celsius\r\ntraceparent: 00-1\r\n\r\nx" in consumer.hears()
    web.asks("POST", "/v1/topics/a", "x", Content_Type="application/x-www-form-urlencoded")
    assert consumer.hears() == b"MSG a 1 1\r\nx\r\n"


READINGS: dict[str, tuple[str, dict[str, str], Any]] = {
    "by headers": ("21.5", {"Fumarole_Producer": ATKA, "Fumarole_Metadata": '{"Region":"usa"}'}, 21.5),
    "text by headers": ("warm", {"Fumarole_Producer": ATKA, "Fumarole_Metadata": '{"Region":"usa"}'}, "warm"),
    "as JSON": (
        json.dumps({"value": 21.5, "metadata": {"Region": "usa"}}),
        {"Fumarole_Producer": ATKA, "Content_Type": "application/fumarole+json"},
        21.5,
    ),
    "all in the body": (
        json.dumps({"value": 21.5, "metadata": {"Region": "usa"}, "producer": ATKA}),
        {"Content_Type": "application/fumarole+json; charset=utf-8"},
        21.5,
    ),
}


@pytest.mark.parametrize(("body", "fields", "value"), READINGS.values(), ids=READINGS)
def test_a_reading(web: Web, body: str, fields: dict[str, str], value: Any) -> None:
    assert web.asks("POST", "/v1/topics/volcanoes/atka", body, **fields).status == 202
    told = web.asks("GET", f"/v1/producers/{ATKA}").json()
    assert (told["metadata"], told["value"], told["topic"]) == (
        {"Region": "usa", "_online": False},
        value,
        "volcanoes.atka",
    )


BAD_PUBLISHES: dict[str, tuple[int, str, str, dict[str, str], str]] = {
    "a topic with a space": (400, "/v1/topics/a%20b", "", {}, "' ' is not allowed"),
    "a wildcard": (400, "/v1/topics/a/*", "", {}, "no wildcards"),
    "an encoded slash": (400, "/v1/topics/a%2Fb", "", {}, "'/' is not allowed"),
    "no UTF-8": (400, "/v1/topics/a%ff", "", {}, "a path is UTF-8"),
    "dots": (400, "/v1/topics/a/../b", "", {}, "no words of a topic"),
    "encoded dots": (400, "/v1/topics/a/%2e%2e/b", "", {}, "no words of a topic"),
    "a line end": (400, "/v1/topics/a%0d%0aPUB", "", {}, "is not allowed"),
    "a topic of the server": (400, "/v1/topics/$FUM/stats", "", {}, "the server's own"),
    "an endless topic": (400, "/v1/topics/" + "a" * 5000, "", {}, "4096"),
    "another parameter": (400, "/v1/topics/a?retein=1", "", {}, "`retein` is no parameter"),
    "a parameter twice": (400, "/v1/topics/a?retain=1&retain=0", "", {}, "there twice"),
    "a flag that is none": (400, "/v1/topics/a?retain=maybe", "", {}, "`retain` is 0 or 1"),
    "a bad namespace": (400, "/v1/topics/a?namespace=-", "", {}, "a namespace is"),
    "a producer that is none": (400, "/v1/topics/a", "1", {"Fumarole_Producer": "x"}, "a producer is named by a UUID"),
    "metadata that is no JSON": (
        400,
        "/v1/topics/a",
        "1",
        {"Fumarole_Producer": ATKA, "Fumarole_Metadata": "x"},
        "Fumarole-Metadata is a JSON object",
    ),
    "metadata that is a list": (
        400,
        "/v1/topics/a",
        "1",
        {"Fumarole_Producer": ATKA, "Fumarole_Metadata": "[]"},
        "the metadata of a reading is a map",
    ),
    "a body that is no JSON": (
        400,
        "/v1/topics/a",
        "{",
        {"Content_Type": "application/fumarole+json", "Fumarole_Producer": ATKA},
        "the body is not JSON",
    ),
    "nested without end": (
        400,
        "/v1/topics/a",
        "[" * 100_000,
        {"Content_Type": "application/fumarole+json", "Fumarole_Producer": ATKA},
        "the body is not JSON",
    ),
    "a value that is no number": (
        400,
        "/v1/topics/a",
        '{"value":true}',
        {"Content_Type": "application/fumarole+json", "Fumarole_Producer": ATKA},
        "the value of a reading is a number",
    ),
    "another key": (
        400,
        "/v1/topics/a",
        '{"value":1,"vlaue":2}',
        {"Content_Type": "application/fumarole+json", "Fumarole_Producer": ATKA},
        "the body is a JSON object with",
    ),
}


@pytest.mark.parametrize(("status", "path", "body", "fields", "words"), BAD_PUBLISHES.values(), ids=BAD_PUBLISHES)
def test_a_publish_that_is_refused(
    web: Web, status: int, path: str, body: str, fields: dict[str, str], words: str
) -> None:
    browser = web.connect()
    said = browser.asks("POST", path, body, **fields)
    assert said.status == status
    assert said.fields["content-type"] == "application/problem+json"
    assert words in said.json()["detail"]
    assert browser.asks("POST", "/v1/topics/a", "x").status == 202


NO_JSON = {"not UTF-8": b'{"value":"\xff"}', "deep": b'{"value":' + b"[" * 6_000, "half": b'{"value":'}
TAKE_JSON = {
    "a reading": ("POST", "/v1/topics/a", {"Content_Type": "application/fumarole+json"}),
    "a batch": ("POST", "/v1/topics", {}),
    "metadata": ("PATCH", f"/v1/producers/{ATKA}", {}),
    "a preview": ("POST", f"/v1/preview/{ATKA}", {}),
    "what is watched": ("PUT", "/v1/streams/x", {}),
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
@pytest.mark.parametrize(("method", "path", "fields"), TAKE_JSON.values(), ids=TAKE_JSON)
def test_a_body_that_is_no_json(web: Web, method: str, path: str, fields: dict[str, str], body: bytes) -> None:
    browser = web.connect()
    assert browser.asks(method, path, body, **fields).status == 400
    assert browser.asks("POST", "/v1/topics/a", body, Fumarole_Producer=ATKA).status == 202, "text is a value"


def test_the_position_of_a_fault(web: Web) -> None:
    assert web.asks("POST", "/v1/topics/abc%20d").json()["position"] == 3
    assert web.asks("GET", "/v1/stream?where=a+==+1").json()["position"] == 3


def test_namespaces_are_apart(web: Web, desk: Desk) -> None:
    """N2."""
    lab = desk.connect(user="lab").say("SUB > 1\r\n")
    assert web.asks("POST", "/v1/topics/a", "x").json() == {"delivered_to": 0}
    assert web.asks("POST", "/v1/topics/a?namespace=lab", "x").json() == {"delivered_to": 1}
    assert lab.hears() == b"MSG a 1 1\r\nx\r\n"


def test_a_body_beyond_the_limit(hot_path: HotPath) -> None:
    web = Web(Desk(hot_path, Limits(payload=10)))
    assert web.asks("POST", "/v1/topics/a", "x" * 11).status == 400
    browser = web.connect().says(b"POST /v1/topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n")
    assert b" 413 " in browser.hears()
    chunked = b"POST /v1/topics/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nxxxxxxxxxxx\r\n"
    browser = web.connect().says(chunked)
    assert b" 413 " in browser.hears()
    assert browser.session.close_expected()


def test_a_batch(web: Web, desk: Desk) -> None:
    consumer = desk.connect().say("SUB > 1\r\n")
    lines = [
        {"topic": "a", "payload": "x"},
        {"topic": "b", "payload_base64": base64.b64encode(b"\0").decode()},
        {"topic": "c", "value": 1.5, "headers": {"Unit": "m"}},
        {"producer": ATKA, "value": 2, "metadata": {"Region": "usa"}},
    ]
    said = web.asks("POST", "/v1/topics", "\n".join(map(json.dumps, lines)))
    assert (said.status, said.json()) == (202, {"published": 4, "delivered_to": 4})
    heard = consumer.hears()
    assert heard.startswith(b"MSG a 1 1\r\nx\r\nMSG b 1 1\r\n\0\r\nHMSG c 1 ")
    assert b"MSG readings." + ATKA.encode() in heard


def test_repeated_headers_and_a_reply(web: Web, desk: Desk) -> None:
    """Q5: both ways as they are."""
    consumer, browser = desk.connect().say("SUB a 1\r\n"), web.connect().sends("GET", "/v1/stream?topic=a")
    browser.hears()
    pairs = [["k", "v"], ["b", "1"], ["k", "w"]]
    web.asks("POST", "/v1/topics", json.dumps({"topic": "a", "payload": "x", "headers": pairs, "reply": "r.1"}))
    assert b"MSG a 1 r.1 30 31\r\nNATS/1.0\r\nk: v\r\nb: 1\r\nk: w\r\n\r\nx\r\n" in consumer.hears()
    ((_, said),) = browser.events()
    assert (said["headers"], said["reply"]) == (pairs, "r.1")


def test_a_reading_with_headers_says_whose_it_is(web: Web, desk: Desk) -> None:
    """M8: other doors, and recorders, know the producer by its headers."""
    consumer = desk.connect().say("SUB a 1\r\n")
    web.asks("POST", "/v1/topics/a", "21.5", Fumarole_Producer=ATKA, Content_Type="text/csv", Traceparent="00-1")
    heard = consumer.hears()
    assert b"Content-Type: text/csv\r\n" in heard
    assert f"\r\nProducer: {ATKA}\r\n".encode() in heard
    line = {"producer": ATKA, "topic": "a", "value": 1, "metadata": {"Room": "4"}, "headers": {"Producer": "x"}}
    web.asks("POST", "/v1/topics", json.dumps(line))
    heard = consumer.hears()
    assert b"Producer: x" not in heard
    assert f'Producer: {ATKA}\r\nMetadata: {{"Room": "4"}}\r\n'.encode() in heard


BAD_LINES = {
    "a reply that breaks out": ('{"topic":"a","reply":"b\\r\\nPUB"}', "is not allowed"),
    "no JSON": ("x", "JSON is malformed"),
    "a list": ("[]", "Expected `object`"),
    "another key": ('{"topic":"a","vlaue":1}', "unknown field `vlaue`"),
    "no topic": ('{"payload":"a"}', "a message without a producer has a topic"),
    "two payloads": ('{"topic":"a","payload":"","value":1}', "not payload and value"),
    "no base64": ('{"topic":"a","payload_base64":"%"}', "payload_base64 is not base64"),
    "metadata of nobody": ('{"topic":"a","metadata":{}}', "`producer` is missing"),
    "a bad topic": ('{"topic":"a b"}', "' ' is not allowed"),
    "a header that breaks out": ('{"topic":"a","headers":{"A":"b\\r\\nC: d"}}', "cannot be a header"),
    "NaN": ('{"topic":"a","value":NaN}', "JSON is malformed"),
    "an infinity": (f'{{"producer":"{ATKA}","value":1e999}}', "Number out of range"),
}


@pytest.mark.parametrize(("line", "words"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_line_that_is_refused(web: Web, line: str, words: str) -> None:
    said = web.asks("POST", "/v1/topics", f'{line}\n{{"topic":"a"}}\n').json()
    assert (said["published"], said["refused"], said["errors"][0]["line"]) == (1, 1, 1)
    assert words in said["errors"][0]["detail"]
    assert web.asks("POST", "/v1/topics", line).status == 400


def test_a_batch_comes_in_pieces(web: Web, desk: Desk) -> None:
    consumer = desk.connect().say("SUB > 1\r\n")
    head = b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    browser = web.connect().says(head)
    assert browser.hears() == b"HTTP/1.1 100 Continue\r\n\r\n"
    browser.says(b'10\r\n{"topic":"a"}\n{"\r\n')
    assert consumer.hears() == b"MSG a 1 0\r\n\r\n"
    browser.says(b'a\r\ntopic":"b"\r\n1\r\n}\r\n0\r\n\r\n')
    assert consumer.hears() == b"MSG b 1 0\r\n\r\n"
    assert b'{"published":2,"delivered_to":2}' in browser.hears()


# Streams of events.


def test_a_stream_by_pattern(web: Web, desk: Desk) -> None:
    browser = web.connect().sends("GET", "/v1/stream?topic=volcanoes.>")
    assert browser.hears().startswith(b"HTTP/1.1 200 OK\r\n")
    desk.connect().say("PUB volcanoes.a 1\r\nx\r\nPUB other 1\r\nx\r\nPUB volcanoes.b 1\r\ny\r\n")
    desk.connect().say(b"PUB volcanoes.c r 1\r\n\xff\r\n")
    names = [shown for name, shown in browser.events() if name == "message"]
    assert names[0] == {"topic": "volcanoes.a", "payload": "x", "time": 1795000000.0}
    assert names[-1] == {"topic": "volcanoes.c", "payload_base64": "/w==", "reply": "r", "time": 1795000000.0}
    assert len(names) == 3


def test_a_stream_by_query(web: Web) -> None:
    browser = web.connect().sends("GET", "/v1/stream?where=Region%20=%20%27usa%27")
    assert browser.events() == [("set", {"New": [], "Del": []})]
    for region, value in (("usa", "1"), ("usa", "2"), ("japan", "3")):
        fields = {"Fumarole_Producer": ATKA, "Fumarole_Metadata": json.dumps({"Region": region})}
        web.asks("POST", "/v1/topics/a", value, **fields)
    told = browser.events()
    assert [name for name, _ in told] == ["set", "reading", "reading", "set"]
    assert told[1][1] == {
        "topic": "a",
        "producer": ATKA,
        "metadata": {"Region": "usa"},
        "value": 1,
        "time": 1795000000.0,
    }
    assert (told[0][1], told[3][1]) == ({"New": [ATKA], "Del": []}, {"New": [], "Del": [ATKA]})


def test_a_set_alone(web: Web) -> None:
    browser = web.connect().sends("GET", "/v1/stream?where=Region%20=%20%27usa%27&readings=0")
    for topic, region, value in (("a", "usa", "1"), ("-", "usa", "2"), ("a", "japan", "3")):
        fields = {"Fumarole_Producer": ATKA, "Fumarole_Metadata": json.dumps({"Region": region})}
        web.asks("POST", f"/v1/topics/{topic}", value, **fields)
    sets = [{"New": [], "Del": []}, {"New": [ATKA], "Del": []}, {"New": [], "Del": [ATKA]}]
    assert browser.events() == [("set", each) for each in sets]


def test_the_pattern_in_the_path(web: Web) -> None:
    browser = web.connect().sends("GET", "/v1/topics/a/*/%3E", Accept="text/event-stream")
    web.asks("POST", "/v1/topics/a/b/c", "x")
    assert [shown["topic"] for _, shown in browser.events()] == ["a.b.c"]


def test_a_group_shares(web: Web) -> None:
    members = [web.connect().sends("GET", "/v1/stream?topic=a&group=g") for _ in range(2)]
    for _ in range(10):
        assert web.asks("POST", "/v1/topics/a", "x").json() == {"delivered_to": 1}
    assert [len(member.events()) for member in members] == [5, 5]


def test_a_gap(web: Web) -> None:
    browser = web.connect().sends("GET", "/v1/stream?topic=a")
    web.asks("POST", "/v1/topics/a", "x")
    last = browser.hears().partition(b"id: ")[2].partition(b"\n")[0].decode()
    same = web.connect().sends("GET", "/v1/stream?topic=a", Last_Event_ID=last)
    assert same.events() == [("gap", {"missed": 0})]
    web.asks("POST", "/v1/topics/b", "x")
    assert web.connect().sends("GET", "/v1/stream?topic=a", Last_Event_ID=last).events() == [
        ("gap", {"missed": None, "at_most": 1})
    ]
    for other in ("other-1", "", "b007-", "b007-99", "b007-٣"):
        if other:
            told = web.connect().sends("GET", "/v1/stream?topic=a", Last_Event_ID=other).events()
            assert told == [("gap", {"missed": None})]


def test_drops_are_told(hot_path: HotPath) -> None:
    desk = Desk(hot_path, Limits(outbox=1000))
    web = Web(desk)
    browser = web.connect().sends("GET", "/v1/stream?topic=a")
    browser.hears()
    for _ in range(20):
        web.asks("POST", "/v1/topics/a", "x" * 100)
    messages = [name for name, _ in browser.events()]
    browser.session.tick(desk.now + 1)
    (told,) = browser.events()
    assert told == ("dropped", {"count": 20 - len(messages), "total": 20 - len(messages)})
    browser.session.tick(desk.now + 2)
    assert browser.events() == []


def test_a_sign_of_life(web: Web, desk: Desk) -> None:
    browser = web.connect().sends("GET", "/v1/stream?topic=a")
    browser.hears()
    browser.session.tick(desk.now + COMMENT_EVERY)
    assert browser.hears() == b":\n\n"
    browser.session.tick(desk.now + COMMENT_EVERY + 1)
    assert browser.hears() == b""


def test_bye(web: Web) -> None:
    browser = web.connect().sends("GET", "/v1/stream?topic=a")
    browser.hears()
    browser.session.stream.bye(["http://127.0.0.1:8223"])
    assert browser.events() == [("bye", {"others": ["http://127.0.0.1:8223"]})]


def test_streams_of_one_address_are_bounded(desk: Desk) -> None:
    web = Web(desk, streams_per_user=2)
    kept = [web.connect().sends("GET", "/v1/stream?topic=a") for _ in range(2)]
    assert web.asks("GET", "/v1/stream?topic=a").status == 429
    kept[0].session.close()
    assert b" 200 " in web.connect().sends("GET", "/v1/stream?topic=a").hears()


def test_nothing_is_left_of_a_stream(web: Web, desk: Desk) -> None:
    browser = web.connect().sends("GET", "/v1/stream?topic=a&where=b=1")
    browser.session.receive_eof()
    assert browser.session.close_expected()
    assert not web.service.streams
    exchange = desk.node.namespaces.get("default")
    assert exchange is not None
    assert (exchange.connections, len(exchange), exchange.report()["consumers"]) == (0, 0, 0)


BAD_STREAMS = {
    "a query": ("where=a=", "position"),
    "a pattern": ("topic=a.>.b", "position"),
    "a group": ("topic=a&group=a%20b", "position"),
    "a set of no query": ("readings=0", "detail"),
    "a set with a topic": ("readings=0&where=a&topic=a", "detail"),
    "a set with a mistake": ("readings=0&where=a=", "position"),
}


@pytest.mark.parametrize(("query", "key"), BAD_STREAMS.values(), ids=BAD_STREAMS)
def test_a_stream_that_is_refused(web: Web, query: str, key: str) -> None:
    said = web.asks("GET", f"/v1/stream?{query}")
    assert said.status == 400
    assert key in said.json()
    assert not web.service.streams


@pytest.mark.parametrize("every", ["x", "-1s", "nan"])
def test_a_period_that_is_none(web: Web, every: str) -> None:
    assert web.asks("GET", f"/v1/stream?every={every}").status == 400


# Last values.


def test_retained_messages(web: Web, desk: Desk) -> None:
    """F1, F3, H3."""
    assert web.asks("POST", "/v1/topics/a/b?retain=1", "x").status == 202
    assert web.asks("POST", "/v1/topics", '{"topic":"a.c","payload":"y","retain":true}').status == 202
    assert web.asks("POST", "/v1/topics/a/d", "not kept").status == 202
    found = web.asks("GET", "/v1/topics/a/*").json()["values"]
    assert sorted((each["topic"], each["payload"]) for each in found) == [("a.b", "x"), ("a.c", "y")]
    assert all(each["age"] >= 0 for each in found)
    lines = web.asks("GET", "/v1/topics/a/b", Accept="application/x-ndjson").body.splitlines()
    assert [json.loads(line)["topic"] for line in lines] == ["a.b"]
    stream = web.connect().sends("GET", "/v1/stream?topic=a.>&last=1")
    assert sorted(shown["topic"] for _, shown in stream.events()) == ["a.b", "a.c"]
    assert web.asks("POST", "/v1/topics/a/b?retain=1").status == 202
    assert web.asks("GET", "/v1/topics/a/b").json() == {"values": []}
    exchange = desk.node.namespaces.get("default")
    assert exchange is not None
    assert exchange.report()["consumers"] == 1


def test_last_values_of_what_may_not_be_received(guarded: Web) -> None:
    """A3."""
    for topic in ("volcanoes/a", "volcanoes/secret/b"):
        assert guarded.asks("POST", f"/v1/topics/{topic}?retain=1", "x", **bearer("boss")).status == 202
    found = guarded.asks("GET", "/v1/topics/volcanoes/%3E", **bearer("sensor")).json()["values"]
    assert [each["topic"] for each in found] == ["volcanoes.a"]
    assert guarded.asks("GET", "/v1/topics/%3E", **bearer("sensor")).status == 403


def test_more_last_values_than_one_answer_has(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """L2: refused with a sentence, and the question has an end."""
    monkeypatch.setattr(last_values, "MOST_BYTES", 2_000)
    for number in range(5):
        web.asks("POST", f"/v1/topics/a/{number}?retain=1", "x" * 900)
    answer = web.asks("GET", "/v1/topics/a/*")
    assert answer.status == 413
    assert "more than 2000 bytes together" in answer.json()["detail"]
    assert web.asks("GET", "/v1/topics/a/1").status == 200


def test_a_retained_message_is_removed(web: Web, desk: Desk) -> None:
    """F1."""
    web.asks("POST", "/v1/topics/a/b?retain=1", "x")
    listener = desk.connect().say("SUB a.> 1\r\n")
    assert web.asks("DELETE", "/v1/topics/a/b").status == 204
    assert listener.hears() == b"MSG a.b 1 0\r\n\r\n"
    assert web.asks("GET", "/v1/topics/a/b").json() == {"values": []}
    assert web.asks("DELETE", "/v1/topics/a/b").status == 404
    assert web.asks("DELETE", "/v1/topics/a/*").status == 400
    assert listener.hears() == b""


def test_what_may_not_be_removed(guarded: Web) -> None:
    guarded.asks("POST", "/v1/topics/volcanoes/secret/b?retain=1", "x", **bearer("boss"))
    guarded.asks("POST", "/v1/topics/other?retain=1", "x", **bearer("boss"))
    for topic in ("volcanoes/secret/b", "other", "unknown"):
        assert guarded.asks("DELETE", f"/v1/topics/{topic}", **bearer("sensor")).status in (403, 404)
    for topic in ("volcanoes/secret/b", "other"):
        assert guarded.asks("GET", f"/v1/topics/{topic}", **bearer("boss")).json()["values"]


def test_levels(web: Web) -> None:
    for topic, value in {"a/b": "1", "a/b/c": "2", "a/b/d": "3", "e": "4"}.items():
        web.asks("POST", f"/v1/topics/{topic}?retain=1", value)
    web.asks("POST", "/v1/topics", f'{{"producer":"{ATKA}","value":21.5}}')

    def shown(below: str) -> list[tuple[str, int, Any]]:
        said = web.asks("GET", f"/v1/levels{below}").json()
        assert (said["more"], said["last"]) == (False, False)
        return [(each["word"], each["topics"], each.get("payload", each.get("value"))) for each in said["levels"]]

    assert shown("") == [("a", 3, None), ("e", 0, "4"), ("readings", 1, None)]
    assert shown("?below=a") == [("b", 2, "1")]
    assert shown("?below=a.b") == shown("?below=a/b") == [("c", 0, "2"), ("d", 0, "3")]
    assert shown("?below=e") == []
    assert shown("?below=readings") == [(ATKA, 0, 21.5)]
    assert web.asks("GET", "/v1/levels?below=a.*").status == 400


def test_levels_of_what_may_not_be_received(guarded: Web) -> None:
    """A3."""
    for topic in ("volcanoes/a", "volcanoes/secret/b", "other/c"):
        assert guarded.asks("POST", f"/v1/topics/{topic}?retain=1", "x", **bearer("boss")).status == 202
    assert [each["word"] for each in guarded.asks("GET", "/v1/levels", **bearer("sensor")).json()["levels"]] == [
        "volcanoes"
    ]
    levels = guarded.asks("GET", "/v1/levels?below=volcanoes", **bearer("sensor")).json()["levels"]
    assert [(each["word"], each["topics"]) for each in levels] == [("a", 0)]


# Views.


def test_a_view(web: Web) -> None:
    """F7, H3."""
    other = ATKA.replace("2f1c", "3f1c")

    def say(producer: str, metadata: str) -> None:
        web.asks("PATCH", f"/v1/producers/{producer}", metadata)

    say(ATKA, '{"Region":"usa"}')
    browser = web.connect().sends("GET", "/v1/stream?where=select%20Region,%20count(*)%20where%20has%20Region")
    assert browser.events() == [("view", {"New": [["usa", 1]], "Del": []})]
    say(other, '{"Region":"usa"}')
    assert browser.events() == [("view", {"New": [["usa", 2]], "Del": [["usa", 1]]})]
    say(other, '{"Region":"usa","Floor":4}')
    assert browser.events() == []
    say(other, '{"Region":"japan"}')
    assert browser.events() == [("view", {"New": [["japan", 1], ["usa", 1]], "Del": [["usa", 2]]})]
    browser.session.receive_eof()
    assert not web.service.streams
    say(other, '{"Region":"italy"}')


def test_a_view_that_finds_no_room_is_told_later(hot_path: HotPath) -> None:
    """F7: none is lost."""
    desk = Desk(hot_path, Limits(outbox=500))
    web = Web(desk)
    browser = web.connect().sends("GET", "/v1/stream?where=select%20Region%20where%20has%20Region")
    shown: set[str] = set()
    for number in range(60):
        web.asks("PATCH", f"/v1/producers/{ATKA}", json.dumps({"Region": f"region-{number}"}))
    for _ in range(3):
        for name, change in browser.events():
            assert name == "view"
            shown = (shown - {each[0] for each in change["Del"]}) | {each[0] for each in change["New"]}
        browser.session.tick(desk.now)
    assert shown == {"region-59"}


def test_what_a_view_may_not_show(guarded: Web) -> None:
    """A3."""
    assert guarded.asks("PATCH", f"/v1/producers/{ATKA}", '{"Region":"usa"}', **bearer("boss")).status == 200
    browser = guarded.connect().sends(
        "GET", "/v1/stream?where=select%20Region%20where%20has%20Region", **bearer("sensor")
    )
    assert browser.events() == [("view", {"New": [], "Del": []})]


BAD_VIEWS = {
    "a group": "where=select%20a%20where%20b=1&group=g",
    "last values": "where=select%20a%20where%20b=1&last=1",
    "a test on messages": "where=select%20a%20where%20$value=1",
    "half a view": "where=select%20a",
}


@pytest.mark.parametrize("query", BAD_VIEWS.values(), ids=BAD_VIEWS)
def test_a_view_that_is_refused(web: Web, query: str) -> None:
    assert web.asks("GET", f"/v1/stream?{query}").status == 400
    assert not web.service.streams


# Requests.


def test_a_request(web: Web, desk: Desk) -> None:
    responder = desk.connect().say("SUB math 1\r\n")
    browser = web.connect().sends("POST", "/v1/requests/math", "2+2")
    reply = responder.hears().split(b" ")[3].decode()
    responder.say(f"PUB {reply} 1\r\n4\r\n")
    web.time_is_up()
    assert answers(browser.hears(), "POST")[0].json() == {"replies": [{"payload": "4"}]}
    assert browser.asks("GET", "/healthz").status == 200


def test_many_replies(web: Web, desk: Desk) -> None:
    responders = [desk.connect().say("SUB math 1\r\n") for _ in range(3)]
    browser = web.connect().sends("POST", "/v1/requests/math?replies=all&timeout=0.5", "2+2")
    for responder in responders:
        responder.say(f"PUB {responder.hears().split(b' ')[3].decode()} 1\r\n4\r\n")
    web.time_is_up()
    web.time_is_up()
    (said,) = answers(browser.hears(), "POST")
    assert (said.status, len(said.json()["replies"])) == (200, 3)


def test_a_timeout_is_a_period(web: Web, desk: Desk) -> None:
    """F9."""
    desk.connect().say("SUB math 1\r\n")
    for text, seconds in (("0.5", 0.5), ("500ms", 0.5), ("1m", 60.0)):
        browser = web.connect().sends("POST", f"/v1/requests/math?timeout={text}")
        assert web.timers[-1][0] == seconds
        browser.session.close()


def test_a_request_that_nobody_answers_in_time(web: Web, desk: Desk) -> None:
    desk.connect().say("SUB math 1\r\n")
    browser = web.connect().sends("POST", "/v1/requests/math?replies=2", "2+2")
    web.time_is_up()
    (said,) = answers(browser.hears(), "POST")
    assert (said.status, said.json()["replies"]) == (504, [])


def test_a_request_that_nobody_hears(web: Web) -> None:
    assert web.asks("POST", "/v1/requests/math", "2+2").status == 404


def test_requests_behind_one_that_waits(web: Web, desk: Desk) -> None:
    responder = desk.connect().say("SUB math 1\r\n")
    browser = web.connect().sends("POST", "/v1/requests/math", "2+2").sends("GET", "/healthz")
    assert browser.hears() == b""
    responder.say(f"PUB {responder.hears().split(b' ')[3].decode()} 1\r\n4\r\n")
    web.time_is_up()
    assert [said.status for said in answers(browser.hears(), "POST", "GET")] == [200, 200]


@pytest.mark.parametrize("query", ["replies=0", "replies=-1", "replies=x", "timeout=0", "timeout=1e9", "timeout=2m"])
def test_a_request_with_odd_numbers(web: Web, query: str) -> None:
    assert web.asks("POST", f"/v1/requests/math?{query}").status == 400


# Producers.


def publish(web: Web, producer: str, **metadata: Any) -> None:
    fields = {"Fumarole_Producer": producer, "Fumarole_Metadata": json.dumps(metadata)}
    assert web.asks("POST", f"/v1/topics/readings/{producer}", "1", **fields).status == 202


def test_producers(web: Web) -> None:
    publish(web, ATKA, Region="usa", Kind="heat")
    publish(web, ETNA, Region="italy", Kind="heat")
    assert [each["id"] for each in web.asks("GET", "/v1/producers").json()["producers"]] == [ATKA, ETNA]
    one = web.asks("GET", "/v1/producers?where=Region=%27italy%27&select=Kind").json()
    assert [(each["id"], each["metadata"]) for each in one["producers"]] == [(ETNA, {"Kind": "heat"})]


def test_producers_page_by_page(web: Web) -> None:
    ids = [f"2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c{number:04x}" for number in range(25)]
    for each in ids:
        publish(web, each)
    found, after = [], 0
    while after is not None:
        page = web.asks("GET", f"/v1/producers?limit=10&after={after}").json()
        found += [each["id"] for each in page["producers"]]
        after = page["next"]
    assert found == ids


def test_a_producer_is_described_and_forgotten(web: Web) -> None:
    said = web.asks("PATCH", f"/v1/producers/{ATKA}", '{"Room":"410","Floor":4}')
    assert said.json()["metadata"] == {"Room": "410", "Floor": 4, "_online": False}
    assert web.asks("PATCH", f"/v1/producers/{ATKA}", '{"Room":null}').json()["metadata"] == {
        "Floor": 4,
        "_online": False,
    }
    assert web.asks("DELETE", f"/v1/producers/{ATKA}").status == 204
    assert web.asks("DELETE", f"/v1/producers/{ATKA}").status == 404
    assert web.asks("GET", f"/v1/producers/{ATKA}").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/producers/x", ""),
        ("GET", "/v1/producers?limit=0", ""),
        ("GET", "/v1/producers?limit=1_0", ""),
        ("GET", "/v1/producers?where=a=", ""),
        ("PATCH", f"/v1/producers/{ATKA}", "[]"),
        ("PATCH", f"/v1/producers/{ATKA}", "x"),
        ("PATCH", f"/v1/producers/{ATKA}", '{"a":[]}'),
    ],
)
def test_what_cannot_be_asked_of_producers(web: Web, method: str, path: str, body: str) -> None:
    assert web.asks(method, path, body).status == 400


# HTTP as it should be.


def test_head_and_options(web: Web) -> None:
    assert web.asks("HEAD", "/healthz").fields["content-length"] == "3"
    said = web.asks("OPTIONS", "/v1/topics/a")
    assert (said.status, said.fields["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, POST")
    assert web.asks("OPTIONS", "*").status == 204


def test_what_is_not_there(web: Web) -> None:
    for path in (
        "/v2",
        "/v1/topic",
        "//healthz",
        "/healthz/",
        "/../etc/passwd",
        "/%2e%2e/etc/passwd",
        "/v1/producers/a/b",
    ):
        assert web.asks("GET", path).status == 404


def test_a_refusal_is_json_whatever_the_client_has_said(web: Web) -> None:
    said = web.asks("GET", "/v1/producers?%22%7F%16%5C%0A=1")
    assert (said.status, said.fields["x-content-type-options"]) == (400, "nosniff")
    assert said.json()["detail"].startswith('`"\x7f\x16\\\n` is no parameter')


def test_a_body_that_is_packed(web: Web, desk: Desk) -> None:
    """It is passed on as it is, and never unpacked: what is read here comes as it is meant."""
    consumer = desk.connect().say("SUB a 1\r\n")
    packed = gzip.compress(b"21.5")
    assert web.asks("POST", "/v1/topics/a", packed, Content_Encoding="gzip").status == 202
    assert b"Content-Encoding: gzip\r\n" in consumer.hears()
    said = web.asks("POST", "/v1/topics", packed, Content_Encoding="gzip")
    assert (said.status, said.fields["accept-encoding"]) == (415, "identity")
    assert web.asks("POST", "/v1/topics", '{"topic": "a", "payload": "x"}', Content_Encoding="identity").status == 202
    reading = {"Content_Encoding": "gzip", "Fumarole_Producer": ATKA}
    assert web.asks("POST", "/v1/topics/a", packed, **reading).status == 400


def test_another_method(web: Web) -> None:
    said = web.asks("PUT", "/v1/topics/a", "x")
    assert (said.status, said.fields["allow"]) == (405, "DELETE, GET, HEAD, OPTIONS, POST")


def test_pipelining(web: Web) -> None:
    browser = web.connect()
    for number in range(10):
        browser.sends("POST", "/v1/topics/a" if number % 2 else "/v1/topics/b", "x")
    browser.sends("GET", "/nothing").sends("GET", "/healthz")
    said = answers(browser.hears(), *["POST"] * 10, "GET", "GET")
    assert [each.status for each in said] == [202] * 10 + [404, 200]


def test_much_work_behind_a_long_answer_is_done(web: Web) -> None:
    """Nothing more comes from the client: its batch goes on by itself, though it is work for several turns."""
    lines = "".join(
        f'{{"producer":"{number:08x}-6d0f-4c8e-9a5e-3b1f7d2c4e60","metadata":{{"Region":"italy"}},"value":1}}\n'
        for number in range(1000)
    )
    browser = web.connect()
    assert browser.asks("POST", "/v1/topics", lines).json()["published"] == 1000
    browser.sends("GET", "/v1/producers?limit=1000")
    assert browser.session.waits_for_room
    browser.sends("POST", "/v1/topics", '{"topic":"a","payload":"\\u0041"}\n' * 1000)
    listed, posted = answers(browser.hears(), "GET", "POST")
    assert len(listed.json()["producers"]) == 1000
    assert posted.json() == {"published": 1000, "delivered_to": 0}


def test_close(web: Web) -> None:
    browser = web.connect()
    assert browser.asks("GET", "/healthz", Connection="close").fields["connection"] == "close"
    assert browser.session.close_expected()


def test_gzip(web: Web) -> None:
    said = web.asks("GET", "/", Accept_Encoding="br, gzip;q=0.5")
    assert said.fields["content-encoding"] == "gzip"
    assert gzip.decompress(said.body) == PAGE.body
    assert "content-encoding" not in web.asks("GET", "/", Accept_Encoding="gzip;q=0").fields
    assert "content-encoding" not in web.asks("GET", "/healthz", Accept_Encoding="gzip").fields
    listing = web.asks("GET", "/v1/producers", Accept_Encoding="gzip")
    assert json.loads(gzip.decompress(listing.body)) == {"producers": [], "next": None}


def test_a_page_that_has_not_changed(web: Web) -> None:
    said = web.asks("GET", "/")
    assert said.body == PAGE.body
    assert "default-src 'none'" in said.fields["content-security-policy"]
    for tag in (said.fields["etag"], PAGE.tag.removeprefix("W/"), f'"x", {PAGE.tag}', "*"):
        again = web.asks("GET", "/", If_None_Match=tag)
        assert (again.status, again.body, again.fields["etag"]) == (304, b"", PAGE.tag)


def test_a_cache_keeps_both_forms_of_a_page(web: Web) -> None:
    """The same tag for both, so it is a weak one (RFC 9110, 8.8.1), and every answer says what it varies with."""
    for coding, tag in (("gzip", ""), ("identity", ""), ("gzip", PAGE.tag)):
        said = web.asks("GET", "/", Accept_Encoding=coding, If_None_Match=tag)
        assert (said.fields["etag"][:3], said.fields["vary"]) == ('W/"', "Accept-Encoding")


def test_the_end_of_a_client_that_still_waits(web: Web, desk: Desk) -> None:
    responder = desk.connect().say("SUB math 1\r\n")
    browser = web.connect().sends("POST", "/v1/requests/math", "2+2")
    browser.session.receive_eof()
    responder.say(f"PUB {responder.hears().split(b' ')[3].decode()} 1\r\n4\r\n")
    assert b'"payload":"4"' in browser.hears()
    assert browser.session.close_expected()


def test_slow_heads_and_bodies(web: Web, desk: Desk) -> None:
    half, body, idle = web.connect(), web.connect(), web.connect()
    half.says(b"GET / HTTP/1.1\r\nHost:")
    body.says(b"POST /v1/topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123")
    for seconds in range(1, 100):
        for browser in (half, body, idle):
            browser.session.tick(desk.now + seconds)
    assert b" 408 " in half.hears()
    assert b" 408 " in body.hears()
    assert idle.hears() == b""
    assert all(browser.session.close_expected() for browser in (half, body, idle))


# Who may do what.

SENSOR = User(
    "sensor", "default", Permissions(("volcanoes.>",)), Permissions(("volcanoes.>",), ("volcanoes.secret.>",))
)
ADMIN = User("boss", "default", roles=frozenset({"admin"}))
LAB = User("lab", "lab")
USERS = {"sensor": SENSOR, "boss": ADMIN, "lab": LAB}


@pytest.fixture
def guarded(hot_path: HotPath) -> Web:
    return Web(Desk(hot_path, authentication=True), USERS)


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


def test_a_user_is_needed(guarded: Web) -> None:
    said = guarded.asks("POST", "/v1/topics/a", "x")
    assert (said.status, said.fields["www-authenticate"].split()[0]) == (401, "Basic")
    page = guarded.asks("GET", "/v1/stats", Sec_Fetch_Site="same-origin")
    assert page.fields["www-authenticate"].startswith("Bearer")
    for path in ("/healthz", "/readyz", "/", "/openapi.json"):
        assert guarded.asks("GET", path).status == 200


def test_permissions_hold(guarded: Web) -> None:
    """A3."""
    sensor = bearer("sensor")
    assert guarded.asks("POST", "/v1/topics/volcanoes/a", "x", **sensor).status == 202
    assert guarded.asks("POST", "/v1/topics/other", "x", **sensor).status == 403
    assert guarded.asks("POST", "/v1/requests/other", "x", **sensor).status == 403
    assert guarded.asks("GET", "/v1/stream?topic=other", **sensor).status == 403
    assert guarded.asks("GET", "/v1/stream", **sensor).status == 403
    assert guarded.connect().sends("GET", "/v1/stream?where=a&readings=0", **sensor).events()[0][0] == "set"
    batch = guarded.asks("POST", "/v1/topics", '{"topic":"other"}\n{"topic":"volcanoes.b"}', **sensor).json()
    assert (batch["published"], batch["refused"]) == (1, 1)
    assert guarded.asks("PATCH", f"/v1/producers/{ATKA}", "{}", **sensor).status == 403
    assert guarded.asks("DELETE", f"/v1/producers/{ATKA}", **sensor).status == 403


def test_who_may_not_receive_a_producer_sees_nothing_of_it(guarded: Web) -> None:
    """A3, hazard 15."""
    for producer, topic in ((ATKA, "volcanoes/atka"), (ETNA, "volcanoes/secret/etna")):
        fields = {"Fumarole_Producer": producer, "Fumarole_Metadata": '{"Kind":"heat"}', **bearer("boss")}
        assert guarded.asks("POST", f"/v1/topics/{topic}", "1", **fields).status == 202
    sensor = bearer("sensor")
    listed = guarded.asks("GET", "/v1/producers", **sensor).json()
    assert [each["id"] for each in listed["producers"]] == [ATKA]
    unknown = guarded.asks("GET", "/v1/producers/3a1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e62", **sensor)
    assert guarded.asks("GET", f"/v1/producers/{ETNA}", **sensor).body == unknown.body
    stream = guarded.connect().sends("GET", "/v1/stream?topic=volcanoes.>&where=Kind=%27heat%27", **sensor)
    assert stream.events() == [("set", {"New": [ATKA], "Del": []})]


def test_what_is_for_admins(guarded: Web) -> None:
    """A4."""
    for path in ("/v1/stats", "/v1/connections", "/v1/cluster", "/v1/journal"):
        assert guarded.asks("GET", path, **bearer("sensor")).status == 403
        assert guarded.asks("GET", path, **bearer("boss")).status == 200


def test_a_user_sees_its_own_consumers_only(guarded: Web) -> None:
    guarded.connect().sends("GET", "/v1/stream?topic=volcanoes.>", **bearer("boss"))
    stream = guarded.connect().sends("GET", "/v1/stream?topic=volcanoes.usa.>", **bearer("sensor"))
    own = guarded.asks("GET", "/v1/consumers", **bearer("sensor")).json()
    assert [each["pattern"] for each in own["worst"]] == ["volcanoes.usa.>"]
    assert own["consumers"] == own["looked_at"] == 1
    everything = guarded.asks("GET", "/v1/consumers", **bearer("boss")).json()
    assert sorted(each["pattern"] for each in everything["worst"]) == ["volcanoes.>", "volcanoes.usa.>"]
    stream.session.close()
    assert guarded.asks("GET", "/v1/consumers", **bearer("sensor")).json()["worst"] == []
    guarded.connect().sends("GET", "/v1/stream?topic=volcanoes.usa.>&group=crew", **bearer("sensor"))
    crew = {"crew": {guarded.service.node.name: 1}}
    assert guarded.asks("GET", "/v1/consumers", **bearer("boss")).json()["groups"] == crew
    assert "groups" not in guarded.asks("GET", "/v1/consumers", **bearer("sensor")).json()


def test_who_gets_a_topic(guarded: Web) -> None:
    streams = [
        ("boss", "topic=volcanoes.>"),
        ("boss", "topic=volcanoes.*&where=Kind=1"),
        ("sensor", "topic=volcanoes.usa.>"),
    ]
    for user, asked in streams:
        guarded.connect().sends("GET", f"/v1/stream?{asked}", **bearer(user))

    def listeners(topic: str, user: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = guarded.asks("GET", f"/v1/consumers?topic={topic}", **bearer(user)).json()[
            "worst"
        ]
        return found

    assert [each["pattern"] for each in listeners("volcanoes.usa.atka", "boss")] == ["volcanoes.>", "volcanoes.usa.>"]
    assert [each["pattern"] for each in listeners("volcanoes.usa.>", "boss")] == ["volcanoes.>", "volcanoes.usa.>"]
    assert [each.get("query") for each in listeners("volcanoes.usa", "boss")] == [None, "Kind = 1"]
    assert [each["pattern"] for each in listeners("volcanoes.usa.atka", "sensor")] == ["volcanoes.usa.>"]
    everything = guarded.asks("GET", "/v1/consumers", **bearer("boss")).json()
    assert everything["consumers"] == len(everything["worst"]) == len(streams)
    assert guarded.asks("GET", "/v1/consumers?topic=a.%3E.b", **bearer("boss")).status == 400


def test_the_journal_has_what_is_new(web: Web) -> None:
    journal = web.service.node.journal
    journal.note(0.0, "join", "default", "7 sensor 127.0.0.1")
    journal.note(0.0, "refusal", "default", "7 sensor 127.0.0.1", "Slow Consumer")
    told = web.asks("GET", "/v1/journal?after=1").json()
    assert told["total"] == 2
    assert [(each["kind"], each["text"]) for each in told["events"]] == [("refusal", "Slow Consumer")]
    assert web.asks("GET", "/v1/topics/a").status == 200
    assert web.asks("GET", "/v1/journal").json()["total"] == 2  # single calls are no events


def test_a_user_has_its_namespace(guarded: Web) -> None:
    """N3: a user's namespace is not chosen by the request."""
    said = guarded.asks("GET", "/v1/session?namespace=default", **bearer("lab")).json()
    assert said["namespace"] == "lab"


def test_each_request_has_its_own_user(guarded: Web) -> None:
    browser = guarded.connect()
    assert browser.asks("GET", "/v1/session", **bearer("lab")).json()["namespace"] == "lab"
    assert browser.asks("GET", "/v1/session", **bearer("boss")).json()["namespace"] == "default"
    assert browser.asks("GET", "/v1/stats").status == 401
    assert browser.asks("GET", "/v1/cluster", **bearer("sensor")).status == 403


def test_credentials_that_have_to_be_verified(guarded: Web) -> None:
    browser = guarded.connect()
    browser.sends("POST", "/v1/topics/a", "x", **bearer("unknown")).sends("GET", "/healthz")
    assert browser.session.claim is not None
    assert browser.session.claim.token == "unknown"
    browser.session.admit(None)
    assert [said.status for said in answers(browser.hears(), "POST", "GET")] == [401, 200]
    browser.sends("GET", "/v1/session", Authorization="Basic " + base64.b64encode(b"ann:secret").decode())
    assert browser.session.claim is not None
    assert (browser.session.claim.user, browser.session.claim.password) == ("ann", "secret")
    browser.session.admit(LAB)
    (said,) = answers(browser.hears(), "GET")
    assert said.json()["user"] == "lab"


def test_a_body_behind_credentials_that_are_verified(guarded: Web) -> None:
    browser = guarded.connect()
    browser.says(b"POST /v1/topics/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nAuthorization: Bearer x\r\n\r\na")
    browser.says(b"bc")
    browser.session.admit(ADMIN)
    (said,) = answers(browser.hears(), "POST")
    assert said.status == 202


@pytest.mark.parametrize("text", ["Basic", "Basic x", "Basic YQ==", "Digest a=b", "Bearer", "Bearer  ", "x"])
def test_credentials_that_are_none(guarded: Web, text: str) -> None:
    assert guarded.asks("GET", "/v1/stats", Authorization=text).status == 401


def test_a_cookie(guarded: Web) -> None:
    said = guarded.asks("POST", "/v1/session", **bearer("lab"))
    told = {"user": "lab", "namespace": "lab", "admin": False, "may_publish": True, "subscribe": None, "node": "desk"}
    assert said.json() == told
    cookie = said.fields["set-cookie"]
    assert cookie == "fumarole=lab-43200; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"
    pair = cookie.partition(";")[0]
    assert guarded.asks("GET", "/v1/session", Cookie=f"a=b; {pair}").json()["user"] == "lab"
    assert guarded.asks("GET", "/v1/session", Cookie="fumarole=other").status == 401
    assert "Max-Age=0" in guarded.asks("DELETE", "/v1/session", Cookie=pair).fields["set-cookie"]


def test_a_page_without_users_publishes_on_the_machine_itself_only(desk: Desk) -> None:
    web = Web(desk, hosts=("*",))
    told = [web.connect(each).asks("GET", "/v1/session").json() for each in ("127.0.0.1", "192.0.2.7")]
    assert [(each["may_publish"], each["admin"]) for each in told] == [(True, True), (False, False)]


def test_no_cookie_without_users(web: Web) -> None:
    assert web.asks("POST", "/v1/session").status == 409
    assert web.asks("GET", "/v1/session").json()["admin"] is True


FOREIGN: dict[str, tuple[dict[str, str], int]] = {
    "the same origin": ({"Origin": "http://localhost"}, 202),
    "another origin": ({"Origin": "http://evil.example"}, 403),
    "another port": ({"Origin": "http://localhost:8000"}, 403),
    "https of the same name": ({"Origin": "https://localhost"}, 403),
    "an origin that is hidden": ({"Origin": "null"}, 403),
    "another site": ({"Sec_Fetch_Site": "cross-site"}, 403),
    "the same site": ({"Sec_Fetch_Site": "same-origin"}, 202),
    "a link from another site": ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}, 403),
    "a configured origin": ({"Origin": "https://plots.example", "Sec_Fetch_Site": "cross-site"}, 202),
}


@pytest.mark.parametrize(("fields", "status"), FOREIGN.values(), ids=FOREIGN)
def test_requests_from_elsewhere(desk: Desk, fields: dict[str, str], status: int) -> None:
    web = Web(desk, origins=("https://plots.example",))
    said = web.asks("POST", "/v1/topics/a", "x", **fields)
    assert said.status == status
    assert ("access-control-allow-origin" in said.fields) == (fields.get("Origin") == "https://plots.example")


def test_a_link_from_another_site_opens_the_console(web: Web) -> None:
    assert web.asks("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200
    assert web.asks("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403


HOSTS = {
    "localhost": 200,
    "localhost:8222": 200,
    "LOCALHOST": 200,
    "127.0.0.1:8222": 200,
    "127.9.9.9": 200,
    "[::1]:8222": 200,
    "fumarole.internal:80": 200,
    "evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "localhost.evil.example": 403,
    "10.0.0.1": 403,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items(), ids=HOSTS)
def test_names_of_this_machine(desk: Desk, host: str, status: int) -> None:
    """H5: DNS rebinding."""
    web = Web(desk, hosts=("fumarole.internal",))
    browser = web.connect().says(f"GET /v1/stats HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answers(browser.hears(), "GET")[0].status == status
    browser = web.connect().says(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert answers(browser.hears(), "GET")[0].status == 200


@pytest.mark.parametrize("path", ["/v1/stats", "/varz", "/connz", "/nats"])
def test_what_shows_others_is_not_for_any_name(web: Web, path: str) -> None:
    """DNS rebinding: without users, a page elsewhere would be an administrator."""
    said = web.connect().says(f"GET {path} HTTP/1.1\r\nHost: other.example\r\n\r\n".encode()).hears()
    assert said.startswith(b"HTTP/1.1 403 ")


def test_with_users_any_host_will_do(guarded: Web) -> None:
    browser = guarded.connect()
    browser.says(b"GET /v1/stats HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer boss\r\n\r\n")
    assert answers(browser.hears(), "GET")[0].status == 200


def test_preflight_of_a_configured_origin(desk: Desk) -> None:
    web = Web(desk, origins=("https://plots.example",))
    said = web.asks("OPTIONS", "/v1/topics/a", Origin="https://plots.example", Access_Control_Request_Method="POST")
    assert said.fields["access-control-allow-origin"] == "https://plots.example"
    assert "POST" in said.fields["access-control-allow-methods"]


def test_headers_of_a_message_may_be_sent_from_a_configured_origin(desk: Desk) -> None:
    web = Web(desk, origins=("https://plots.example",))
    asked = "content-type, fumarole-header-unit,Fumarole-Header-Room, cookie, fumarole-header-a b"
    fields = {"Origin": "https://plots.example", "Access_Control_Request_Headers": asked}
    names = web.asks("OPTIONS", "/v1/topics/a", **fields).fields["access-control-allow-headers"].split(", ")
    assert {"Content-Type", "Fumarole-Producer", "fumarole-header-unit", "fumarole-header-room"} <= set(names)
    assert not {"cookie", "fumarole-header-a b"} & set(names)


# What watches over the node.


def samples(said: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """As prometheus-client reads them."""
    families = list(text_string_to_metric_families(said.body.decode()))
    assert {family.name.removesuffix("_total") for family in families} <= {
        each.name.removesuffix("_total") for each in FAMILIES
    }
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics(web: Web, desk: Desk) -> None:
    """O1."""
    desk.connect().say("SUB a 1\r\n")
    web.asks("POST", "/v1/topics/a", "abc")
    web.asks("POST", "/v1/topics/b", "abc")
    web.asks("POST", "/v1/topics/b%20c", "abc")
    found = samples(web.asks("GET", "/metrics"))
    mine = ("namespace", "default")
    assert found["fumarole_received_messages_total", (mine,)] == 2
    assert found["fumarole_received_bytes_total", (mine,)] == 6
    assert found["fumarole_delivered_messages_total", (mine,)] == 1
    for reason, count in (("no_consumer", 1), ("outbox_full", 0), ("refused", 1)):
        assert found["fumarole_dropped_messages_total", (mine, ("reason", reason))] == count
    assert found["fumarole_http_requests_total", (("status", "202"),)] == 2


def test_every_answer_is_counted(web: Web) -> None:
    """Also those without a session's look at them, and those without end."""
    web.connect().sends("GET", "/v1/stream?topic=a").hears()
    web.connect().says(b"nonsense\r\n\r\n").hears()
    assert web.service.answered == {200: 1, 400: 1}


def test_refusals_are_in_the_journal_and_counted(guarded: Web) -> None:
    """O2. What is not there, and credentials that are missing, are no refusals."""
    guarded.asks("GET", "/nothing", **bearer("boss"))
    guarded.asks("GET", "/v1/stats")
    guarded.asks("GET", "/v1/stats", **bearer("sensor"))
    guarded.asks("POST", "/v1/topics/other", "x", **bearer("sensor"))
    told = guarded.asks("GET", "/v1/journal", **bearer("boss")).json()["events"]
    assert [(each["kind"], each["text"][:4]) for each in told] == [("refusal", "403 ")] * 2
    assert [each["namespace"] for each in told] == ["default", "default"]
    assert samples(guarded.asks("GET", "/metrics", **bearer("boss")))["fumarole_refusals_total", ()] == 2


def test_last_values_are_delivered_and_conflated_messages_are_not(web: Web, desk: Desk) -> None:
    for value in ("1", "2", "3"):
        web.asks("POST", "/v1/topics/a?retain=1", value)
    web.connect().sends("GET", "/v1/stream?topic=a&last=1").hears()
    web.connect().sends("GET", "/v1/stream?topic=a&every=1h").hears()
    for value in ("4", "5", "6"):
        web.asks("POST", "/v1/topics/a", value)
    told, found = web.asks("GET", "/v1/stats").json(), samples(web.asks("GET", "/metrics"))
    mine = (("namespace", "default"),)
    assert told["last"] == 1
    assert told["conflated"] > 0
    assert found["fumarole_delivered_messages_total", mine] == told["delivered"]
    assert found["fumarole_conflated_messages_total", mine] == told["conflated"]


def test_each_number_of_a_namespace_has_its_name(web: Web, desk: Desk) -> None:
    """What is read in one go is written family by family."""
    exchange = desk.connect().session.exchange
    assert exchange is not None
    counted = exchange.counters
    names = (
        "received",
        "received_bytes",
        "routed",
        "unheard",
        "overflowed",
        "refused",
        "conflated",
        "forwarded",
        "strayed",
    )
    for number, name in enumerate(names, 100):
        setattr(counted, name, number)
    exchange.usage.refused["consumers"] = 7
    found = samples(web.asks("GET", "/metrics"))
    mine = ("namespace", "default")
    rows = {
        ("received_messages_total", ""): 100,
        ("received_bytes_total", ""): 101,
        ("delivered_messages_total", ""): 102 - 104 - 106,
        ("dropped_messages_total", "no_consumer"): 103,
        ("dropped_messages_total", "outbox_full"): 104,
        ("dropped_messages_total", "refused"): 105,
        ("conflated_messages_total", ""): 106,
        ("forwarded_messages_total", ""): 107,
        ("stray_messages_total", ""): 108,
        ("quota_refusals_total", ""): 7,
        ("connections", ""): 2,
        ("consumers", ""): 0,
        ("known_producers", ""): 0,
    }
    for (name, reason), number in rows.items():
        labels = (mine, ("reason", reason)) if reason else (mine,)
        assert found[f"fumarole_{name}", labels] == number, name
    assert len(rows) == sum(len(each.labels) for each in NAMESPACES)


def test_spans_are_counted_where_they_are_made(web: Web, desk: Desk) -> None:
    """O3."""
    assert "span" not in web.asks("GET", "/metrics").body.decode()
    tracer = Tracer("desk", lambda: 0, bytes)
    tracer.exported, tracer.dropped = 3, 2
    desk.node.namespaces.trace(tracer)
    found = samples(web.asks("GET", "/metrics"))
    assert (found["fumarole_exported_spans_total", ()], found["fumarole_dropped_spans_total", ()]) == (3, 2)


def test_no_client_can_make_rows(web: Web, desk: Desk) -> None:
    """O1: the busiest have rows, the rest are summed."""
    for number in range(150):
        desk.connect(user=f"n{number}").say("PUB a 1\r\nx\r\n" * (150 - number))
    found = samples(web.asks("GET", "/metrics"))
    rows = {dict(labels)["namespace"]: value for (name, labels), value in found.items() if "received_messages" in name}
    assert len(rows) == 102
    assert {"default", "n0", "n99", "other"} <= rows.keys()
    assert "n100" not in rows
    assert sum(rows.values()) == sum(range(1, 151))


def test_openmetrics(web: Web) -> None:
    said = web.asks("GET", "/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert said.fields["content-type"].startswith("application/openmetrics-text")
    assert list(openmetrics(said.body.decode()))  # type: ignore[no-untyped-call]


def test_who_may_scrape(guarded: Web, hot_path: HotPath) -> None:
    assert guarded.asks("GET", "/metrics").status == 401
    assert guarded.asks("GET", "/metrics", **bearer("sensor")).status == 200
    for path in ("/varz", "/connz"):
        assert guarded.asks("GET", path, **bearer("sensor")).status == 403
        assert guarded.asks("GET", path, **bearer("boss")).status == 200
    assert Web(Desk(hot_path, authentication=True), USERS, metrics_open=True).asks("GET", "/metrics").status == 200


def test_connections_are_sorted_as_nats_top_asks(web: Web) -> None:
    made = {"door": "nats", "name": "", "address": "127.0.0.1", "namespace": "default"}
    numbers = ((901, 5, 0), (902, 0, 70), (903, 7, 10))
    web.service.connections = lambda: [
        {**made, "id": each, "consumers": consumers, "waiting_bytes": waiting} for each, consumers, waiting in numbers
    ]
    for by, order in (
        ("cid", [901, 902, 903]),
        ("subs", [903, 901, 902]),
        ("pending", [902, 903, 901]),
        ("uptime", [901, 902, 903]),
    ):
        told = web.asks("GET", f"/connz?sort={by}").json()
        assert [each["cid"] for each in told["connections"]] == order


def test_the_connection_that_asks_is_not_listed(web: Web) -> None:
    """As at nats-server, whose monitoring is no client."""
    browser = web.connect()
    made = {"door": "http", "name": "", "address": "127.0.0.1", "namespace": "default", "consumers": 0}
    web.service.connections = lambda: [
        {**made, "id": each, "waiting_bytes": 0} for each in (browser.session.client_id, 901)
    ]
    told = browser.asks("GET", "/connz").json()
    assert [each["cid"] for each in told["connections"]] == [901]
    assert told["total"] == 1


def test_what_is_switched_off(desk: Desk) -> None:
    web = Web(desk, off=("metrics", "monitoring", "openapi", "nats", "mqtt"))
    for path in ("/metrics", "/varz", "/connz", "/openapi.json", "/nats", "/mqtt"):
        assert web.asks("GET", path).status == 404
    assert web.asks("GET", "/").status == 200


def test_readiness(web: Web) -> None:
    assert web.asks("GET", "/readyz").body == b"ready\n"
    web.service.unready = lambda: ["the node drains"]
    said = web.asks("GET", "/readyz")
    assert (said.status, said.json()["detail"]) == (503, "the node drains")
