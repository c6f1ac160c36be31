"""The MQTT door beside Mosquitto and the MQTT of nats-server: messages a second, latency, and what many clients cost.

The loads keep a window of messages under way, so that none is lost (bench/load/mqtt.c). One row has no window: rates
rise by half until the first message is lost, and the highest without a loss counts.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.effort import Effort
from bench.figures import PEER, Figure, against, within
from bench.generator import MqttCrowd, MqttLoad, mqtt_crowd, run_mqtt, run_mqtt_latency
from bench.servers import COMPILED, PATIENCE, PLAIN, CannotMeasureError, Server, fumarole, mosquitto, nats_server
from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import Packet
from fumarole.protocols.mqtt_packets import V3, Connect, Filter, Publish, Subscribe
from tests.ports import free_port

CLAIM = "MQTT door"
MOSQUITTO = "Mosquitto"
LOADS = {
    "one to one, 16 B": MqttLoad(150_000),
    "one to one, 16 B, version 5": MqttLoad(150_000, version=5),
    "one to one, 128 B": MqttLoad(150_000, size=128, topics=1_000),
    "fan-out to 10, 128 B": MqttLoad(20_000, size=128, consumers=10),
    "shared by 4, 128 B": MqttLoad(100_000, size=128, consumers=4, group="sharing"),
    "100 publishers, 100 consumers, 128 B": MqttLoad(500, size=128, publishers=100, consumers=100, window=500),
    "QoS 1, one to one, 128 B": MqttLoad(40_000, size=128, qos=1, window=400),
}
WANTED = {"QoS 1, one to one, 128 B": 3.0, "100 publishers, 100 consumers, 128 B": 10.0}
WANTED_ELSE = 25.0
BESIDE_NATS = ("one to one, 16 B", "one to one, 128 B", "fan-out to 10, 128 B")
WANTED_BESIDE_NATS = 4.0
OURS_AGAIN = 5
"""Ours gets so many times the messages: a run of milliseconds says little."""
FIRST_RATE = 20_000
STEP = 1.5
RATE_SECONDS = 0.5
ROUNDS_OF_LATENCY = 4_000
CLIENTS = 5_000
IDLE = 5 * 1024
"""Bytes of an idle client with one subscription."""
CONNECTS = 6_000.0
RETAINED = 1_000_000
FIRST_WITHIN = 50.0
"""Milliseconds."""
RETAINED_RATE = 500_000.0


def measure(effort: Effort) -> Iterator[Figure]:
    with _ours() as (ours, port), mosquitto() as peer, _nats() as nats:
        ports = {COMPILED: port, MOSQUITTO: peer.port, PEER: nats}
        best: dict[str, float] = {}
        for name, load in LOADS.items():
            rates = _rates(ports, name, load, effort)
            wanted = WANTED.get(name, WANTED_ELSE)
            best[name] = max(rates[COMPILED])
            yield _row(MOSQUITTO, name, rates, wanted)
            if name in BESIDE_NATS:
                yield _row(PEER, f"{name}, beside nats-server's", rates, WANTED_BESIDE_NATS)
        effort.tell("rates that rise until the first loss")
        risen = {name: _highest_rate(ports[name], effort) for name in (COMPILED, MOSQUITTO)}
        name = "128 B, the highest rate offered without a loss"
        yield against(MOSQUITTO, CLAIM, name, risen[COMPILED], risen[MOSQUITTO], "/s", at_least=10.0)
        yield from _latency(ports, effort)
        yield from _crowd(ours, port, peer, effort)
    yield from _retained(effort)
    name = "one to one, 128 B"
    effort.tell("plain Python")
    with _ours(PLAIN) as (_, port):
        plain = run_mqtt(port, LOADS[name]._replace(messages=effort.share(LOADS[name].messages // 10))).rate
    yield against(PLAIN, CLAIM, f"{name}, compiled", best[name], plain, "/s", at_least=20.0)


@contextmanager
def _ours(form: str = COMPILED, *flags: str) -> Iterator[tuple[Server, int]]:
    """Our broker, and its port for MQTT."""
    port = free_port()
    with fumarole(form, "--mqtt", f"127.0.0.1:{port}", *flags) as server:
        yield server, port


@contextmanager
def _nats() -> Iterator[int]:
    """The port of nats-server for MQTT, which it has only with a store."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "nats.conf"
        settings.write_text(
            f'server_name: bench\njetstream {{ store_dir: "{folder}/store" }}\n'
            f'mqtt {{ host: "127.0.0.1", port: {port} }}\n'
        )
        with nats_server("-c", str(settings)):
            yield port


def _rates(ports: dict[str, int], name: str, load: MqttLoad, effort: Effort) -> dict[str, list[float]]:
    """Messages published a second in every round, by server."""
    rates: dict[str, list[float]] = {server: [] for server in ports}
    for turn in range(effort.rounds):
        for server, port in ports.items():
            if server == PEER and name not in BESIDE_NATS:
                continue
            effort.tell(f"{name}: {server}, round {turn + 1}")
            messages = effort.share(load.messages) * (OURS_AGAIN if server == COMPILED else 1)
            rates[server].append(run_mqtt(port, load._replace(messages=max(messages, load.publishers))).rate)
    return rates


def _row(peer: str, name: str, rates: dict[str, list[float]], wanted: float) -> Figure:
    rounds = [own / theirs for own, theirs in zip(rates[COMPILED], rates[peer], strict=True)]
    return against(peer, CLAIM, name, max(rates[COMPILED]), max(rates[peer]), "/s", at_least=wanted, rounds=rounds)


def _highest_rate(port: int, effort: Effort) -> float:
    """Messages a second that were offered, and all came."""
    best, rate = 0.0, float(FIRST_RATE)
    while True:
        effort.tell(f"{rate:,.0f} messages a second are offered")
        messages = int(rate * RATE_SECONDS)
        run = run_mqtt(port, MqttLoad(messages, size=128, rate=int(rate)))
        if run.delivered < run.published or run.published / run.seconds < rate * 0.8:
            return best
        best, rate = run.delivered / run.seconds, rate * STEP


def _latency(ports: dict[str, int], effort: Effort) -> Iterator[Figure]:
    found: dict[str, list[float]] = {COMPILED: [], MOSQUITTO: []}
    for _ in range(effort.rounds):
        for server, each in found.items():
            effort.tell(f"latency: {server}")
            each.append(run_mqtt_latency(ports[server], effort.share(ROUNDS_OF_LATENCY)).p50)
    ours, theirs = min(found[COMPILED]), min(found[MOSQUITTO])
    rounds = [own / beside for own, beside in zip(found[COMPILED], found[MOSQUITTO], strict=True)]
    yield against(MOSQUITTO, CLAIM, "two hops, p50", ours, theirs, "µs", at_most=1.0, rounds=rounds)


def _crowd(ours: Server, port: int, peer: Server, effort: Effort) -> Iterator[Figure]:
    """A storm of connects, and then the memory of those who are there."""
    count = effort.share(CLIENTS)
    rates: dict[str, list[float]] = {COMPILED: [], MOSQUITTO: []}
    memory: dict[str, float] = {}
    for turn in range(min(effort.rounds, 3)):
        for name, server, at in ((COMPILED, ours, port), (MOSQUITTO, peer, peer.port)):
            effort.tell(f"{count:,} clients connect: {name}, round {turn + 1}")
            before = server.resident()
            with mqtt_crowd(MqttCrowd(at, count)) as seconds:
                rates[name].append(count / seconds)
                memory.setdefault(name, (server.resident() - before) / count)
    name = "clients that connect and subscribe"
    rounds = [own / theirs for own, theirs in zip(rates[COMPILED], rates[MOSQUITTO], strict=True)]
    best = max(rates[COMPILED]), max(rates[MOSQUITTO])
    yield against(MOSQUITTO, CLAIM, name, *best, "/s", at_least=1.0, rounds=rounds)
    yield against("wanted", CLAIM, f"{name}, beside what is wanted", best[0], CONNECTS, "/s", at_least=1.0)
    note = f"{MOSQUITTO}: {memory[MOSQUITTO] / 1024:.1f} KiB each."
    yield within(IDLE, CLAIM, f"memory of each of {count:,} idle clients", memory[COMPILED], "KiB", note)


def _retained(effort: Effort) -> Iterator[Figure]:
    """What a subscriber to `#` gets where very much is retained: how soon the first message, and how many a second."""
    count = effort.share(RETAINED)
    firsts, rates = [], []
    with _ours(COMPILED, "--limits-quota-retained-bytes", "1 GiB") as (ours, port):
        effort.tell(f"{count:,} messages are retained")
        total = _retain(port, count)
        _wait_until_idle(ours)
        for turn in range(min(effort.rounds, 3)):
            effort.tell(f"a subscriber to # with {count:,} retained, round {turn + 1}")
            first, seconds = _gather(port, total)
            firsts.append(first * 1000)
            rates.append(count / seconds)
    name = f"`#` with {count:,} retained"
    yield within(FIRST_WITHIN, CLAIM, f"{name}: the first", min(firsts), "ms")
    yield against("wanted", CLAIM, f"{name}: a second", max(rates), RETAINED_RATE, "/s", at_least=1.0)


def _retain(port: int, count: int) -> int:
    """Bytes of these messages, as a subscriber gets them."""
    total = 0
    with _connected(port) as publisher:
        for begin in range(0, count, 1_000):
            numbers = range(begin, min(begin + 1_000, count))
            said = [Publish(f"plant/{number // 1_000}/{number}", b"21.5", 0, True, False, 0, {}) for number in numbers]
            data = b"".join([packets.publish(each, V3) for each in said])
            publisher.sendall(data)
            total += len(data)
        publisher.sendall(packets.PINGREQ)
        _receive(publisher, len(packets.PINGRESP))
    return total


def _gather(port: int, total: int) -> tuple[float, float]:
    """Seconds from the SUBSCRIBE to the first message, and to the last."""
    with _connected(port) as subscriber:
        begin = time.perf_counter()
        subscriber.sendall(packets.subscribe(Subscribe(1, (Filter("#", 0),), {}), V3))
        _receive(subscriber, len(packets.acknowledged(Packet.SUBACK, V3, 1, [0])))
        _receive(subscriber, 1)
        first = time.perf_counter() - begin
        _receive(subscriber, total - 1)
        return first, time.perf_counter() - begin


def _connected(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    made.sendall(packets.connect(Connect(V3, "", True, 0, None, None, None, {})))
    _receive(made, len(packets.connack(V3)))
    return made


def _receive(peer: socket.socket, size: int) -> None:
    while size:
        data = peer.recv(min(size, 1 << 20))
        if not data:
            raise CannotMeasureError("the broker has hung up")
        size -= len(data)


def _wait_until_idle(server: Server) -> None:
    """Until what is retained has been written to disk: nothing else keeps the broker busy."""
    before = server.processor_seconds()
    while True:
        time.sleep(1.0)
        now = server.processor_seconds()
        if now - before < 0.05:
            return
        before = now
