"""The MQTT door beside Mosquitto and the MQTT of nats-server: messages a second, latency, and what many clients cost.

The loads keep a window of messages under way, so that none is lost (bench/load/mqtt.c). One row has no window: rates
rise by half until the first message is lost, and the highest without a loss counts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.effort import Effort
from bench.figures import PEER, Figure, against, within
from bench.generator import MqttCrowd, MqttLoad, mqtt_crowd, run_mqtt, run_mqtt_latency
from bench.servers import COMPILED, PLAIN, Server, fumarole, mosquitto, nats_server
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
    name = "one to one, 128 B"
    effort.tell("plain Python")
    with _ours(PLAIN) as (_, port):
        plain = run_mqtt(port, LOADS[name]._replace(messages=effort.share(LOADS[name].messages // 10))).rate
    yield against(PLAIN, CLAIM, f"{name}, compiled", best[name], plain, "/s", at_least=20.0)


@contextmanager
def _ours(form: str = COMPILED) -> Iterator[tuple[Server, int]]:
    """Our broker, and its port for MQTT."""
    port = free_port()
    with fumarole(form, "--mqtt", f"127.0.0.1:{port}") as server:
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
    note = f"{MOSQUITTO}: {memory[MOSQUITTO] / 1024:.1f} KiB each."
    yield within(IDLE, CLAIM, f"memory of each of {count:,} idle clients", memory[COMPILED], "KiB", note)
