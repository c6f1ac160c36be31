"""Events a second through the KubeMQ door: in through SendEventsStream, out through SubscribeToEvents.

Once from a client that is not the limit (bench/grpc_load.py), beside the rate that is wanted. And once from a Python
client of grpc.aio, which is the limit, beside a bare grpc.aio echo of the same messages to the same client, both on
uvloop. All clients wait for what they have sent once so many events are under way: none is lost. Its processes:

    python bench/kubemq.py echo                          prints its port, and echoes until it is ended
    python bench/kubemq.py load PORT echo|broker COUNT   prints the seconds that so many events took
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import grpc
import uvloop

from bench.effort import Effort
from bench.figures import Figure, against
from bench.generator import Load, run_load
from bench.servers import COMPILED, PLAIN, CannotMeasureError, fumarole
from fumarole.protocols.kubemq_pb2 import Event, EventReceive, Subscribe
from tests.ports import free_port

EVENTS = 4_000
TURNS = 3
"""In a round: short ones, because one that nothing disturbs is rarer the longer it is."""
SIZE = 128
UNDER_WAY = 500
"""Fewer than fill an outbox: nothing is dropped, and the client would see it if something were."""
WANTED = 0.7
FRAMES = 60_000
FAST = 60_000
"""Events a second that are wanted where no client is the limit."""
ECHO = "grpc.aio echo"
CLAIM = f"KubeMQ door, {SIZE} B, events a second"
NATS_LOAD = Load(200_000, size=SIZE, window=1_000)


def measure(effort: Effort) -> Iterator[Figure]:
    count = effort.share(EVENTS)
    with _echo() as echo, _broker(COMPILED) as (nats, compiled), _broker(PLAIN) as (_, plain):
        ports = {ECHO: (echo, "echo"), COMPILED: (compiled, "broker"), PLAIN: (plain, "broker")}
        rates: dict[str, list[float]] = {name: [] for name in ports}
        for turn in range(effort.rounds * TURNS):
            for name, (port, kind) in ports.items():
                effort.tell(f"{name}, round {turn // TURNS + 1}")
                rates[name].append(count / _load(port, kind, count))
        for name, port in ((COMPILED, compiled), (PLAIN, plain)):
            effort.tell(f"frames made in advance, {name}")
            fast = [_frames(port, effort.share(FRAMES)) for _ in range(effort.rounds)]
            row, rounds = f"a client that is not the limit, {name}", [rate / FAST for rate in fast]
            yield against("wanted", CLAIM, row, max(fast), FAST, "/s", at_least=1.0, rounds=rounds)
        for name in (COMPILED, PLAIN):
            own, theirs = rates[name], rates[ECHO]
            rounds = [mine / other for mine, other in zip(own, theirs, strict=True)]
            row = f"stream to subscription, {name}"
            yield against(ECHO, CLAIM, row, max(own), max(theirs), "/s", at_least=WANTED, rounds=rounds)
        effort.tell("a NATS load at the same time")
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(_load, compiled, "broker", count)
            run = run_load(nats, NATS_LOAD._replace(messages=effort.share(NATS_LOAD.messages)))
            beside.result()
        name = "NATS messages delivered meanwhile"
        yield against("published", CLAIM, name, run.delivered, run.published, "", at_least=1.0)


@contextmanager
def _broker(form: str) -> Iterator[tuple[int, int]]:
    """Our broker's two ports: NATS and KubeMQ."""
    free = free_port()
    with fumarole(form, "--kubemq", f"127.0.0.1:{free}") as server:
        yield server.port, free


@contextmanager
def _echo() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, __file__, "echo"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _load(port: int, kind: str, count: int) -> float:
    command = [sys.executable, __file__, "load", str(port), kind, str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise CannotMeasureError(f"the load through gRPC: {ended.stderr.strip()[-500:]}")
    return float(ended.stdout)


def _frames(port: int, count: int) -> float:
    """Events a second, from frames made in advance."""
    command = [sys.executable, str(Path(__file__).with_name("grpc_load.py")), str(port), str(count), str(SIZE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise CannotMeasureError(f"the load of frames: {ended.stderr.strip()[-500:]}")
    return count / float(ended.stdout)


# In processes of their own.


async def echo() -> None:
    """A server that does nothing else."""

    async def each(_events: object, context: Any) -> None:
        while (event := await context.read()) is not grpc.aio.EOF:
            await context.write(event)

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(each, Event.FromString, Event.SerializeToString)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def load(port: int, kind: str, count: int) -> None:
    """Sends so many events, reads them all again, in order, and prints how long it took."""
    out: Any
    back: Any
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        if kind == "echo":
            out = back = channel.stream_stream("/bench/Echo", Event.SerializeToString, Event.FromString)()
        else:
            subscribe = channel.unary_stream(
                "/kubemq.kubemq/SubscribeToEvents", Subscribe.SerializeToString, EventReceive.FromString
            )
            subscription = Subscribe(SubscribeTypeData=Subscribe.Events, ClientID="bench", Channel="volcanoes.*")
            back = subscribe(subscription)
            await back.initial_metadata()
            out = channel.stream_stream("/kubemq.kubemq/SendEventsStream", Event.SerializeToString, lambda data: data)()
        room = asyncio.Semaphore(UNDER_WAY)
        began = time.perf_counter()
        sending = asyncio.create_task(_send(out, room, count))
        for number in range(count):
            event = await asyncio.wait_for(back.read(), 30)
            if event.EventID != str(number) or len(event.Body) != SIZE:
                raise SystemExit(f"event {event.EventID} came in place of {number}")
            room.release()
        print(time.perf_counter() - began)
        await sending
        out.cancel()
        back.cancel()


async def _send(out: Any, room: asyncio.Semaphore, count: int) -> None:
    event = Event(ClientID="bench", Channel="volcanoes.atka", Body=b"x" * SIZE)
    for number in range(count):
        await room.acquire()
        event.EventID = str(number)
        await out.write(event)


if __name__ == "__main__":
    uvloop.run(echo() if sys.argv[1] == "echo" else load(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
