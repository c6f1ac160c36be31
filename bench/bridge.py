"""Messages a second through the bridge, beside a bare aio-pika consumer or publisher at the same RabbitMQ.

The bare ones do what aio-pika's guide shows: `exchange.publish` in a loop without confirmations, and a callback for
each message without acknowledgements. On the other side of both is the same: towards the consumer a publisher that
writes frames made beforehand, behind the publisher a queue that is counted. All have a process of their own and run on
uvloop.

    python bench/bridge.py PART ARGUMENTS…      the parts, each in a process: see `PARTS`
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aio_pika
import msgpack
import uvloop
import zmq
import zmq.asyncio
from aiormq.abc import ChannelFrame

from bench.effort import Effort
from bench.figures import Figure, against
from bench.servers import COMMANDS, CannotMeasureError
from fumarole.bridge.frames import publication
from fumarole.bridge.xmq_routes import Routes
from fumarole.core.topic import matches, parse_amqp, split_amqp

MESSAGES = 4_000
SIZE = 128
BATCH = 250
ROUTES = 10_000
TOPICS_EACH = 1_000
LOOKUPS = 100_000
WANTED, WANTED_WITH_ROUTES, WANTED_LOOKUP = 0.8, 0.7, 20.0
CLAIM = f"Bridge, {SIZE} B, messages a second"
BARE = "bare aio-pika"
KEY = "bench.key"
PAYLOAD = bytes(SIZE)
SECONDS = 60.0
"""For one load."""


def measure(effort: Effort) -> Iterator[Figure]:
    count = effort.share(MESSAGES)
    with ExitStack() as stack:
        url = stack.enter_context(_rabbitmq())
        router = stack.enter_context(_bridge(url))
        crowded = stack.enter_context(_bridge(url, "--topic-exchange", "bench.crowded"))
        stack.enter_context(_process("crowd", crowded, str(ROUTES)))
        ways = {
            f"AMQP to ZeroMQ, {BARE}": ("take-amqp", url, "amq.topic"),
            "AMQP to ZeroMQ": ("take-zeromq", router, "amq.topic"),
            f"AMQP to ZeroMQ, {ROUTES:,} topic routes": ("take-zeromq", crowded, "bench.crowded"),
            f"ZeroMQ to AMQP, {BARE}": ("give-amqp", url, "amq.topic"),
            "ZeroMQ to AMQP": ("give-zeromq", router, "amq.topic"),
            f"ZeroMQ to AMQP, {ROUTES:,} topic routes": ("give-zeromq", crowded, "bench.crowded"),
        }
        best = dict.fromkeys(ways, 0.0)
        for turn in range(effort.rounds):
            for name, (part, place, exchange) in ways.items():
                effort.tell(f"{name}, round {turn + 1}")
                best[name] = max(best[name], count / _timed(part, place, url, exchange, count))
        for name in ways:
            direction, _, rest = name.partition(", ")
            if rest != BARE:
                wanted = WANTED_WITH_ROUTES if rest else WANTED
                bare = best[f"{direction}, {BARE}"]
                yield against(BARE, CLAIM, name, best[name], bare, "/s", at_least=wanted)
    effort.tell("looking keys up")
    yield _lookup(effort)


def _lookup(effort: Effort) -> Figure:
    """Keys among many routes, by the table and one by one with the definition."""
    routes = Routes(time.monotonic)
    patterns = [f"site.{number % 1000}.*.{number}.#" for number in range(LOOKUPS)]
    for pattern in patterns:
        routes.add_topic(pattern, pattern, time.monotonic() + 3600)
    parsed = [parse_amqp(pattern) for pattern in patterns]
    keys = [f"site.{number % 1000}.x.{number}.y" for number in range(0, LOOKUPS, LOOKUPS // 200)]
    begin = time.perf_counter()
    found = [len(routes.get_topic(key)) for key in keys]
    ours = len(keys) / (time.perf_counter() - begin)
    few = keys[: 2 if effort.quick else 5]
    begin = time.perf_counter()
    slow = [sum(matches(pattern, split_amqp(key)) for pattern in parsed) for key in few]
    one_by_one = len(few) / (time.perf_counter() - begin)
    if slow != found[: len(few)]:
        raise CannotMeasureError("the table and the definition do not agree")
    name = f"keys looked up among {LOOKUPS:,} routes"
    return against("one by one", "Bridge, routes", name, ours, one_by_one, "/s", at_least=WANTED_LOOKUP)


def _timed(part: str, place: str, url: str, exchange: str, count: int) -> float:
    with _process(part, place, url, exchange, str(count)) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise CannotMeasureError(f"bench/bridge.py {part} ended: messages were lost, or it could not start")
        return float(json.loads(line))


@contextmanager
def _process(part: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, __file__, part, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if part == "crowd" and not process.stdout.readline():
            raise CannotMeasureError("the crowd of clients could not bind its topics")
        yield process
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def _rabbitmq() -> Iterator[str]:
    from tests.integration.bridge.rabbitmq import RabbitMq

    with tempfile.TemporaryDirectory() as folder:
        try:
            server = RabbitMq(Path(folder))
        except AssertionError as error:
            raise CannotMeasureError(str(error)) from None
        try:
            yield server.url
        finally:
            server.close()


@contextmanager
def _bridge(url: str, *flags: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        command = [str(COMMANDS / "fumarole"), "bridge", "--amqp", url, "--router", "tcp://127.0.0.1:*"]
        command += ["--log-level", "error", "--waiting", "100000", "--ready-file", str(ready), *flags]
        process = subprocess.Popen(command)
        try:
            deadline = time.monotonic() + 20
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise CannotMeasureError("the bridge did not start")
                time.sleep(0.02)
            yield ready.read_text().strip()
        finally:
            process.terminate()
            process.wait()


# The parts.


async def _publish_quickly(url: str, exchange: str, count: int) -> None:
    """Frames made beforehand, so that the receiver is what is measured."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel: Any = await (await connection.channel(publisher_confirms=False)).get_underlay_channel()
        frame = publication(channel.number, exchange.encode(), KEY.encode(), b"\x00\x00", PAYLOAD, 131_072)
        print("ready", flush=True)
        for at in range(0, count, BATCH):
            drained = asyncio.get_running_loop().create_future()
            await channel.write_queue.put(ChannelFrame(frame * min(BATCH, count - at), False, drained))
            await drained


async def _take_amqp(_: str, url: str, exchange: str, count: int) -> float:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, KEY)
        taken, done = 0, asyncio.Event()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            nonlocal taken
            taken += len(message.body) == SIZE
            if taken == count:
                done.set()

        await queue.consume(take, no_ack=True)
        return await _while_publishing(url, exchange, count, done.wait())


async def _take_zeromq(endpoint: str, url: str, exchange: str, count: int) -> float:
    socket = await _dealer(endpoint)
    await socket.send_multipart([b"bind", b"", KEY.encode()])
    await socket.send_multipart([b"flush", b"1"])
    assert await socket.recv_multipart() == [b"done", b"1"]
    plain: Any = zmq.Socket.shadow(socket.underlying)

    async def take() -> None:
        taken = 0
        while taken < count:
            kind, _, message = await socket.recv_multipart()
            taken += kind == b"msg" and len(message) > SIZE
            while taken < count:
                try:
                    plain.recv_multipart(zmq.NOBLOCK)
                    taken += 1
                except zmq.Again:
                    break

    seconds = await _while_publishing(url, exchange, count, take())
    await socket.send_multipart([b"unbind", b"", KEY.encode()])
    await socket.send_multipart([b"flush", b"2"])
    await socket.recv_multipart()
    return seconds


async def _while_publishing(url: str, exchange: str, count: int, taking: Any) -> float:
    publisher = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "publish", url, url, exchange, str(count), stdout=asyncio.subprocess.PIPE
    )
    assert publisher.stdout is not None
    await publisher.stdout.readline()  # it is about to begin
    begin = time.perf_counter()
    async with asyncio.timeout(SECONDS):
        await taking
    seconds = time.perf_counter() - begin
    await publisher.communicate()
    return seconds


async def _give_amqp(_: str, url: str, exchange: str, count: int) -> float:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=False)
        target = await channel.get_exchange(exchange)

        async def give() -> None:
            for _ in range(count):
                await target.publish(aio_pika.Message(PAYLOAD), KEY, mandatory=False)

        return await _until_counted(url, exchange, count, give())


async def _give_zeromq(endpoint: str, url: str, exchange: str, count: int) -> float:
    socket = await _dealer(endpoint)
    message = msgpack.packb({"payload": PAYLOAD, "properties": {}, "headers": {}})

    async def give() -> None:
        for _ in range(count):
            await socket.send_multipart([b"send", exchange.encode(), KEY.encode(), message])

    return await _until_counted(url, exchange, count, give())


async def _until_counted(url: str, exchange: str, count: int, giving: Any) -> float:
    """A queue without a consumer has everything in it: counting takes the broker nothing."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, KEY)
        begin = time.perf_counter()
        async with asyncio.timeout(SECONDS):
            await giving
            while (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count != count:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return time.perf_counter() - begin


async def _dealer(endpoint: str) -> Any:
    socket: Any = zmq.asyncio.Context.instance().socket(zmq.DEALER)
    for option in (zmq.SNDHWM, zmq.RCVHWM):
        socket.setsockopt(option, 100_000)
    socket.setsockopt(zmq.LINGER, 0)
    socket.connect(endpoint)
    return socket


async def _crowd(endpoint: str, routes: int) -> None:
    sockets = [await _dealer(endpoint) for _ in range(0, routes, TOPICS_EACH)]
    while True:
        for number, socket in enumerate(sockets):
            topics = [b"crowd.%d.%d.#" % (number, topic) for topic in range(TOPICS_EACH)]
            await socket.send_multipart([b"bind", b"", *topics])
            await socket.send_multipart([b"flush", b"1"])
            while (await socket.recv_multipart())[0] != b"done":
                await asyncio.sleep(0.1)
                await socket.send_multipart([b"flush", b"1"])
        print("bound", flush=True)
        await asyncio.sleep(15)


async def _publish(_: str, url: str, exchange: str, count: int) -> float:
    await _publish_quickly(url, exchange, count)
    return 0.0


PARTS = {
    "take-amqp": _take_amqp,
    "take-zeromq": _take_zeromq,
    "give-amqp": _give_amqp,
    "give-zeromq": _give_zeromq,
    "publish": _publish,
}


def main() -> None:
    part, place, *rest = sys.argv[1:]
    if part == "crowd":
        uvloop.run(_crowd(place, int(rest[0])))
        return
    url, exchange, count = rest
    print(json.dumps(uvloop.run(PARTS[part](place, url, exchange, int(count)))), flush=True)


if __name__ == "__main__":
    main()
