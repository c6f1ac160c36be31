import asyncio

import pytest

import fumarole
from fumarole.client import (
    Change,
    Client,
    Disconnected,
    Producer,
    QueryRefusedError,
    Reading,
    Readings,
    Reconnected,
    RefusedError,
)
from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.config.values import Secret
from fumarole.server.credentials import token_digest
from tests.client.brokers import Notices, RealBroker
from tests.client.conftest import StartBroker

WARM = "Kind = 'temperature'"


def warm(client: Client, **metadata: str) -> Producer:
    return client.producer({"Kind": "temperature", **metadata})


async def take(readings: Readings, count: int) -> list[Reading | Change]:
    async with asyncio.timeout(10):
        return [await anext(readings) for _ in range(count)]


async def test_changes_and_readings_come_in_order(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        first = warm(client)
        await first.publish(1)
        async with client.where(WARM) as readings:
            assert readings.producers == {first.id}
            second = warm(client, Room="410")
            await second.publish(2)
            await first.publish(3.5)
            first.update(Kind=None)
            await first.publish(4)
            first.update(Kind="temperature")
            await first.publish(5)
            came = await take(readings, 7)
            assert readings.producers == {first.id, second.id}
            await second.forget()
            assert await take(readings, 1) == [Change((), (second.id,))]
            assert readings.producers == {first.id}
    assert came == [
        Change((first.id,), ()),
        Change((second.id,), ()),
        Reading(second.id, {"Kind": "temperature", "Room": "410"}, 2, second.topic),
        Reading(first.id, {}, 3.5, first.topic),
        Change((), (first.id,)),
        Change((first.id,), ()),
        Reading(first.id, {"Kind": "temperature"}, 5, first.topic),
    ]


async def test_order_is_kept_when_very_much_arrives_at_once(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.where(WARM) as readings:
        producers = [client.producer() for _ in range(20)]
        for kind in ("temperature", None) * 20:
            for producer in producers:
                producer.update(Kind=kind)
                await producer.publish(1)
        members: set[str] = set()
        for each in await take(readings, 20 * 20 * 3):
            if isinstance(each, Change):
                members = (members - set(each.gone)) | set(each.new)
            else:
                assert each.producer in members
        assert members == readings.producers == frozenset()


async def test_with_tests_on_messages(broker: RealBroker) -> None:
    """F6."""
    async with (
        fumarole.connect(broker.url) as client,
        client.where("Kind = 'temperature' and $value > 80 and $topic like 'volcanoes.%'") as readings,
    ):
        inside = client.producer({"Kind": "temperature"}, topic="volcanoes.atka")
        outside = warm(client)
        for value in (80, 80.5, 79, 2**53 + 1):
            await outside.publish(value)
            await inside.publish(value)
        came = await take(readings, 4)
        assert came[:2] == [Change((outside.id,), ()), Change((inside.id,), ())]
        assert [each.value for each in came if isinstance(each, Reading)] == [80.5, 2**53 + 1]
        assert readings.producers == {inside.id, outside.id}


async def test_with_a_pattern_and_a_group(broker: RealBroker) -> None:
    async with (
        fumarole.connect(broker.url) as client,
        client.where(WARM, topic="volcanoes.>", group="g") as one,
        client.where(WARM, topic="volcanoes.>", group="g") as other,
    ):
        inside = client.producer({"Kind": "temperature"}, topic="volcanoes.atka")
        for value in range(10):
            await warm(client).publish(value)
            await inside.publish(value)
        values: list[float | str] = []
        while len(values) < 10:
            for readings in (one, other):
                while readings.buffered:
                    each = await anext(readings)
                    values += [each.value] if isinstance(each, Reading) else []
            await client.flush()
        assert sorted(map(float, values)) == list(range(10))


async def test_a_wrong_query_says_where(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        for ask in (client.where("Kind = = 1"), client.producers("Kind = = 1")):
            with pytest.raises(QueryRefusedError, match="found `=`, expected a value") as caught:
                await ask
            assert (caught.value.query, caught.value.position, caught.value.found) == ("Kind = = 1", 7, "`=`")
            assert caught.value.expected.startswith("a value")
            assert caught.value.caret().splitlines()[:2] == ["Kind = = 1", "       ^"]
        with pytest.raises(RefusedError, match="must be the last word"):
            await client.where(WARM, topic="a.>.b")
        assert (await client.stats())["consumers"] == 1


async def test_after_a_reconnect_one_change_brings_the_set_up_to_date(
    broker: RealBroker, start_broker: StartBroker
) -> None:
    other, notices = await start_broker(), Notices()
    async with (
        fumarole.connect(other.url) as helper,
        fumarole.connect([broker.url, other.url], on_notice=notices) as client,
    ):
        stays, leaves, comes = warm(client), warm(client), warm(helper)
        await comes.publish(0)
        await helper.producer({"Kind": "temperature"}, identity=stays.id).publish(0)
        await helper.flush()
        await stays.publish(1)
        await leaves.publish(1)
        async with client.where(WARM) as readings:
            (first,) = await take(readings, 1)
            assert isinstance(first, Change)
            assert set(first.new) == {stays.id, leaves.id}
            await broker.stop()
            assert await take(readings, 1) == [Change((comes.id,), (leaves.id,))]
            assert readings.producers == {stays.id, comes.id}
            await notices.wait_for(Reconnected)
            async with asyncio.timeout(10):
                while (await helper.stats())["consumers"] != 4:  # two inboxes and two topics
                    await helper.flush()
            await comes.publish(2)
            assert await take(readings, 1) == [Reading(comes.id, {}, 2, comes.topic)]


async def test_a_full_buffer_loses_readings_and_no_change(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.where(WARM, buffer=3) as readings:
        first, second, third = producers = [warm(client) for _ in range(3)]
        for value in range(5):
            for producer in producers:
                await producer.publish(value)
        await third.forget()
        while readings.producers != {first.id, second.id}:
            await client.flush()
        came = await take(readings, readings.buffered)
    assert came[0] == Change((first.id, second.id, third.id), ())
    assert came[-1] == Change((), (third.id,))
    assert len(came) == 3
    assert readings.dropped == 14


async def test_who_came_and_went_in_a_full_buffer_is_not_mentioned(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.where(WARM, buffer=1) as readings:
        producer = warm(client)
        await producer.publish(1)
        await producer.forget()
        await producer.publish(2)
        await producer.forget()
        await client.flush()
        await readings.close()
        assert [each async for each in readings] == []


async def test_what_happens_before_the_topics_are_listened_to_is_told(broker: RealBroker) -> None:
    """Between the broker's answer and the subscriptions there is a gap, in which no change may be lost."""
    async with fumarole.connect(broker.url) as client:
        answer = await client.ask_broker("$FUM.where", WARM)
        early, late, never = warm(client), warm(client), warm(client)
        await never.publish(0)
        await early.publish(0)
        await never.forget()
        async with client.subscribe(answer["diffs"]) as diffs, client.subscribe(answer["topic"]) as messages:
            await late.publish(1)
            assert (await anext(diffs)).json() == {"New": [early.id, late.id], "Del": []}
            assert (await anext(messages)).json()["id"] == late.id


async def test_closing(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        async with client.where(WARM) as readings:
            await warm(client).publish(1)
            await take(readings, 1)
        assert [type(each) async for each in readings] in ([], [Reading])
        standing = await client.where(WARM)
    assert [type(each) async for each in standing] == [Change]


async def test_closing_while_reconnecting(broker: RealBroker) -> None:
    notices = Notices()
    client = await fumarole.connect(broker.url, on_notice=notices)
    readings = await client.where(WARM)
    await broker.stop()
    await notices.wait_for(Disconnected)
    await client.close()
    async with asyncio.timeout(5):
        assert [each async for each in readings] == []


async def test_without_reconnecting_the_end_is_the_end(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url, reconnect=False) as client, client.where(WARM) as readings:
        await broker.stop()
        with pytest.raises(fumarole.ClosedError, match="was lost"):
            async with asyncio.timeout(5):
                await anext(readings)


async def test_draining(broker: RealBroker) -> None:
    """What was published before comes out, and then the iteration ends."""
    async with fumarole.connect(broker.url) as client, fumarole.connect(broker.url) as publisher:
        readings = await client.where(WARM)
        producer = warm(publisher)
        for value in range(5_000):
            await producer.publish(value)
        await publisher.flush()
        async with asyncio.timeout(10):
            await readings.drain()
            came = [each async for each in readings]
        assert came[0] == Change((producer.id,), ())
        assert [each.value for each in came if isinstance(each, Reading)] == list(range(5_000))


async def test_who_drains_takes_nothing_from_the_others_of_its_group(broker: RealBroker) -> None:
    """The broker still has its topic for a while, and must give that no share."""
    async with (
        fumarole.connect(broker.url) as leaving,
        fumarole.connect(broker.url) as staying,
        fumarole.connect(broker.url) as publisher,
    ):
        leaves, stays = await leaving.where(WARM, group="g"), await staying.where(WARM, group="g")
        producer = warm(publisher)
        for value in range(1_000):
            await producer.publish(value)
        await publisher.flush()
        draining = asyncio.create_task(leaves.drain())
        for value in range(1_000, 2_000):
            await producer.publish(value)
            if value % 100 == 0:
                await asyncio.sleep(0)
        await publisher.flush()
        await draining
        await stays.drain()
        values = [[each.value async for each in one if isinstance(each, Reading)] for one in (leaves, stays)]
        assert sorted(map(float, values[0] + values[1])) == list(range(2_000))
        assert len(values[0]) > 400


async def test_draining_while_disconnected(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, on_notice=notices) as client:
        readings = await client.where(WARM)
        await warm(client).publish(1)
        await client.flush()
        await broker.stop()
        await notices.wait_for(Disconnected)
        async with asyncio.timeout(5):
            await readings.drain()
            assert [type(each) async for each in readings] == [Change, Reading]
        await broker.start()
        await notices.wait_for(Reconnected)
        assert broker.consumers == 1  # its inbox


async def test_a_buffer_full_of_bytes_loses_the_oldest_readings_and_no_change(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.where(WARM, buffer_bytes=10_000) as readings:
        producer, other = warm(client), warm(client)

        async def say(text: str) -> None:
            await client.publish(producer.topic, text, headers={"Producer": producer.id})

        await producer.publish(0)
        for _ in range(2):  # what is taken makes room
            dropped = readings.dropped
            for number in range(25):
                await say(f"number {number}".ljust(1_000, "x"))
            await client.flush()
            kept = readings.buffered - 1 if dropped == 0 else readings.buffered
            came = await take(readings, readings.buffered)
            values = [str(each.value).rstrip("x") for each in came if isinstance(each, Reading)]
            assert values == [f"number {number}" for number in range(25 - kept, 25)]
            assert 7 <= kept <= 9
            assert readings.dropped - dropped == 25 - kept + (dropped == 0)
            assert (came[0] == Change((producer.id,), ())) is (dropped == 0)
        await say("small, no")
        await say("x" * 20_000)
        await other.publish(1)
        await other.forget()
        await client.flush()
        assert readings.buffered == 3


async def test_messages_about_forgotten_producers_come_in_their_place(broker: RealBroker) -> None:
    """Also where they arrive together with what the producer said before and after."""
    async with (
        fumarole.connect(broker.url) as publisher,
        fumarole.connect(broker.url) as client,
        client.where(WARM, group="g", farewells=True) as readings,
    ):
        assert client._reconnecting.connection is not None
        transport = client._reconnecting.connection._transport
        transport.pause_reading()
        producer = warm(publisher)
        await producer.publish(1)
        assert await producer.forget()
        await producer.publish(2)
        await publisher.publish("_FORGOTTEN", b"nobody")  # T9: only the broker says so
        with pytest.raises(RefusedError, match="_FORGOTTEN"):
            await publisher.flush()
        transport.resume_reading()
        came = await take(readings, 6)
        assert [each for each in came if isinstance(each, Reading)] == [
            Reading(producer.id, {"Kind": "temperature"}, 1, producer.topic),
            Reading(producer.id, {"Kind": None}, producer.id, "_FORGOTTEN"),
            Reading(producer.id, {"Kind": "temperature"}, 2, producer.topic),
        ]
        assert readings.buffered == 0


async def test_without_permission_for_forgotten_producers_where_goes_on(start_broker: StartBroker) -> None:
    allowed = PermissionSettings(allow=("readings.>", "_INBOX.>", "_WHERE.>"))
    deaf = UserSettings(name="deaf", token=Secret(token_digest("t0ken")), subscribe=allowed)
    broker = await start_broker(users=(deaf,))
    async with (
        fumarole.connect(broker.login("t0ken")) as client,
        client.where(WARM, topic="readings.>", farewells=True) as readings,
    ):
        await warm(client).publish(1)
        assert [type(each) for each in await take(readings, 2)] == [Change, Reading]


@pytest.mark.parametrize("numbers", [{"buffer": 0}, {"buffer_bytes": 0}])
async def test_numbers_that_make_no_sense(broker: RealBroker, numbers: dict[str, int]) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(ValueError, match="at least 1"):
            client.where(WARM, buffer=numbers.get("buffer", 1), buffer_bytes=numbers.get("buffer_bytes", 1))
