"""Live views (F7), through the client, on a real broker."""

import asyncio

import pytest

import fumarole
from fumarole.client.errors import QueryRefusedError
from tests.client.brokers import RealBroker


async def test_a_view_and_its_changes(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        one = client.producer({"Kind": "thermostat", "Room": "410"})
        await one.publish(21)
        await client.flush()
        async with client.view("select Room, count(*) where Kind = 'thermostat'") as view:
            assert view.entries == [("410", 1)]
            async with asyncio.timeout(10):
                first = await anext(view)
                assert (first.new, first.gone) == ((("410", 1),), ())
                one.update(Room="411")
                await one.publish(22)
                change = await anext(view)
            assert (change.new, change.gone) == ((("411", 1),), (("410", 1),))
            assert view.entries == [("411", 1)]


async def test_what_is_no_view_is_refused_with_its_place(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        with pytest.raises(QueryRefusedError):
            await client.view("select where Kind = 1")


async def test_last_values_come_first_and_as_an_answer(broker: RealBroker) -> None:
    async with fumarole.connect(broker.url) as client:
        await client.publish("a.b", b"1", retain=True)
        sensor = client.producer({"Kind": "thermostat"})
        await sensor.publish(21)
        await client.flush()
        async with client.subscribe("a.>", last=True) as messages, asyncio.timeout(10):
            await client.publish("a.b", b"2")
            old, new = await anext(messages), await anext(messages)
        assert (old.payload, new.payload) == (b"1", b"2")
        assert old.age is not None
        assert new.age is None
        found = [message async for message in client.last("a.>")]
        assert [(message.topic, message.payload) for message in found] == [("a.b", b"1")]
        found = [message async for message in client.last(where="Kind = 'thermostat'")]
        assert [message.payload for message in found] == [b"21"]
        found = [message async for message in client.last(where="Kind = 'thermostat' and $value > 21")]
        assert found == []
        async with client.where("Kind = 'thermostat'", last=True) as readings, asyncio.timeout(10):
            await anext(readings)  # the set
            reading = await anext(readings)
        assert isinstance(reading, fumarole.client.Reading)
        assert (reading.value, reading.age is not None) == (21, True)
