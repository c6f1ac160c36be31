"""KubeMQ's own Python clients, unmodified: 2.4.0, 3.6.0 and 4.1.5, its synchronous and its asynchronous half (K1)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.tables import RECEIVED, RECEIVERS
from tests.integration.conftest import Brokers
from tests.integration.kubemq.conftest import DOOR, kubemq_port
from tests.integration.kubemq.sdks import MANAGING, SDKS, Faulty, Sdk
from tests.integration.kubemq.test_door import counters
from tests.integration.raw import RawClient
from tests.integration.running import RunningBroker
from tests.ports import free_port

Event = dict[str, Any]


@pytest.fixture(scope="module")
def broker(brokers: Brokers) -> RunningBroker:
    """What differs between the hot paths is tested elsewhere."""
    return brokers.share(DOOR, observed=True)


@pytest.fixture(scope="module")
def all_sdks(broker: RunningBroker) -> Iterator[dict[str, Sdk]]:
    """Each in a process that lives as long as these tests."""
    started = {name: Sdk(name) for name in SDKS}
    for sdk in started.values():
        sdk.begin("connect", address=f"127.0.0.1:{kubemq_port(broker)}")
    for sdk in started.values():
        sdk.end()
    yield started
    for sdk in started.values():
        sdk.do("close")
        sdk.close()


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest, all_sdks: dict[str, Sdk], broker: RunningBroker) -> Iterator[Sdk]:
    before = consumers(broker)
    yield all_sdks[request.param]
    await_consumers(broker, before)


def consumers(broker: RunningBroker) -> int:
    count: int = broker.observe()["consumers"]["kubemq"]
    return count


def await_consumers(broker: RunningBroker, count: int, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Looks inside until there are so many: the SDKs have no way to say that a subscription is in force, or gone."""
    deadline = time.monotonic() + 20
    while (seen := consumers(broker)) != count:
        assert time.monotonic() < deadline, f"{seen} consumers, not {count}"
        meanwhile()
        time.sleep(0.02)


class Subscribed:
    """Subscriptions in force within the block, and gone after it."""

    def __init__(self, broker: RunningBroker, *subscriptions: tuple[Sdk, str, Event]) -> None:
        self._broker = broker
        self._subscriptions = subscriptions
        self._before = 0

    def __enter__(self) -> None:
        self._before = consumers(self._broker)
        for sdk, command, arguments in self._subscriptions:
            sdk.do(command, **arguments)
        await_consumers(self._broker, self._before + len(self._subscriptions))

    def __exit__(self, *_: object) -> None:
        for sdk, _command, arguments in self._subscriptions:
            sdk.do("cancel", name=arguments["name"])
        asleep = [arguments for sdk, _, arguments in self._subscriptions if sdk.name == "3.6.0"]
        await_consumers(self._broker, self._before, lambda: self._wake(asleep) if asleep else None)

    def _wake(self, asleep: list[Event]) -> None:
        """SDK 3 looks at its token only when a message comes."""
        prefixes = {"commands": "_COMMANDS_.", "queries": "_QUERIES_."}
        with RawClient(self._broker.port) as nats:
            nats.connect(user="kubemq")
            for arguments in asleep:
                topic = prefixes.get(arguments.get("kind", ""), "") + re.sub("[*>]", "x", arguments["channel"])
                nats.talk(f"PUB {topic} 7\r\nwake up\r\n".encode())


def listening(sdk: Sdk, name: str, channel: str, group: str = "") -> tuple[Sdk, str, Event]:
    return sdk, "subscribe", {"name": name, "channel": channel, "group": group}


def answering(sdk: Sdk, name: str, kind: str, channel: str, **options: Any) -> tuple[Sdk, str, Event]:
    return sdk, "respond", {"name": name, "kind": kind, "channel": channel, **options}


def test_connecting_is_quiet(sdk: Sdk) -> None:
    """SDK 4 warns of servers that it was not tested with."""
    assert sdk.do("ping").startswith("2.6.0-fumarole-")
    assert not [text for text in sdk.warnings if "version" in text]


@pytest.mark.parametrize("how", ["one", "stream"])
def test_events(broker: RunningBroker, sdk: Sdk, how: str) -> None:
    """Wildcards, metadata and tags, and in order."""
    events = [{"channel": f"grüße.{n}", "body": f"{n}", "metadata": f"m{n}", "tags": {"n": f"{n}"}} for n in range(20)]
    with Subscribed(broker, listening(sdk, "one", "grüße.*"), listening(sdk, "some", "grüße.>")):
        sdk.do("send", events=events, how=how)
        for name in ("one", "some"):
            got = sdk.heard(name, 20)
            for event in got:
                event["tags"].pop("x-kubemq-client-id", None)  # SDK 3 adds it
                assert event.pop("id")
            assert [{key: event[key] for key in events[0]} for event in got] == events


def test_a_group_shares(broker: RunningBroker, sdk: Sdk) -> None:
    members = {"A": "s.*", "B": "s.x", "C": "s.>"}
    with Subscribed(broker, *(listening(sdk, name, channel, "g") for name, channel in members.items())):
        sdk.do("send", events=[{"channel": "s.x", "body": f"{n}"} for n in range(30)])
        got = sdk.heard_by(members, 30)
        assert sorted(int(event["body"]) for events in got.values() for event in events) == list(range(30))
        assert min(map(len, got.values())) >= 9


def test_the_eight_receivers(broker: RunningBroker, sdk: Sdk) -> None:
    """G4, from seed 002; and all that the broker has delivered is what they got."""
    with RawClient(broker.port) as nats:
        nats.connect(user="kubemq")
        counters(nats)
        with Subscribed(broker, *(listening(sdk, name, *row) for name, row in RECEIVERS.items())):
            delivered = counters(nats)["delivered"]
            for topic, names in RECEIVED.items():
                sdk.do("send", events=[{"channel": topic, "body": topic}] * 4)
                got = sdk.heard_by(RECEIVERS, 4 * len(names.split()))
                for entity in names.split():
                    assert [event["channel"] for name in entity.split("|") for event in got.pop(name)] == [topic] * 4
                assert not any(got.values())
                delivered += 4 * len(names.split())
            assert counters(nats)["delivered"] == delivered


def test_all_sdks_meet(broker: RunningBroker, all_sdks: dict[str, Sdk]) -> None:
    with Subscribed(broker, *(listening(sdk, "all", "all.*") for sdk in all_sdks.values())):
        for name, sdk in all_sdks.items():
            sdk.do("send", events=[{"channel": "all.x", "body": name}])
            for other in all_sdks.values():
                assert other.heard("all")[0]["body"] == name


@pytest.mark.parametrize("kind", ["commands", "queries"])
def test_a_request_and_its_answer(broker: RunningBroker, all_sdks: dict[str, Sdk], sdk: Sdk, kind: str) -> None:
    """Asked by each of the SDKs, and by this one itself."""
    # SDK 4 lets no client answer to a wildcard, though the server would.
    channel = "do.it" if sdk.name.startswith("4") else "do.*"
    with Subscribed(broker, answering(sdk, "responder", kind, channel)):
        for other in all_sdks.values():
            answer = other.do("ask", kind=kind, channel="do.it", body=f"for {other.name}")
            (asked,) = sdk.heard("responder")
            assert (asked["channel"], asked["body"]) == ("do.it", f"for {other.name}")
            assert (answer["executed"], answer["error"]) == (True, "")
            if kind == "queries":
                assert (answer["body"], answer["metadata"]) == (f"answer to for {other.name}", "ok")
            else:
                assert not answer.get("body")


@pytest.mark.parametrize("kind", ["commands", "queries"])
def test_a_request_that_failed(broker: RunningBroker, sdk: Sdk, kind: str) -> None:
    with Subscribed(broker, answering(sdk, "broken", kind, "broken", error="no power")):
        answer = sdk.do("ask", kind=kind, channel="broken", body="on")
    assert (answer["executed"], answer["error"]) == (False, "no power")


def test_a_request_that_is_not_answered(broker: RunningBroker, all_sdks: dict[str, Sdk], sdk: Sdk) -> None:
    """After the second that was asked for, not before."""
    with RawClient(broker.port) as nats:
        nats.connect(user="kubemq")
        nats.talk(b"SUB _QUERIES_.mute 1\r\n")
        began = time.monotonic()
        # The asynchronous half of SDK 4 has a clock of its own, which is as fast.
        with pytest.raises(Faulty, match=r"Error 301: timeout for request message|timed out after 1s"):
            sdk.do("ask", kind="queries", channel="mute", body="hello", timeout=1)
        assert time.monotonic() - began > 0.9
        nats.read_until(b"hello\r\n")


def test_a_request_that_nobody_hears(sdk: Sdk) -> None:
    """At once (R1)."""
    began = time.monotonic()
    with pytest.raises(Faulty, match="Error 301: timeout for request message: nobody is subscribed"):
        sdk.do("ask", kind="commands", channel="nobody", body="hello", timeout=30)
    assert time.monotonic() - began < 10


def test_a_receiver_that_cancels(broker: RunningBroker, sdk: Sdk) -> None:
    """It is gone from the exchange, and its neighbour goes on."""
    before = consumers(broker)
    with Subscribed(broker, listening(sdk, "stays", "leave.*")):
        with Subscribed(broker, listening(sdk, "leaves", "leave.x")):
            sdk.do("send", events=[{"channel": "leave.x", "body": "both"}])
            assert sdk.heard("leaves")[0]["body"] == sdk.heard("stays")[0]["body"] == "both"
        assert consumers(broker) == before + 1
        sdk.heard_by(["stays"], 0)  # what woke up the one who left
        sdk.do("send", events=[{"channel": "leave.x", "body": "one"}])
        assert sdk.heard("stays")[0]["body"] == "one"


def test_what_is_to_be_stored_is_refused_and_nobody_waits_for_ever(sdk: Sdk) -> None:
    try:
        result = sdk.do("store", channel="s")
    except Faulty as fault:
        assert "the events store is not offered" in str(fault)  # noqa: PT017, some raise and some do not
    else:
        assert result["sent"] is False
        assert result["error"].startswith("the events store is not offered")


@pytest.mark.parametrize("name", MANAGING)
def test_channels(broker: RunningBroker, all_sdks: dict[str, Sdk], name: str) -> None:
    sdk = all_sdks[name]
    for kind in ("events", "commands", "queries"):
        assert sdk.do("create", kind=kind, channel="made") is True
        assert sdk.do("delete", kind=kind, channel="made") is True
    with pytest.raises(Faulty, match="the events store is not offered"):
        sdk.do("create", kind="events_store", channel="made")
    assert sdk.do("list", kind="events_store") == []
    with Subscribed(broker, listening(sdk, "L", "listed.*"), answering(sdk, "Q", "queries", "listed.q")):
        sdk.do("send", events=[{"channel": "listed.x", "body": "1"}])
        sdk.heard("L")
        assert sdk.do("list", kind="events", search="listed") == [["listed.*", True, 1]]
        assert sdk.do("list", kind="queries", search="list*q") == [["listed.q", True, 0]]
        assert sdk.do("list", kind="commands") == []


def test_a_broker_that_is_restarted(brokers: Brokers) -> None:
    """Its subscribers come back by themselves, or, with 2.4.0, when its user asks again."""
    port = free_port()
    door = f'doors.kubemq = ["127.0.0.1:{port}"]\n'
    broker = brokers.start(door, observed=True)
    sdks = [Sdk(name) for name in SDKS]
    for sdk in sdks:
        sdk.begin("connect", address=f"127.0.0.1:{port}")
    for sdk in sdks:
        sdk.end()
        sdk.do("subscribe", name="R", channel="r.*")
    await_consumers(broker, len(sdks))
    broker.stop()
    for sdk in sdks:
        assert sdk.failed("R")
    broker = brokers.start(door, observed=True)
    await_consumers(broker, len(sdks))
    with RawClient(broker.port) as nats:
        nats.connect(user="kubemq")
        nats.talk(b"PUB r.x 4\r\nback\r\n")
    for sdk in sdks:
        assert sdk.heard("R")[0]["body"] == "back"
        sdk.do("close")
        sdk.close()
    broker.stop()
