"""The MQTT door with clients of others, with hostile ones, and between doors (Q1–Q5, L1)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumarole.protocols import mqtt_packets as packets
from fumarole.protocols.mqtt_fields import NONE
from fumarole.protocols.mqtt_packets import (
    V5,
    Acknowledged,
    Connect,
    Disconnect,
    Event,
    Filter,
    Publish,
    Subscribe,
    Will,
)
from fumarole.protocols.mqtt_reasons import Reason
from tests.integration.conftest import Authority, Brokers
from tests.integration.mqtt.raw_mqtt import PATIENCE, Raw
from tests.integration.oracle import Target, watched
from tests.integration.running import RunningBroker
from tests.ports import free_port

HERE = Path(__file__).parent
PYTHON = Path(__file__).parents[3] / "build" / "mqtt" / "bin" / "python"
DOORS = '[doors]\nmqtt = ["127.0.0.1:0"]\n'
NODE_MODULES = PYTHON.parents[1] / "node_modules"
BOTH_DOORS = '[doors]\nmqtt = ["127.0.0.1:0"]\nhttp = ["127.0.0.1:0"]\n'
TALKS = [
    ("talk_paho.py", "4"),
    ("talk_paho.py", "5"),
    ("talk_aiomqtt.py", "4"),
    ("talk_aiomqtt.py", "5"),
    ("talk_gmqtt.py", "4"),
    ("talk_gmqtt.py", "5"),
]


def port_of(broker: RunningBroker) -> int:
    (door,) = (line for line in broker.log if "MQTT door open on " in line)
    return int(door.partition("MQTT door open on ")[2].split()[0].rsplit(":", 1)[1])


def web_port_of(broker: RunningBroker) -> int:
    (door,) = (line for line in broker.log if "Web door open on " in line)
    return int(door.partition("Web door open on ")[2].split()[0].rsplit(":", 1)[1])


@pytest.fixture
def broker(brokers: Brokers, engine_name: str) -> RunningBroker:
    return brokers.share(DOORS, engine_name)


@pytest.mark.parametrize(("script", "version"), TALKS, ids=[" ".join(talk) for talk in TALKS])
def test_clients_of_others(broker: RunningBroker, script: str, version: str) -> None:
    """Each goes through what it can do, and ends with an error where it is not as it should be."""
    assert PYTHON.exists(), "there is no environment for MQTT clients: `make setup-test` makes it"
    command = [str(PYTHON), str(HERE / script), str(port_of(broker)), version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("way", ["tcp", "WebSocket"])
def test_mqtt_js(brokers: Brokers, engine_name: str, way: str, version: str) -> None:
    """Over TCP, and over WebSocket at the web door's `/mqtt` (H6)."""
    assert NODE_MODULES.exists(), "mqtt.js is not there: `make setup-test` fetches it"
    broker = brokers.share(BOTH_DOORS, engine_name)
    address = f"mqtt://127.0.0.1:{port_of(broker)}" if way == "tcp" else f"ws://127.0.0.1:{web_port_of(broker)}/mqtt"
    environment = {**os.environ, "NODE_PATH": str(NODE_MODULES)}
    command = ["node", str(HERE / "talk_mqtt_js.cjs"), address, version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def mosquitto(program: str, port: int, *options: str) -> subprocess.CompletedProcess[str]:
    command = [f"mosquitto_{program}", "-h", "127.0.0.1", "-p", str(port), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


@contextlib.contextmanager
def listening(port: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A mosquitto_sub that has had its SUBACK."""
    command = ["stdbuf", "-oL", "mosquitto_sub", "-h", "127.0.0.1", "-p", str(port), "-d", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Subscribed" in line:
                break
        yield process
        process.terminate()


@pytest.mark.parametrize("version", ["311", "5"])
def test_mosquitto(broker: RunningBroker, version: str) -> None:
    port = port_of(broker)
    with listening(port, "-V", version, "-q", "2", "-t", "volcanoes/#", "-C", "3", "-F", "got %t %p") as process:
        for qos in range(3):
            done = mosquitto("pub", port, "-V", version, "-t", "volcanoes/usa", "-m", f"{qos}", "-q", f"{qos}")
            assert done.returncode == 0, done.stderr
        said, _ = process.communicate(timeout=PATIENCE)
        assert [line for line in said.splitlines() if line.startswith("got")] == [
            f"got volcanoes/usa {qos}" for qos in range(3)
        ]


def test_mosquitto_asks_and_is_answered(broker: RunningBroker) -> None:
    """Response topic and correlation data; the one who answers is an MQTT client."""
    port = port_of(broker)
    with Raw(port, "answerer") as answerer:
        answerer.subscribe("ask")
        command = ["mosquitto_rr", "-V", "5", "-p", str(port), "-t", "ask", "-e", "answer/1", "-m", "?", "-W", "10"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            question = answerer.hear()
            assert isinstance(question, Publish)
            assert question.properties[8] == "answer/1"
            answerer.publish("answer/1", b"21.5")
            assert process.communicate(timeout=PATIENCE)[0].strip() == "21.5"


def talk(script: str, version: str, port: int, part: str, files: dict[str, str]) -> subprocess.Popen[str]:
    """One part of a script, under way."""
    environment = {**os.environ, "NODE_PATH": str(NODE_MODULES), "MQTT_FILES": json.dumps(files)}
    if script.endswith(".cjs"):
        scheme = "mqtts" if files else "mqtt"
        command = ["node", str(HERE / script), f"{scheme}://127.0.0.1:{port}", version, part]
    else:
        command = [str(PYTHON), str(HERE / script), str(port), version, part]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@contextlib.contextmanager
def all_talk(port: int, part: str, files: dict[str, str]) -> Iterator[list[subprocess.Popen[str]]]:
    """Every client of others in both versions, at the same time."""
    talks = [*TALKS, ("talk_mqtt_js.cjs", "4"), ("talk_mqtt_js.cjs", "5")]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(talk(script, version, port, part, files)) for script, version in talks]
        try:
            yield processes
            for process in processes:
                _, errors = process.communicate(timeout=90)
                assert process.returncode == 0, errors
        finally:
            for process in processes:
                process.kill()


@pytest.fixture
def secured(brokers: Brokers, authority: Authority, tmp_path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """A broker with TLS that asks for certificates, and a user with permissions; its port, and what its client needs."""
    command = [str(Path(sys.executable).with_name("fumarole")), "password"]
    made = subprocess.run(command, input="secret\n", capture_output=True, text=True, check=True)
    hashed = made.stdout.split()[-1].strip('"')
    user = f'[[users]]\nname = "ann"\npassword = "{hashed}"\n'
    rights = 'publish.allow = ["allowed.>"]\nsubscribe.allow = ["allowed.>"]\n'
    broker = brokers.start(DOORS + authority.config("required") + user + rights)
    certificate = authority._client  # what the authority has signed for clients
    own, key = tmp_path / "client.pem", tmp_path / "client.key"
    key.write_bytes(certificate.private_key_pem.bytes())
    own.write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    yield (
        port_of(broker),
        {
            "authority": str(authority.authority_file),
            "certificate": str(own),
            "key": str(key),
            "password": "secret",
        },
    )
    broker.stop()


def test_tls_certificates_users_and_permissions(secured: tuple[int, dict[str, str]]) -> None:
    """Every client of others: a wrong password, a filter and a topic that are denied, and what is allowed."""
    port, files = secured
    with all_talk(port, "secured", files):
        pass
    shown = ["--cafile", files["authority"], "--cert", files["certificate"], "--key", files["key"]]
    ann = [*shown, "-u", "ann", "-P", "secret", "-q", "1", "-V", "5"]
    assert mosquitto("pub", port, *ann, "-t", "allowed/a", "-m", "x").returncode == 0
    assert "Not authorized" in mosquitto("pub", port, *ann, "-t", "elsewhere", "-m", "x").stderr
    assert "denied" in mosquitto("sub", port, *ann, "-t", "elsewhere/#", "-E").stderr
    with listening(port, *ann, "-t", "allowed/a", "-C", "1") as process:
        assert mosquitto("pub", port, *ann, "-t", "allowed/a", "-m", "heard").returncode == 0
        assert "heard" in process.communicate(timeout=PATIENCE)[0]
    asked = mosquitto("rr", port, *ann, "-t", "allowed/ask", "-e", "allowed/ask", "-m", "itself", "-W", "10")
    assert asked.stdout == "itself\n", asked.stderr
    without = ["--cafile", files["authority"], "-u", "ann", "-P", "secret", "-q", "1"]
    assert mosquitto("pub", port, *without, "-t", "allowed/a", "-m", "x").returncode != 0
    assert mosquitto("pub", port, *shown, "-u", "ann", "-P", "no", "-t", "allowed/a", "-m", "x").returncode != 0


def test_all_come_back_after_a_restart(tmp_path: Path) -> None:
    """Each connects again by itself, subscribes again as a session ends with its connection, and hears itself."""
    config = f'[doors]\nmqtt = ["127.0.0.1:{free_port()}"]\n'
    broker = RunningBroker(tmp_path, config)
    port = port_of(broker)
    kept = mosquitto("pub", port, "-t", "kept", "-m", "21.5", "-q", "1", "-r")
    assert kept.returncode == 0, kept.stderr
    try:
        with all_talk(port, "restarted", {}) as talks:
            for process in talks:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n", process.communicate()[1]
            broker.stop()
            broker = RunningBroker(tmp_path, config)
        assert mosquitto("sub", port, "-t", "kept", "-C", "1").stdout == "21.5\n"
    finally:
        broker.stop()


def code(event: Event) -> int:
    """The reason of a DISCONNECT."""
    assert isinstance(event, Disconnect)
    return event.reason


@pytest.fixture
def target(brokers: Brokers, engine_name: str) -> Iterator[Target]:
    broker = brokers.share(DOORS, engine_name, observed=True)
    with watched(broker, brokers.canary(broker)) as watched_target:
        yield watched_target


BAD: list[tuple[str, bytes, Reason]] = [
    ("a remaining length of five bytes", b"\x30\xff\xff\xff\xff\x01", Reason.MALFORMED),
    ("a packet of 256 MiB announced", b"\x30\xff\xff\xff\x7f", Reason.TOO_LARGE),
    ("properties longer than the packet", b"\x30\x06\x00\x01t\x7f\x23\x00", Reason.MALFORMED),
    ("QoS 3", b"\x36\x06\x00\x01t\x00\x01\x00", Reason.MALFORMED),
    ("NUL in a topic", b"\x30\x05\x00\x02t\x00\x00", Reason.MALFORMED),
    ("a surrogate in a topic", b"\x30\x06\x00\x03\xed\xa0\x80\x00", Reason.MALFORMED),
    ("an alias that was never set", b"\x30\x06\x00\x00\x03\x23\x00\x01", Reason.PROTOCOL_ERROR),
    ("packet identifier 0", b"\x32\x06\x00\x01t\x00\x00\x00", Reason.PROTOCOL_ERROR),
    ("a second CONNECT", packets.connect(Connect(V5, "", True, 0, None, None, None, NONE)), Reason.PROTOCOL_ERROR),
]


@pytest.mark.parametrize(("data", "reason"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_packets(target: Target, data: bytes, reason: Reason) -> None:
    """Told why, then closed; no other client notices."""
    for pieces in ([data], [bytes([byte]) for byte in data]):
        with Raw(port_of(target.broker)) as peer:
            for piece in pieces:
                peer.say(piece)
            assert code(peer.hear()) == reason
            with pytest.raises((EOFError, ConnectionResetError)):
                peer.hear()


def test_half_a_connect_from_many(target: Target) -> None:
    """A stranger gets a deadline and little memory."""
    half = packets.connect(Connect(V5, "x" * 200, True, 0, None, None, None, NONE))[:100]
    peers = [socket.create_connection(("127.0.0.1", port_of(target.broker))) for _ in range(200)]
    try:
        for peer in peers:
            peer.sendall(half)
        peers[0].settimeout(PATIENCE)
        while peers[0].recv(100):
            pass
    finally:
        for peer in peers:
            peer.close()


def test_very_many_filters(target: Target) -> None:
    """Within the list's limit each is answered; the loop does not stand still."""
    with Raw(port_of(target.broker)) as peer:
        answer = peer.subscribe(*(f"f{number}/#" for number in range(10_000)))
        assert isinstance(answer, Acknowledged)
        assert answer.reasons == (0,) * 10_000
    with Raw(port_of(target.broker)) as peer:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            peer.say(packets.subscribe(Subscribe(1, tuple([Filter("filter", 0)] * 30_000), NONE), V5))
        with contextlib.suppress(ConnectionResetError):
            assert code(peer.hear()) == Reason.TOO_LARGE


def test_a_take_over_storm(target: Target) -> None:
    """The same ids again and again: each connection ends the one before it, and its will is published."""
    port = port_of(target.broker)
    will = Will("gone", b"", 0, False, NONE)
    with Raw(port) as watcher:
        watcher.subscribe("gone")
        rounds = [[Raw(port, f"c{number}", will) for number in range(100)] for _ in range(5)]
        for peer in rounds[-1]:
            peer.say(packets.disconnect())
        for _ in range(400):
            assert isinstance(watcher.hear(), Publish)
        for peer in (peer for each in rounds for peer in each):
            peer.socket.close()


def test_a_slow_reader(target: Target) -> None:
    """It loses messages (D6); the node's memory is bounded."""
    port = port_of(target.broker)
    with Raw(port) as slow, Raw(port) as publisher:
        slow.subscribe("a")
        message = packets.publish(Publish("a", bytes(10_000), 0, False, False, 0, NONE), V5)
        for _ in range(2_000):
            publisher.say(message)
        publisher.say(packets.PINGREQ)
        assert publisher.hear() == ()
