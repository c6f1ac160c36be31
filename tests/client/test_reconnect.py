import asyncio
from collections.abc import AsyncIterator

import pytest

import fumarole
from fumarole.client import Disconnected, Reconnected
from fumarole.client.reconnect import AT_ONCE
from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.config.values import Secret
from fumarole.protocols import nats
from fumarole.server.credentials import token_digest
from tests.client.brokers import FakeServer, Notices, RealBroker
from tests.client.conftest import StartBroker, StartFake, StartProcess


async def test_after_a_restart_everything_is_there_again(broker: RealBroker) -> None:
    notices = Notices()
    async with (
        fumarole.connect(broker.url, on_notice=notices) as client,
        client.subscribe("a.*") as plain,
        client.subscribe("a.*", group="g") as member,
    ):
        await client.publish("a.1", b"before")
        assert [(await anext(each)).payload for each in (plain, member)] == [b"before", b"before"]
        await client.request("$FUM.stats")
        await broker.stop()
        await notices.wait_for(Disconnected)
        assert not client.connected
        await broker.start()
        await notices.wait_for(Reconnected)
        assert client.connected
        await client.publish("a.1", b"after")
        assert [(await anext(each)).payload for each in (plain, member)] == [b"after", b"after"]
        assert (await client.stats())["consumers"] == 3  # the two, and the inbox
    assert [type(notice) for notice in notices.all] == [Disconnected, Reconnected]


async def test_a_closed_subscription_does_not_come_back(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client:
        before, during = await client.subscribe("a"), await client.subscribe("a")
        await before.close()
        await broker.stop()
        await notices.wait_for(Disconnected)
        await during.close()
        await broker.start()
        await client.flush()
        assert broker.consumers == 0


async def test_a_limit_counts_on(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client, client.subscribe("a", limit=5) as messages:
        await client.publish_many([("a", b"0"), ("a", b"1")])
        await client.flush()
        await broker.restart()
        await notices.wait_for(Reconnected)
        await client.publish_many(("a", b"%d" % number) for number in range(2, 10))
        assert [message.payload async for message in messages] == [b"%d" % number for number in range(5)]
        await client.flush()
        assert broker.consumers == 0


async def test_a_limit_reached_before_does_not_come_back(broker: RealBroker) -> None:
    async with (
        fumarole.connect(broker.url, on_notice=lambda _: None) as client,
        client.subscribe("a", limit=1) as messages,
    ):
        await client.publish("a", b"1")
        await client.flush()
        await broker.restart()
        await client.flush()
        assert broker.consumers == 0
        assert [message.payload async for message in messages] == [b"1"]


async def test_another_server_takes_over(start_broker: StartBroker) -> None:
    first, second = await start_broker(), await start_broker()
    notices = Notices()
    async with (
        fumarole.connect([first.url, second.url], on_notice=notices) as client,
        client.subscribe("a") as messages,
    ):
        assert client.server == first.url
        await first.stop()
        await notices.wait_for(Reconnected)
        assert client.server == second.url
        async with fumarole.connect(second.url) as other:
            await other.publish("a", b"1")
        assert (await anext(messages)).payload == b"1"


async def test_another_server_is_tried_first(start_fake: StartFake) -> None:
    """A server that has just broken off may do so again."""
    first, second = await start_fake(), await start_fake()
    notices = Notices()
    async with fumarole.connect([first.url, second.url], on_notice=notices) as client:
        for expected in (second.url, first.url):
            (first if client.server == first.url else second).cut()
            notices.all.clear()
            await notices.wait_for(Reconnected)
            assert client.server == expected


async def test_what_is_published_meanwhile_is_sent_then_in_order(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client, client.subscribe("a", limit=100) as messages:
        await broker.stop()
        await notices.wait_for(Disconnected)
        for number in range(100):
            await client.publish("a", b"%d" % number)
        await broker.start()
        assert [int(message.payload) async for message in messages] == list(range(100))


@pytest.mark.parametrize("pending", [0, 1000])
async def test_what_is_published_meanwhile_is_bounded(broker: RealBroker, pending: int) -> None:
    notices = Notices()
    async with (
        fumarole.connect(broker.url, on_notice=notices, pending=pending) as client,
        client.subscribe("a") as messages,
    ):
        await broker.stop()
        await notices.wait_for(Disconnected)
        kept = pending // len(b"PUB a 100\r\n" + bytes(100) + b"\r\n")
        for _ in range(kept):
            await client.publish("a", bytes(100))
        with pytest.raises(fumarole.PendingFullError, match=f"of {pending} bytes already wait"):
            await client.publish("a", bytes(100))
        await broker.start()
        await notices.wait_for(Reconnected)
        await client.publish("a", b"last")
        received = [await anext(messages) for _ in range(kept + 1)]
        assert received[-1].payload == b"last"


@pytest.mark.parametrize("way", ["iterable", "async iterable"])
async def test_a_stream_waits_for_the_next_connection(broker: RealBroker, way: str) -> None:
    stream = [("a", b"%d" % number) for number in range(1000)]

    async def stream_async() -> AsyncIterator[tuple[str, bytes]]:
        for message in stream:
            yield message

    notices = Notices()
    async with (
        fumarole.connect(broker.url, on_notice=notices, pending=0) as client,
        client.subscribe("a", limit=1000) as messages,
    ):
        await broker.stop()
        await notices.wait_for(Disconnected)
        publishing = asyncio.create_task(client.publish_many(stream if way == "iterable" else stream_async()))
        await broker.start()
        assert await publishing == 1000
        assert [int(message.payload) async for message in messages] == list(range(1000))


async def test_subscribe_flush_and_request_wait_for_the_next_connection(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client:
        await broker.stop()
        await notices.wait_for(Disconnected)
        subscribing = asyncio.create_task(client.subscribe("a")._opening)
        flushing = asyncio.create_task(client.flush())
        asking = asyncio.create_task(client.stats())
        await broker.start()
        subscription, _, stats = await asyncio.gather(subscribing, flushing, asking)
        assert stats["namespace"] == "default"
        await client.publish("a", b"1")
        assert (await anext(subscription)).payload == b"1"


async def test_nothing_is_sent_twice(start_fake: StartFake) -> None:
    """D1: whatever was handed to a connection is never handed to another."""
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices) as client:
        confirmed: list[int] = []
        in_doubt: list[int] = []
        number = 0

        async def publish(count: int, kind: list[int]) -> None:
            nonlocal number
            for _ in range(count):
                await client.publish("a", b"<%d>" % number)
                kind.append(number)
                number += 1

        for losses in range(1, 11):
            await publish(50, confirmed)
            await client.flush()
            await publish(50, in_doubt)
            await asyncio.sleep(0)
            server.cut()
            await publish(50, in_doubt)
            await notices.wait_for(Disconnected, losses)
            await publish(50, confirmed)
            await notices.wait_for(Reconnected, losses)
        await client.flush()
        everything = server.everything()
        assert {everything.count(b"<%d>" % each) for each in confirmed} == {1}
        assert {everything.count(b"<%d>" % each) for each in in_doubt} <= {0, 1}


async def test_subscriptions_are_made_before_what_waited_is_published(start_fake: StartFake) -> None:
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices) as client, client.subscribe("a", limit=9):
        server.send(b"MSG a 2 1\r\nx\r\n" * 2)
        await client.flush()
        server.cut()
        await notices.wait_for(Disconnected)
        await client.publish("a", b"waited")
        await client.flush()
        _, _, sent = bytes(server.heard[-1]).partition(b"PING\r\n")
        assert sent.startswith(b"SUB a 2\r\nUNSUB 2 7\r\nPING\r\nPUB a 6\r\nwaited\r\n")


async def test_what_had_to_be_confirmed_fails_when_the_connection_is_lost(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url, on_notice=lambda _: None) as client:
        server.silent = True
        flushing = asyncio.create_task(client.flush())
        subscribing = asyncio.create_task(client.subscribe("a")._opening)
        await server.wait_for(lambda: b"SUB a" in server.everything())
        server.silent = False
        server.cut()
        for attempt in (flushing, subscribing):
            with pytest.raises(fumarole.DisconnectedError, match="try again"):
                await attempt
        await client.flush()
        assert b"SUB" not in bytes(server.heard[-1])


async def test_flush_gives_up_in_time(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client:
        server.silent = True
        with pytest.raises(fumarole.FlushTimeoutError, match=r"within 0\.01 s") as given_up:
            await client.flush(0.01)
        assert isinstance(given_up.value, TimeoutError)
        # A late answer belongs to the question that was given up, not to the next one.
        server.send(b"PONG\r\n")
        server.silent = False
        await client.flush()


async def test_a_server_without_a_sign_of_life_is_left(start_fake: StartFake) -> None:
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices, ping_interval=0.01) as client:
        await server.wait_for(lambda: server.everything().count(b"PING\r\n") >= 3)
        assert notices.all == []
        server.silent = True
        await notices.wait_for(Disconnected)
        assert "no sign of life" in str(notices.all[0])
        server.silent = False
        await client.flush()


async def test_without_reconnecting_the_end_is_the_end(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url, reconnect=False) as client, client.subscribe("a") as messages:
        await client.publish("a", b"1")
        await client.flush()
        await broker.stop()
        assert (await anext(messages)).payload == b"1"
        with pytest.raises(fumarole.ClosedError, match=r"was lost \(.*\); connect again"):
            await anext(messages)
        with pytest.raises(fumarole.ClosedError, match="was lost"):
            await client.publish("a")


async def test_closing_while_reconnecting(broker: RealBroker) -> None:
    notices = Notices()
    client = await fumarole.connect(broker.url, on_notice=notices)
    messages = await client.subscribe("a")
    await broker.stop()
    await notices.wait_for(Disconnected)
    subscribing = asyncio.create_task(client.subscribe("b")._opening)
    flushing = asyncio.create_task(client.flush())
    streaming = asyncio.create_task(client.publish_many([("a", b"")]))
    await asyncio.sleep(0)
    await client.close()
    for attempt in (subscribing, flushing, streaming):
        with pytest.raises(fumarole.ClosedError):
            await attempt
    assert [message async for message in messages] == []


async def test_a_subscription_no_longer_allowed_ends_with_the_reason(start_broker: StartBroker) -> None:
    def users(*deny: str) -> tuple[UserSettings, ...]:
        token = Secret(token_digest("t0ken"))
        return (UserSettings(name="station", token=token, subscribe=PermissionSettings(deny=deny)),)

    broker = await start_broker(users=users("c"))
    notices = Notices()
    async with (
        fumarole.connect(broker.login("t0ken"), on_notice=notices) as client,
        client.subscribe("a") as lost,
        client.subscribe("b") as kept,
    ):
        await broker.stop()
        await broker.start(users("a"))
        await notices.wait_for(Reconnected)
        with pytest.raises(fumarole.RefusedError, match='Subscription to "a"'):
            await anext(lost)
        await client.publish("b", b"1")
        assert (await anext(kept)).payload == b"1"
        assert broker.consumers == 1


async def test_a_login_refused_on_the_way_back_is_tried_again(start_fake: StartFake) -> None:
    """A broker that is busy with a thousand logins may refuse one for now."""
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices) as client:
        server.refusal = b"-ERR 'Authorization Violation'\r\n"
        server.cut()
        await server.wait_for(lambda: len([heard for heard in server.heard if heard]) == 3)
        server.refusal = b""
        await notices.wait_for(Reconnected)
        await client.flush()


async def test_a_broker_that_was_killed(start_process: StartProcess) -> None:
    broker = start_process()
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client, client.subscribe("a") as messages:
        broker.kill()
        await notices.wait_for(Disconnected)
        start_process(port=int(broker.url.rpartition(":")[2]))
        await notices.wait_for(Reconnected)
        await client.publish("a", b"1")
        assert (await anext(messages)).payload == b"1"


def told_of(server: FakeServer, **options: bool) -> bytes:
    """INFO that says where else a client may go."""
    return nats.info({"connect_urls": [f"127.0.0.1:{server.port}"], **options})


@pytest.mark.parametrize("when", ["greeting", "later"])
async def test_a_server_that_was_told_of_takes_over(start_fake: StartFake, when: str) -> None:
    second = await start_fake()
    first = await start_fake(**({"greeting": told_of(second)} if when == "greeting" else {}))
    notices = Notices()
    address = first.url.replace("//", "//lab:secret@")
    async with fumarole.connect(address, on_notice=notices) as client, client.subscribe("a"):
        first.send(told_of(second) if when == "later" else b"")
        await client.flush()
        await first.stop()
        await notices.wait_for(Reconnected)
        assert client.server == second.url
        assert b'"user":"lab","pass":"secret"' in second.everything().replace(b": ", b":").replace(b", ", b",")
        assert b"SUB a 2\r\n" in second.everything()


async def test_who_is_sent_away_goes_and_nothing_is_lost(start_fake: StartFake) -> None:
    """What the server has for the client still arrives, and what it is told from then on is for the next."""
    first, second = await start_fake(), await start_fake()
    notices = Notices()
    async with fumarole.connect(first.url, on_notice=notices) as client, client.subscribe("a") as messages:
        await client.publish("b", b"before")
        await client.flush()
        first.silent = True
        heard = len(first.everything())
        first.send(told_of(second, ldm=True))
        await notices.wait_for(Disconnected)
        assert "sent its clients away" in str(notices.all[0])
        await client.publish("b", b"after")
        await first.wait_for(lambda: len(first.everything()) > heard)
        assert second.heard == [], "not both at once"
        first.send(b"MSG a 2 4\r\nlast\r\n" + nats.PONG)
        await notices.wait_for(Reconnected)
        assert client.server == second.url
        assert (await anext(messages)).payload == b"last"
        await client.flush()
        assert first.everything()[heard:] == nats.PING
        assert second.everything().endswith(b"SUB a 2\r\nPING\r\nPUB b 5\r\nafter\r\nPING\r\n")


async def test_who_is_sent_away_by_a_server_that_ends_first(start_fake: StartFake) -> None:
    first, second = await start_fake(), await start_fake()
    notices = Notices()
    async with fumarole.connect(first.url, on_notice=notices) as client:
        first.silent = True
        first.send(told_of(second, ldm=True))
        await notices.wait_for(Disconnected)
        first.cut()
        await notices.wait_for(Reconnected)
        assert (client.server, client.losses) == (second.url, 1)


@pytest.mark.parametrize("reconnect", [True, False], ids=["nowhere to go", "reconnect=False"])
async def test_who_is_sent_away_and_cannot_go_stays(start_fake: StartFake, reconnect: bool) -> None:
    server, other = await start_fake(), await start_fake()
    async with fumarole.connect(server.url, reconnect=reconnect) as client:
        server.send(nats.info({"ldm": True}) if reconnect else told_of(other, ldm=True))
        await client.flush()
        assert (client.server, client.losses) == (server.url, 0)


async def test_closing_when_just_sent_away(start_fake: StartFake) -> None:
    first, second = await start_fake(), await start_fake()
    notices = Notices()
    client = await fumarole.connect(first.url, on_notice=notices)
    messages = await client.subscribe("a")
    first.silent = True
    first.send(told_of(second, ldm=True))
    await notices.wait_for(Disconnected)
    async with asyncio.timeout(5):
        await client.close()
    assert [message async for message in messages] == []
    assert second.heard == []


MANY = 3 * AT_ONCE


async def answer_some(server: FakeServer, answered: int) -> int:
    """When as much is asked as may be: answers it all. How many answers that makes."""
    expected = min(answered + AT_ONCE, MANY)
    await server.wait_for(lambda: server.heard[-1].count(b"\nSUB ") >= expected)
    await asyncio.sleep(0.01)  # too much would have come by now
    asked = server.heard[-1].count(b"\nSUB ")
    assert asked == expected
    server.send(nats.PONG * (asked - answered))
    return asked


async def back_in(server: FakeServer, connections: int) -> None:
    """The client has come again, and was let in."""
    await server.wait_for(lambda: len(server.heard) == connections and nats.PING in server.heard[-1])
    server.send(nats.PONG)


async def test_very_many_subscriptions_are_made_again_some_at_a_time(start_fake: StartFake) -> None:
    """What waited is published behind all of them, and what was closed meanwhile is not there again."""
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices) as client:
        made = await asyncio.gather(*(client.subscribe(f"a.{number}") for number in range(MANY)))
        server.silent = True
        server.cut()
        await notices.wait_for(Disconnected)
        await client.publish("b", b"waited")
        await back_in(server, 2)
        answered = await answer_some(server, 0)
        server.cut()
        await back_in(server, 3)
        answered = await answer_some(server, 0)
        await made[0].close()
        while answered < MANY:
            assert not client.connected
            assert b"waited" not in server.everything()
            answered = await answer_some(server, answered)
        await notices.wait_for(Reconnected)
        server.silent = False
        await client.flush()
        said = bytes(server.heard[-1])
        assert all(said.count(b"SUB a.%d " % number) == 1 for number in range(MANY))
        assert said.endswith(b"UNSUB %b\r\nPUB b 6\r\nwaited\r\nPING\r\n" % made[0].sid)
    assert [type(notice) for notice in notices.all] == [Disconnected, Reconnected]


async def test_very_many_subscriptions_are_made_some_at_a_time(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(server.url) as client:
        server.silent = True
        making = asyncio.gather(*(client.subscribe(f"a.{number}") for number in range(MANY)))
        answered = 0
        while answered < MANY:
            answered = await answer_some(server, answered)
        await making
        server.silent = False


async def test_closing_in_the_middle_of_very_many_subscriptions(start_fake: StartFake) -> None:
    server = await start_fake()
    notices = Notices()
    client = await fumarole.connect(server.url, on_notice=notices)
    made = await asyncio.gather(*(client.subscribe(f"a.{number}") for number in range(MANY)))
    server.silent = True
    server.cut()
    await back_in(server, 2)
    await answer_some(server, 0)
    async with asyncio.timeout(5):
        await client.close()
    assert [message async for message in made[0]] == []


async def test_a_host_that_cannot_be_is_a_server_that_cannot_be_reached(broker: RealBroker) -> None:
    notices = Notices()
    with pytest.raises(fumarole.NoServerError, match="null"):
        await fumarole.connect("nats://a\0b")
    async with fumarole.connect([broker.url, "nats://a\0b"], on_notice=notices) as client:
        await broker.restart()
        await notices.wait_for(Reconnected)
        await client.flush()
