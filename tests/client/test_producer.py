import asyncio
import enum
import json
import uuid

import numpy as np
import pytest

import fumarole
from fumarole.client import Disconnected, InvalidReadingError, Message, ProducerInfo, Reconnected, RefusedError
from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.config.values import Secret
from fumarole.exchange.presence import said_by_producer
from fumarole.server.credentials import token_digest
from tests.client.brokers import Notices, RealBroker
from tests.client.conftest import StartBroker

ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


def told(message: Message) -> object:
    """The metadata that came with a reading; None: there was none."""
    text = message.headers.get("Metadata")
    return None if text is None else json.loads(text)


async def test_metadata_goes_only_when_it_is_new(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("readings.>") as messages:
        producer = client.producer({"Room": "410", "Floor": 4})
        await producer.publish(21.5)
        await producer.publish(22)
        producer.update(Room="411", Floor=None)
        producer.update({"Kind of": True})
        await producer.publish(-0.5)
        await producer.publish(1e300)
        heard = [await anext(messages) for _ in range(4)]
    assert [message.payload for message in heard] == [b"21.5", b"22", b"-0.5", b"1e+300"]
    assert {message.headers["Producer"] for message in heard} == {producer.id}
    assert {message.topic for message in heard} == {f"readings.{producer.id}"}
    assert uuid.UUID(producer.id).version == 4
    news = {"Room": "411", "Floor": None, "Kind of": True}
    assert [told(message) for message in heard] == [{"Room": "410", "Floor": 4}, None, news, None]
    assert producer.metadata == {"Room": "411", "Kind of": True}


async def test_identity_and_topic_of_its_own(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("volcanoes.atka") as messages:
        producer = client.producer(topic="volcanoes.atka", identity=ONE.upper())
        await producer.publish(1)
        heard = await anext(messages)
    assert (heard.headers["Producer"], told(heard)) == (ONE, None)


async def test_the_empty_topic(broker: RealBroker) -> None:
    """T9."""
    async with fumarole.connect(broker.url) as client, client.subscribe("") as messages:
        producer = client.producer(topic="", identity=ONE)
        await producer.publish(1)
        heard = await anext(messages)
    assert (heard.topic, heard.payload, heard.headers["Producer"]) == ("", b"1", ONE)


async def test_the_broker_knows_it_until_it_is_forgotten(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        producer = client.producer({"Kind": "temperature"}, identity=ONE)
        assert not await producer.forget()
        await producer.publish(21.5)
        await client.producer({"Kind": "humidity"}).publish(40)
        (known,) = await client.producers("Kind = 'temperature'")
        assert known == ProducerInfo(ONE, {"Kind": "temperature", "_online": True}, 21.5, known.age)
        assert known.age is not None
        assert len(await client.producers()) == 2
        assert await producer.forget()
        assert await client.producers("Kind = 'temperature'") == []
        await producer.publish(21.6)
        assert [each.metadata for each in await client.producers("Kind = 'temperature'")] == [
            {"Kind": "temperature", "_online": True}
        ]


async def test_another_broker_is_told_everything_again(broker: RealBroker, start_broker: StartBroker) -> None:
    other, notices = await start_broker(), Notices()
    async with fumarole.connect([broker.url, other.url], on_notice=notices) as client:
        producer = client.producer({"Room": "410", "Old": 1})
        producer.update(Old=None)
        await producer.publish(1)
        await client.flush()
        await broker.stop()
        await notices.wait_for(Disconnected)
        producer.update(Kind="a")
        await producer.publish(2)
        await producer.publish(3)
        await notices.wait_for(Reconnected)
        await client.flush()
        assert [(said_by_producer(each.metadata), each.value) for each in await client.producers()] == [
            ({"Room": "410", "Kind": "a"}, 3)
        ]


async def test_what_could_not_be_published_is_said_again(broker: RealBroker) -> None:
    notices = Notices()
    async with fumarole.connect(broker.url, pending=0, on_notice=notices) as client:
        producer = client.producer({"Room": "410"})
        await broker.stop()
        await notices.wait_for(Disconnected)
        with pytest.raises(fumarole.PendingFullError):
            await producer.publish(1)
        await broker.start()
        await notices.wait_for(Reconnected)
        await producer.publish(2)
        assert [said_by_producer(each.metadata) for each in await client.producers()] == [{"Room": "410"}]


@pytest.mark.parametrize(
    "identity", ["", "one", "2f1c0a52-6d0f-11ef-9a5e-3b1f7d2c4e60", ONE.replace("-", ""), f"{{{ONE}}}"]
)
async def test_an_identity_that_is_none(broker: RealBroker, identity: str) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(InvalidReadingError, match="UUID of version 4"):
            client.producer(identity=identity)


class Level(enum.IntEnum):
    """A whole number with a name."""

    HIGH = 3


async def test_numbers_that_call_themselves_something_else(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client, client.subscribe("readings.>") as messages:
        producer = client.producer({"Offset": np.float64(0.5), "Level": Level.HIGH}, identity=ONE)
        await producer.publish(np.float64(21.5))
        await producer.publish(Level.HIGH)
        heard = [await anext(messages) for _ in range(2)]
        assert [message.payload for message in heard] == [b"21.5", b"3"]
        (known,) = await client.producers()
        assert (known.value, said_by_producer(known.metadata)) == (3, {"Offset": 0.5, "Level": 3})


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), True, "21.5", None, 2**64, pytest.param(10**5000, id="huge")]
)
async def test_a_value_that_is_no_number(broker: RealBroker, value: float) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(InvalidReadingError, match=r"finite number|too large"):
            await client.producer().publish(value)


@pytest.mark.parametrize(
    "metadata",
    [
        *[{1: "a"}, {"a": [1]}, {"a": {}}, {"a": float("nan")}, {"a": b"b"}],
        *[{"a": 2**64}, {"a": 10**5000}, {"a": "\ud800"}, {"\ud800": 1}],
    ],
)
async def test_metadata_that_cannot_be(broker: RealBroker, metadata: dict[str, str]) -> None:
    async with fumarole.connect(broker.url) as client:
        producer = client.producer()
        with pytest.raises(InvalidReadingError):
            producer.update(metadata)
        assert producer.metadata == {}


async def test_what_the_broker_refuses_is_known_by_flush(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url, on_notice=Notices()) as client:
        await client.publish("a", b"1", headers={"Producer": str(uuid.uuid4()), "Metadata": "{"})
        with pytest.raises(fumarole.RefusedError, match="Invalid Reading"):
            await client.flush()
        await asyncio.wait_for(client.stats(), 5)


async def test_all_producers_come_in_pages(broker: RealBroker) -> None:
    """There may be more than one answer holds, by number and by size."""
    long = "x" * 4_000
    async with fumarole.connect(broker.url) as client:
        identities = []
        for number in range(1_300):
            producer = client.producer({"Number": number, "Long": long if number < 300 else ""})
            identities.append(producer.id)
            await producer.publish(number)
        await client.flush()
        pages = [page async for page in client.all_producers()]
        assert [each.id for page in pages for each in page] == identities
        assert len(pages) > 2
        assert [each.id for each in await client.producers()] == identities[:1_000]
        assert [each.id for each in await client.producers(most=2_000)] == identities
        some = [page async for page in client.all_producers("Number BETWEEN 5 AND 7")]
        assert [[each.metadata["Number"] for each in page] for page in some] == [[5, 6, 7]]
        with pytest.raises(RefusedError, match="expected a query, or a JSON object"):
            await client.ask_broker("$FUM.producers", '{"skip": -1}')


async def test_who_may_know_the_last_of_many_producers_finds_them(start_broker: StartBroker) -> None:
    """Though all of the broker's first answer may be passed over."""
    digest = Secret(token_digest("t0ken")), Secret(token_digest("other"))
    allowed = PermissionSettings(allow=("site9.>", "_INBOX.>"))
    users = UserSettings(name="all", token=digest[0]), UserSettings(name="ann", token=digest[1], subscribe=allowed)
    broker = await start_broker(users=users)
    async with fumarole.connect(broker.login("t0ken")) as client, fumarole.connect(broker.login("other")) as ann:
        for number in range(1_050):
            await client.producer().publish(number)
        known = [client.producer({"Number": number}, topic="site9.hall") for number in range(3)]
        for producer in known:
            await producer.publish(1)
        await client.flush()
        assert [each.id for each in await ann.producers()] == [producer.id for producer in known]
        assert [each.id for each in await ann.producers("Number = 1")] == [known[1].id]
