"""How connections of the web door end: a node that drains, clients that take nothing, errors beside answers."""

from __future__ import annotations

import h11
import pytest

from fumarole.core.limits import Limits
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Desk
from tests.sessions.http.web import Browser, Web, answer

OTHERS = ["http://10.0.0.2:8222"]
MANY = 3_000


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


@pytest.fixture
def web(desk: Desk) -> Web:
    return Web(desk)


def lists_producers(web: Web) -> Browser:
    """A client that has asked for more than its outbox holds, and has taken nothing yet."""
    lines = "".join(
        f'{{"producer":"{number:08x}-6d0f-4c8e-9a5e-3b1f7d2c4e60","metadata":{{"Region":"italy"}},"value":1}}\n'
        for number in range(MANY)
    )
    assert web.asks("POST", "/v1/topics", lines).json()["published"] == MANY
    browser = web.connect().sends("GET", f"/v1/producers?limit={MANY}")
    assert browser.session.waits_for_room
    return browser


def test_a_stream_is_told_once_and_ends(web: Web) -> None:
    browser = web.connect().sends("GET", "/v1/stream?topic=a")
    browser.session.stream.bye(OTHERS)
    browser.session.send_away(OTHERS)
    assert browser.events() == [("bye", {"others": OTHERS})]
    assert browser.session.close_expected()


def test_an_answer_that_has_begun_is_given(web: Web) -> None:
    browser = lists_producers(web)
    browser.session.send_away(OTHERS)
    assert not browser.session.close_expected()
    assert len(answer(browser.hears()).json()["producers"]) == MANY
    assert browser.session.close_expected()


def test_what_has_no_answer_yet_is_refused(web: Web, desk: Desk) -> None:
    desk.connect().say("SUB math 1\r\n")
    waits = web.connect().sends("POST", "/v1/requests/math", "2+2")
    half = web.connect().says(b"POST /v1/topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123")
    for browser in (waits, half):
        browser.session.send_away(OTHERS)
        said = answer(browser.hears(), "POST")
        assert (said.status, said.fields["connection"]) == (503, "close")
        assert browser.session.close_expected()
    assert web.service.answered[503] == 2


def test_an_idle_client_hears_nothing(web: Web) -> None:
    """A client must not take words of ours for the answer to what it asks next."""
    browser = web.connect()
    assert browser.asks("GET", "/healthz").status == 200
    browser.session.fail("Authorization Violation: the rules of this user have changed, connect again")
    assert browser.hears() == b""
    assert browser.session.close_expected()


def test_an_error_is_not_put_into_an_answer(web: Web) -> None:
    browser = lists_producers(web)
    browser.session.fail("Slow Consumer")
    said = browser.hears()
    assert said.count(b"HTTP/1.1 ") == 1
    with pytest.raises((h11.RemoteProtocolError, AssertionError)):
        answer(said)


def test_a_client_that_takes_nothing_of_a_long_answer(web: Web, desk: Desk) -> None:
    takes, stands = lists_producers(web), web.connect().sends("GET", f"/v1/producers?limit={MANY}")
    idle, now, heard = desk.node.limits.idle, desk.now, b""
    for _ in range(3):
        heard += takes.session.outbox.take()
        takes.session.refill()
        now += idle * 0.6
        for browser in (takes, stands):
            browser.session.tick(now)
    assert stands.session.close_expected()
    assert not takes.session.close_expected()
    assert len(answer(heard + takes.hears()).json()["producers"]) == MANY


def test_very_small_chunks_are_heard_a_few_at_a_time(hot_path: HotPath) -> None:
    web = Web(Desk(hot_path, Limits(payload=20_000)))
    browser = web.connect()
    head = b"POST /v1/topics/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    browser.reader.receive_data(head + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n")
    turns = 0
    while browser.reader.unfinished:
        browser.reader.go_on()
        turns += 1
    assert turns > 2
    assert answer(browser.hears(), "POST").status == 202
    received = next(iter(web.desk.node.namespaces)).counters
    assert (received.received, received.received_bytes) == (1, 10_000)


def test_a_large_body_byte_by_byte_after_one_like_it(hot_path: HotPath) -> None:
    """It is the session's: a compiled reader would join what it has with each byte anew."""
    web = Web(Desk(hot_path))
    size = 20_000
    browser = web.connect()
    assert browser.asks("POST", "/v1/topics/a", b"x" * size).status == 202
    head = f"POST /v1/topics/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
    browser.says(head)
    assert not browser.session.is_between_requests()
    for _ in range(size):
        browser.says(b"x")
    assert answer(browser.hears(), "POST").status == 202
    assert browser.session.is_between_requests()


def test_the_head_of_a_stream_is_that_of_the_stream(web: Web) -> None:
    for path in ("/v1/stream?topic=a", "/v1/stream?where=select%20a%20where%20b%20=%201"):
        said = web.connect().sends("HEAD", path).hears()
        given = web.connect().sends("GET", path).hears().partition(b"\r\n\r\n")[0]
        assert said == given.replace(b"Connection: close\r\n", b"").replace(b"\r\nConnection: close", b"") + b"\r\n\r\n"
