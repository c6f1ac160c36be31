import asyncio

from fumarole.doors.release import GONE, release
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.stream import CONSUMERS_AT_ONCE
from tests.desk import Desk

CONSUMERS = 2 * CONSUMERS_AT_ONCE + 500


async def test_very_many_consumers_end_in_slices(hot_path: HotPath) -> None:
    desk = Desk(hot_path)
    client = desk.connect()
    client.say("".join(f"SUB a {sid}\r\n" for sid in range(CONSUMERS)) + "PUB a 0\r\n\r\n")
    assert client.session.outbox.size > 0
    client.session.close()
    release(client.session)
    assert client.session.outbox.size == 0
    left = [desk.counters()["consumers"]]
    while client.session.outbox.owner is not GONE:
        await asyncio.sleep(0)
        left.append(desk.counters()["consumers"])
    assert left == [CONSUMERS - 2 * CONSUMERS_AT_ONCE, 0]  # the first slice ends with the session
