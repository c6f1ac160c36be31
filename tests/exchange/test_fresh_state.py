"""What namespaces keep of their messages, and what is refused of last values, conflation, views and keyed groups."""

from collections.abc import Iterator

import pytest

from fumarole.core.limits import Quotas
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.fastpath.hot_path import HotPath
from tests.desk import Client, Desk, MqttClient, MsgPackClient
from tests.sessions.http.web import Web


def test_a_namespace_keeps_what_its_rules_say_within_its_quota() -> None:
    rules = {"all": NamespaceRules(last="all", quota=Quotas(last_bytes=1_000)), "plain": NamespaceRules()}
    namespaces = Namespaces(rules=rules)
    everything, plain = namespaces.get("all"), namespaces.get("plain")
    assert everything is not None
    assert plain is not None
    assert everything.last_values is not None
    assert plain.last_values is None
    assert everything.clock is plain.clock is namespaces.clock
    assert everything.timers is namespaces.timers
    assert everything.retained is not plain.retained


# Bad input: a sentence in the door's own way, and other clients notice nothing (L1).

BAD_PATTERNS = {
    "no period": ("$EVERY", "without a period"),
    "nanoseconds": ("$EVERY.1ns.a", "expected seconds"),
    "centuries": ("$EVERY.876000h.a", "from 1ms to 24h"),
    "last twice": ("$LAST.$LAST.a", "a second time"),
    "every twice": ("$EVERY.1s.$EVERY.1s.a", "a second time"),
}
BAD_VIEWS = {
    "no keys": ("select where Kind = 'x'", "a key"),
    "1,000 keys": (f"select {', '.join(f'K{number}' for number in range(1_000))} where Kind = 'x'", "at most 16"),
    "a message": ("select Room where $value > 80", "no message here to test"),
}
STRANGE_GROUPS = ["@" * 3, "a@b@topic@producer", f"{'@x@' * 80}@@topic@", f"{'g' * 250}@topic"]
DEEP = "[" * 10_000 + "]" * 10_000
WIDE = "{" + ", ".join(f'"k{number}": 1' for number in range(60_000)) + "}"


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


@pytest.fixture
def bystander(desk: Desk) -> Iterator[Client]:
    """Hears what is published before and after."""
    client = desk.connect().say("SUB canary 9\r\n")
    other = desk.connect()
    other.say("PUB canary 1\r\na\r\n")
    yield client
    other.say("PUB canary 1\r\nb\r\n")
    assert client.hears() == b"MSG canary 9 1\r\na\r\nMSG canary 9 1\r\nb\r\n"


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(("pattern", "words"), BAD_PATTERNS.values(), ids=BAD_PATTERNS)
def test_bad_options_of_a_pattern(desk: Desk, pattern: str, words: str) -> None:
    assert words in desk.connect().asks(f"SUB {pattern} 1\r\n").decode()
    assert words in str(MsgPackClient(desk).say({"topic": pattern}).hears())
    assert words in Web(desk).asks("GET", f"/v1/stream?topic={pattern}").json()["detail"]
    assert words in str(MqttClient(desk).subscribe(pattern.replace(".", "/")))


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("every", ["1ns", "1000000000s", "", "x", -1, 1e12, float("nan"), [1]])
def test_bad_periods(desk: Desk, every: object) -> None:
    (refused,) = MsgPackClient(desk).say({"topic": "a", "every": every}).hears()
    assert refused["Error"]
    assert Web(desk).asks("GET", f"/v1/stream?topic=a&every={every}").status == 400


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(("view", "words"), BAD_VIEWS.values(), ids=BAD_VIEWS)
def test_bad_views(desk: Desk, view: str, words: str) -> None:
    (refused,) = MsgPackClient(desk).say(view).hears()
    assert words in refused["Error"]
    client = desk.connect().say("SUB answers 1\r\n")
    assert words in client.asks(f"PUB $FUM.view answers {len(view)}\r\n{view}\r\n").decode()


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("group", STRANGE_GROUPS)
def test_strange_names_of_groups(desk: Desk, group: str) -> None:
    """Each is a group like any other: one of two members gets each message."""
    members = [desk.connect().say(f"SUB a {group} 1\r\n") for _ in range(2)]
    sensor = desk.connect()
    for _ in range(10):
        sensor.say("PUB a 1\r\nx\r\n")
    heard = [member.hears().count(b"MSG a 1") for member in members]
    assert sum(heard) == 10
    assert (0 in heard) == group.endswith(("@topic", "@producer"))


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("payload", [DEEP, f'{{"a": {DEEP}}}', WIDE], ids=["deep", "deep inside", "wide"])
def test_payloads_that_are_dear_to_parse(desk: Desk, payload: str) -> None:
    """The test of a field is unknown, and who asks nothing of the message gets it."""
    asks, plain = (MsgPackClient(desk).say(query) for query in ("$.a.b > 1 or $.k5 > 0", "Kind = 'x'"))
    asks.hears(), plain.hears()
    block = 'NATS/1.0\r\nProducer: 2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60\r\nMetadata: {"Kind": "x"}\r\n\r\n'
    desk.connect().say(f"HPUB v {len(block)} {len(block) + len(payload)}\r\n{block}{payload}\r\n")
    assert [said for said in asks.hears() if not isinstance(said, dict)] == []
    assert len([said for said in plain.hears() if not isinstance(said, dict)]) == 1
