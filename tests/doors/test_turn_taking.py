import asyncio

from fumarole.doors.turn_taking import TurnTaking
from tests.doors.fakes import FakeTransport


async def test_the_others_come_first() -> None:
    turns, transport, order = TurnTaking(), FakeTransport(None), list[str]()
    asyncio.get_running_loop().call_soon(order.append, "another")
    turns.give_way(transport, lambda: order.append("this"))
    assert (turns.gives_way, transport.reading, order) == (True, False, [])
    await asyncio.sleep(0)
    assert order == ["another", "this"]


async def test_once_at_a_time() -> None:
    turns, transport, calls = TurnTaking(), FakeTransport(None), list[None]()
    for _ in range(3):
        turns.give_way(transport, lambda: calls.append(None))
    await asyncio.sleep(0)
    assert len(calls) == 1


async def test_a_connection_that_is_closed_does_not_go_on() -> None:
    turns, transport, calls = TurnTaking(), FakeTransport(None), list[None]()
    transport.close()
    turns.give_way(transport, lambda: calls.append(None))
    await asyncio.sleep(0)
    assert (turns.gives_way, calls) == (False, [])
