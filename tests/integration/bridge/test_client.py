"""The Python clients of the bridge, asyncio's and the blocking one, and `fumarole bridge status`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import aio_pika
import pytest

from fumarole.bridge import (
    BlockingBridgeClient,
    BridgeClient,
    BridgeClosedError,
    BridgeError,
    BridgeRefusedError,
    Message,
)
from tests.integration.bridge.bridges import RunningBridge, make_keys
from tests.integration.bridge.conftest import StartBridge
from tests.ports import free_port

Channel = aio_pika.abc.AbstractChannel


async def test_messages_as_an_iterator(bridge: RunningBridge) -> None:
    async with BridgeClient(bridge.endpoint, direct="it-direct", topics=["it.#"]) as client:
        when, price = datetime(2026, 1, 31, 12, tzinfo=UTC), Decimal("12.50")
        await client.send("amq.topic", "it.a", "hi", headers={"at": [when], "price": price}, timestamp=when, type="t")
        await client.send("amq.direct", "it-direct", b"direct")
        await client.flush()
        messages = [await anext(client), await anext(client)]
    assert sorted(messages, key=lambda message: message.key) == [
        Message("it-direct", b"direct"),
        Message("it.a", b"hi", {"timestamp": when, "type": "t"}, {"at": [when], "price": price}),
    ]
    with pytest.raises(StopAsyncIteration):
        await anext(client)
    with pytest.raises(BridgeClosedError):
        await client.send("amq.topic", "it.a")


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_messages_to_a_handler(bridge: RunningBridge, kind: str) -> None:
    heard: asyncio.Queue[Message] = asyncio.Queue()

    async def later(message: Message) -> None:
        await asyncio.sleep(0)
        heard.put_nowait(message)

    handler = heard.put_nowait if kind == "plain" else later
    async with BridgeClient(bridge.endpoint, topics=["handled"], handler=handler) as client:
        for number in range(10):
            await client.send("amq.topic", "handled", b"%d" % number)
        async with asyncio.timeout(5):
            assert [(await heard.get()).payload for _ in range(10)] == [b"%d" % number for number in range(10)]


async def test_calls(bridge: RunningBridge, channel: Channel) -> None:
    """A plain AMQP consumer answers with reply-to and correlation-id, and so do clients of the bridge."""
    queue = await channel.declare_queue(exclusive=True)
    await queue.bind("amq.topic", "sum.*")

    async def answer(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        reply = aio_pika.Message(message.body + b" from AMQP", correlation_id=message.correlation_id)
        await channel.default_exchange.publish(reply, message.reply_to or "")

    await queue.consume(answer, no_ack=True)
    async with BridgeClient(bridge.endpoint) as caller, BridgeClient(bridge.endpoint, topics=["sum.both"]) as responder:
        (one,) = await caller.call("amq.topic", "sum.one", b"1", replies=1)
        assert one.payload == b"1 from AMQP"
        both = asyncio.create_task(caller.call("amq.topic", "sum.both", b"2", replies=2, app_id="caller"))
        question = await anext(responder)
        assert question.properties["app_id"] == "caller"
        await responder.reply(question, b"2 from ZeroMQ")
        assert sorted(reply.payload for reply in await both) == [b"2 from AMQP", b"2 from ZeroMQ"]
        all_of_them = await caller.call("amq.topic", "sum.one", b"3", timeout=0.3)
        assert [reply.payload for reply in all_of_them] == [b"3 from AMQP"]
        many = await asyncio.gather(*(caller.call("amq.topic", "sum.one", b"%d" % n, replies=1) for n in range(50)))
        assert [reply.payload for (reply,) in many] == [b"%d from AMQP" % number for number in range(50)]
        with pytest.raises(BridgeRefusedError, match="no receiver"):
            await caller.call("amq.topic", "nobody.hears", b"", timeout=30)
        for replies, seconds in ((0, 1.0), (-1, 1.0), (1, 0.0), (1, -5.0), (1, 1e300), (10**12, 1.0)):
            with pytest.raises(BridgeRefusedError, match=r"replies is a whole|timeout is seconds"):
                await caller.call("amq.topic", "sum.one", b"", replies, seconds)


async def test_what_is_refused_is_said_by_flush(bridge: RunningBridge) -> None:
    async with BridgeClient(bridge.endpoint) as client:
        await client.send("no-such-exchange", "key")
        with pytest.raises(BridgeRefusedError, match="there is no exchange 'no-such-exchange'"):
            await client.flush()
        await client.flush()


async def test_topics_come_and_go(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--topics", "offered.#")
    with pytest.raises(BridgeRefusedError, match="not within what this bridge offers"):
        await BridgeClient(bridge.endpoint, topics=["other"]).open()
    async with BridgeClient(bridge.endpoint, topics=["offered.a"]) as client:
        await client.bind("offered.b")
        with pytest.raises(BridgeRefusedError):
            await client.bind("other")
        await client.unbind("offered.a")
        await client.flush()
        assert (await client.status())["bindings"]["topic"] == ["offered.#", "offered.b"]
    bridge.wait_for(lambda status: status["routes"]["count"] == 0)


async def test_binds_are_renewed(start_bridge: StartBridge) -> None:
    bridge = start_bridge("--ttl", "400ms")
    async with BridgeClient(bridge.endpoint, topics=["renewed"], renew=0.1) as client:
        for number in range(12):
            await client.send("amq.topic", "renewed", b"%d" % number)
            async with asyncio.timeout(2):
                assert (await anext(client)).payload == b"%d" % number
            await asyncio.sleep(0.1)


async def test_a_bridge_that_comes_back_knows_the_client_again(start_bridge: StartBridge) -> None:
    """Without waiting for the next renewal."""
    port = free_port()
    first = start_bridge("--router", f"tcp://127.0.0.1:{port}")
    async with BridgeClient(first.endpoint, topics=["again"], renew=1000) as client:
        first.stop()
        second = start_bridge("--router", f"tcp://127.0.0.1:{port}")
        await asyncio.to_thread(second.wait_for, lambda status: status["bindings"]["topic"] == ["again"])
        await client.send("amq.topic", "again", b"1")
        async with asyncio.timeout(5):
            assert (await anext(client)).payload == b"1"


async def send_without_end(client: BridgeClient) -> None:
    while True:
        await client.send("amq.topic", "elsewhere", b"")


async def test_binds_are_renewed_after_a_time_in_which_nothing_could_be_told(
    start_bridge: StartBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fumarole.bridge.client.SEND_MS", 100)
    port = free_port()
    first = start_bridge("--router", f"tcp://127.0.0.1:{port}")
    async with BridgeClient(first.endpoint, topics=["long.gone"], renew=0.2) as client:
        first.stop()
        with pytest.raises(BridgeError, match="takes nothing"):
            await send_without_end(client)
        await asyncio.sleep(0.5)  # of which renewals know
        second = start_bridge("--router", f"tcp://127.0.0.1:{port}", "--ttl", "1")
        await asyncio.to_thread(second.wait_for, lambda status: status["bindings"]["topic"] == ["long.gone"])
        await asyncio.sleep(2.5)
        assert second.status()["bindings"]["topic"] == ["long.gone"]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_an_open_that_is_given_up_leaves_nothing_behind() -> None:
    port = free_port()
    tasks, files = asyncio.all_tasks(), open_files()
    for _ in range(5):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(BridgeClient(f"tcp://127.0.0.1:{port}", topics=["a"]).open(), 0.05)
    assert asyncio.all_tasks() == tasks
    assert open_files() <= files + 2


async def test_no_bridge_there() -> None:
    port = free_port()
    with pytest.raises(BridgeError, match=r"no bridge answers at tcp://127.0.0.1:\d+ within 0.3 s"):
        await BridgeClient(f"tcp://127.0.0.1:{port}", timeout=0.3).open()
    with pytest.raises(BridgeError, match="cannot use nonsense"):
        await BridgeClient("nonsense").open()


def test_the_blocking_client(bridge: RunningBridge) -> None:
    with BlockingBridgeClient(bridge.endpoint, topics=["blocking.#"]) as client:
        client.send("amq.topic", "blocking.a", "1", content_type="text/plain")
        client.flush()
        message = client.receive(5)
        assert (message.key, message.payload, message.properties) == (
            "blocking.a",
            b"1",
            {"content_type": "text/plain"},
        )
        with pytest.raises(TimeoutError):
            client.receive(0.05)
        client.bind("more.blocking")

        def respond() -> None:
            for question in client:
                client.reply(question, question.payload * 2)
                return

        responder = threading.Thread(target=respond)
        responder.start()
        with BlockingBridgeClient(bridge.endpoint) as caller:
            assert [reply.payload for reply in caller.call("amq.topic", "more.blocking", b"ab", replies=1)] == [b"abab"]
            assert caller.status()["broker"]["state"] == "connected"
        responder.join()
        client.unbind("more.blocking")
    with pytest.raises(BridgeClosedError):
        client.flush()
    with pytest.raises(BridgeError, match="no bridge answers"):
        BlockingBridgeClient(f"tcp://127.0.0.1:{free_port()}", timeout=0.2).open()


async def test_with_curve_keys(start_bridge: StartBridge, tmp_path: Path) -> None:
    keys, own, shared = (make_keys(tmp_path, name, name != "shared") for name in ("bridge", "own", "shared"))
    bridge = start_bridge("--curve-key", keys.secret)
    for own_key in (None, own.secret):
        async with BridgeClient(bridge.endpoint, topics=["curve"], bridge_key=keys.public, own_key=own_key) as client:
            await client.send("amq.topic", "curve", b"1")
            assert (await anext(client)).payload == b"1"
    with pytest.raises(BridgeError, match=r"open to other users \(mode 0644\)"):
        await BridgeClient(bridge.endpoint, bridge_key=keys.public, own_key=shared.secret).open()
    with pytest.raises(BridgeError, match="has no CURVE key"):
        await BridgeClient(bridge.endpoint, bridge_key=tmp_path / "none").open()
    with pytest.raises(BridgeError, match="no bridge answers"):
        await BridgeClient(bridge.endpoint, timeout=0.5).open()


async def test_status_on_the_command_line(bridge: RunningBridge) -> None:
    async with BridgeClient(bridge.endpoint, direct="shown-direct", topics=["shown.#"]):
        command = [sys.executable, "-m", "fumarole.cli.main", "bridge", "status", "--router", bridge.endpoint]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True, timeout=20)
        for text in ("connected", "shown.#", "shown-direct", "seconds left", "published"):
            assert text in done.stdout
        assert "guest" not in done.stdout
        done = await asyncio.to_thread(
            subprocess.run, [*command, "--json"], capture_output=True, text=True, check=True, timeout=20
        )
        status = json.loads(done.stdout)
        routes = {(each["kind"], each["key"]): each["seconds"] for each in status["routes"]["shown"]}
        assert 50 < routes["topic", "shown.#"] <= 60
        assert "shown-direct" in status["bindings"]["direct"]


def test_status_of_no_bridge() -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "fumarole.cli.main", "bridge", "status", "--router", endpoint, "--timeout", "0.3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no bridge answers" in done.stderr
    assert "Traceback" not in done.stderr
