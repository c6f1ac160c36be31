import asyncio
import gc
import weakref

from fumarole.doors.nats import NatsDoor
from fumarole.doors.pump import Pump
from fumarole.fastpath.engine import Engine
from tests.desk import Desk


async def test_a_connection_that_is_over_leaves_nothing_for_the_collector(engine: Engine) -> None:
    """With very many consumers about, a search for cycles would stop everything for seconds."""
    door = NatsDoor(Desk(engine).node, engine.nats_reader)
    pumps: list[weakref.ref[Pump]] = []
    connected = door.connected

    def noted(pump: Pump, transport: asyncio.Transport) -> None:
        pumps.append(weakref.ref(pump))
        connected(pump, transport)

    door.connected = noted  # type: ignore[method-assign]
    gc.disable()
    try:
        await door.open("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*door.address)
        writer.write(b'CONNECT {"verbose":false}\r\nSUB a.> 1\r\nPUB a.b 1\r\nx\r\nPING\r\n')
        await reader.readuntil(b"PONG\r\n")
        writer.close()
        await writer.wait_closed()
        await door.drain(5)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [pump() for pump in pumps] == [None]
    finally:
        gc.enable()
