import doctest

import pytest

from fumarole.core.errors import PatternError, TopicError
from fumarole.exchange import Collector, Exchange, collector
from fumarole.exchange.collector import Delivery
from fumarole.fastpath.hot_path import HotPath


def test_an_exchange_in_four_lines() -> None:
    assert doctest.testmod(collector) == (0, 8)


def test_what_was_published_is_delivered(hot_path: HotPath) -> None:
    exchange = Exchange("lab", parts=hot_path.parts)
    every, some = Collector(exchange, ">"), Collector(exchange, "a.*")
    assert exchange.publish_to("a.b", b"1", "reply.here", b"NATS/1.0\r\n\r\n") == 2
    assert exchange.publish_to("", b"2") == 1
    assert every.messages == [Delivery("a.b", b"1", "reply.here", b"NATS/1.0\r\n\r\n"), Delivery("", b"2")]
    assert some.messages == every.messages[:1]
    assert (exchange.counters.received, exchange.counters.routed) == (2, 3)
    some.close()
    some.close()
    assert exchange.publish_to("a.b") == 1
    assert len(some.messages) == 1


def test_a_collector_may_publish_to_itself(hot_path: HotPath) -> None:
    exchange = Exchange("lab", parts=hot_path.parts)
    assert Collector(exchange, "a").has_room(1 << 40)
    assert exchange.publish_to("a") == 1


def test_what_is_wrong_is_said() -> None:
    exchange = Exchange("lab")
    with pytest.raises(PatternError, match="at position 2"):
        Collector(exchange, "a.>.b")
    with pytest.raises(TopicError, match="at position 1"):
        Collector(exchange, "a", group="g*")
    for wrong in ("a.*", "\ud800"):
        with pytest.raises(TopicError):
            exchange.publish_to(wrong)
    assert len(exchange) == 0


def test_other_names_are_not_there() -> None:
    import fumarole.exchange

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fumarole.exchange.nonsense  # noqa: B018
