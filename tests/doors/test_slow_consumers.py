from fumarole.doors.slow_consumers import SlowConsumers
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Desk


def test_each_is_told_and_counted_once(hot_path: HotPath) -> None:
    """D6: a namespace may say that a full outbox ends its connection."""
    desk = Desk(hot_path)
    slow, other = desk.connect(), desk.connect()
    cut = SlowConsumers(desk.node).cut
    for client in (slow, other, slow):
        client.hears()
        cut(client.session)
    assert desk.node.slow_consumers == 2
    assert (slow.hears(), other.hears()) == (b"", b"-ERR 'Slow Consumer'\r\n")
