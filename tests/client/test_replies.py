import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import fumarole
from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.config.values import Secret
from fumarole.protocols import nats
from fumarole.server.credentials import token_digest
from tests.client.brokers import Notices, RealBroker
from tests.client.conftest import StartBroker, StartFake


@asynccontextmanager
async def responder(url: str, topic: str, answers: int = 1) -> AsyncIterator[None]:
    """Answers every request with its payload, so many times."""
    async with fumarole.connect(url) as client, client.subscribe(topic) as requests:

        async def answer() -> None:
            async for request in requests:
                for number in range(answers):
                    await request.respond(b"%d:" % number + request.payload, headers={"From": "responder"})

        answering = asyncio.create_task(answer())
        yield
        answering.cancel()


async def test_a_request_and_its_reply(broker: RealBroker) -> None:
    async with responder(broker.url, "ask"), fumarole.connect(broker.url) as client:
        reply = await client.request("ask", b"1")
        assert (reply.payload, reply.headers) == (b"0:1", {"From": "responder"})


async def test_many_requests_at_once_get_each_their_own(broker: RealBroker) -> None:
    async with responder(broker.url, "ask"), fumarole.connect(broker.url) as client:
        replies = await asyncio.gather(*(client.request("ask", b"%d" % number) for number in range(200)))
        assert [reply.payload for reply in replies] == [b"0:%d" % number for number in range(200)]
        assert broker.consumers == 2  # the responder's, and one inbox for all


async def test_nobody_hears(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(fumarole.NoResponders, match="'nobody'"):
            await client.request("nobody", timeout=60)
        with pytest.raises(fumarole.NoResponders):
            await client.call("nobody", replies=3, timeout=60)
        with pytest.raises(fumarole.NoResponders):
            await client.call("nobody", replies=None, timeout=60)


async def test_somebody_hears_and_says_nothing(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("ask"):
        with pytest.raises(TimeoutError, match=r"no reply to the request to 'ask' within 0\.05 s"):
            await client.request("ask", timeout=0.05)
        assert await client.call("ask", replies=2, timeout=0.05) == []


async def test_as_many_replies_as_were_wanted_come_at_once(broker: RealBroker) -> None:
    async with responder(broker.url, "ask", answers=5), fumarole.connect(broker.url) as client:
        replies = await client.call("ask", b"x", replies=3, timeout=60)
        assert [reply.payload for reply in replies] == [b"0:x", b"1:x", b"2:x"]


async def test_fewer_replies_than_wanted_come_when_the_time_is_up(broker: RealBroker) -> None:
    async with responder(broker.url, "ask", answers=2), fumarole.connect(broker.url) as client:
        replies = await client.call("ask", b"x", replies=3, timeout=0.5)
        assert [reply.payload for reply in replies] == [b"0:x", b"1:x"]


async def test_all_replies_that_come_in_time(broker: RealBroker) -> None:
    async with responder(broker.url, "ask", 2), responder(broker.url, "ask", 1), fumarole.connect(broker.url) as client:
        replies = await client.call("ask", b"x", timeout=0.5)
        assert sorted(reply.payload for reply in replies) == [b"0:x", b"0:x", b"1:x"]


async def test_late_replies_are_passed_over(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client:
        with pytest.raises(TimeoutError):
            await client.request("ask", timeout=0.01)
        published = server.everything().partition(b"PUB ask ")[2]
        inbox = published.split(b" ")[0]
        server.send(b"MSG %b 1 4\r\nlate\r\n" % inbox)
        asking = asyncio.create_task(client.request("ask"))
        await server.wait_for(lambda: server.everything().count(b"PUB ask ") == 2)
        second = server.everything().rpartition(b"PUB ask ")[2].split(b" ")[0]
        assert second != inbox
        server.send(b"MSG %b 1 3\r\nnew\r\n" % second)
        assert (await asking).payload == b"new"


async def test_the_inbox_is_private(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as first, fumarole.connect(broker.url) as second:
        assert first._replies.pattern != second._replies.pattern
        assert len(first._replies.pattern) > len(b"_INBOX..*") + 16


async def test_what_is_no_request_cannot_be_answered(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("a") as messages:
        await client.publish("a")
        with pytest.raises(fumarole.NoReplyTopicError, match="not a request"):
            await (await anext(messages)).respond(b"")


async def test_a_request_that_could_not_even_be_sent(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client:
        await broker.stop()
        await notices.wait_for(fumarole.Disconnected)
        with pytest.raises(TimeoutError, match="was not sent"):
            await client.call("ask", timeout=0.01)


@pytest.mark.parametrize("replies", [0, -1])
async def test_a_number_of_replies_that_makes_no_sense(broker: RealBroker, replies: int) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(ValueError, match="at least 1"):
            await client.call("a", replies=replies)


async def test_closing_ends_requests(broker: RealBroker) -> None:
    client = await fumarole.connect(broker.url)
    async with fumarole.connect(broker.url) as other, other.subscribe("ask") as requests:
        asking = asyncio.create_task(client.request("ask", timeout=60))
        await anext(requests)
        await client.close()
        with pytest.raises(fumarole.ClientError, match="closed"):
            await asking


async def test_requests_leave_nothing_behind(broker: RealBroker) -> None:
    async with responder(broker.url, "ask"), fumarole.connect(broker.url) as client:
        await client.request("ask")
        asking = asyncio.create_task(client.request("ask", timeout=60))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert client._replies._collectors == {}


async def test_the_end_of_one_request_is_not_the_end_of_others(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client:
        server.silent = True
        first = asyncio.create_task(client.request("ask", b"first"))
        second = asyncio.create_task(client.request("ask", b"second"))
        await server.wait_for(lambda: b"SUB _INBOX" in server.everything())
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        server.send(b"PONG\r\n")
        server.silent = False
        await server.wait_for(lambda: b"second" in server.everything())
        assert b"first" not in server.everything()
        inbox = server.everything().rpartition(b"PUB ask ")[2].split(b" ")[0]
        server.send(b"MSG %b 1 2\r\nok\r\n" % inbox)
        assert (await second).payload == b"ok"


async def test_after_an_inbox_that_could_not_be_made_another_is(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url, on_notice=lambda _: None) as client:
        server.silent = True
        asking = asyncio.create_task(client.request("ask"))
        await server.wait_for(lambda: b"SUB _INBOX" in server.everything())
        server.silent = False
        server.cut()
        with pytest.raises(fumarole.DisconnectedError):
            await asking
        asking = asyncio.create_task(client.request("ask"))
        await server.wait_for(lambda: b"PUB ask " in server.everything())
        inbox = server.everything().rpartition(b"PUB ask ")[2].split(b" ")[0]
        server.send(b"MSG %b 1 2\r\nok\r\n" % inbox)
        assert (await asking).payload == b"ok"


async def test_a_request_does_not_get_the_error_of_an_earlier_one(
    start_fake: StartFake, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose subscribe went on after its time was up, and failed when no caller waited for it any more."""
    server = await start_fake()
    async with fumarole.connect(server.url, on_notice=lambda _: None) as client:
        server.silent = True
        with pytest.raises(TimeoutError):
            await client.request("ask", timeout=0.05)
        server.silent = False
        server.cut()
        await server.wait_for(lambda: len(server.heard) == 2)
        asking = asyncio.create_task(client.request("ask"))
        await server.wait_for(lambda: b"PUB ask " in server.everything())
        inbox = server.everything().rpartition(b"PUB ask ")[2].split(b" ")[0]
        server.send(b"MSG %b 1 2\r\nok\r\n" % inbox)
        assert (await asking).payload == b"ok"
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_an_inbox_refused_on_the_way_back_is_asked_for_again(start_broker: StartBroker) -> None:
    def users(*deny: str) -> tuple[UserSettings, ...]:
        token = Secret(token_digest("t0ken"))
        denied = PermissionSettings(deny=deny)
        return (UserSettings(name="station", token=token, roles=("admin",), subscribe=denied),)

    broker = await start_broker(users=users())
    notices = Notices()
    async with fumarole.connect(broker.login("t0ken"), on_notice=notices) as client:
        await client.stats()
        for times, deny in enumerate(["_INBOX.>", "else"], 1):
            await broker.stop()
            await broker.start(users(deny))
            await notices.wait_for(fumarole.Reconnected, times)
            if deny == "else":
                await client.stats()
            else:
                for _ in range(2):
                    with pytest.raises(fumarole.RefusedError, match="may not receive replies"):
                        await client.stats()


async def test_a_reply_with_a_status_of_its_own_is_a_reply(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client:
        asking = asyncio.create_task(client.request("ask"))
        await server.wait_for(lambda: b"PUB ask " in server.everything())
        inbox = server.everything().rpartition(b"PUB ask ")[2].split(b" ")[0]
        server.send(nats.message(inbox, b"1", b"busy", headers=b"NATS/1.0 503\r\n\r\n"))
        assert (await asking).payload == b"busy"


async def test_stats(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        await client.publish("nobody", b"12345")
        stats = await client.stats()
        assert (stats["namespace"], stats["received_bytes"], stats["dropped"]["no consumer"]) == ("default", 5, 1)
