"""mosquitto_pub, mosquitto_sub and mosquitto_rr against the MQTT door, in both versions."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from fumarole.protocols.mqtt_fields import Property
from fumarole.protocols.mqtt_packets import Publish
from tests.integration.conftest import Brokers
from tests.integration.mqtt.raw_mqtt import PATIENCE, Raw
from tests.integration.mqtt.test_mqtt import DOORS, listening, mosquitto, port_of
from tests.integration.running import RunningBroker
from tests.ports import free_port

VERSIONS = pytest.mark.parametrize("version", ["311", "5"])
Listener = subprocess.Popen[str]


@pytest.fixture
def port(brokers: Brokers, engine_name: str) -> int:
    return port_of(brokers.share(DOORS, engine_name))


def publish(port: int, version: str, topic: str, text: str, *options: str) -> None:
    done = mosquitto("pub", port, "-V", version, "-t", topic, "-m", text, "-q", "1", *options)
    assert done.returncode == 0, done.stderr


def got(process: Listener) -> list[str]:
    """What it has printed of messages (`-F "got …"`), until it ended by itself (`-C`)."""
    assert process.stdout is not None
    lines = [line.rstrip() for line in process.stdout]  # `communicate` would leave out what was read ahead
    process.wait(PATIENCE)
    return [line for line in lines if line.startswith("got")]


def until(process: Listener, text: str) -> str:
    """The next line with this text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it ended, and has not said {text!r}")


@VERSIONS
def test_retained(port: int, version: str) -> None:
    topic = f"tools/retained/{version}"
    publish(port, version, topic, "21.5", "-r")
    with listening(port, "-V", version, "-t", "tools/retained/#", "-C", "1", "-F", "got %r %t %p") as process:
        assert got(process) == [f"got 1 {topic} 21.5"]
    publish(port, version, topic, "", "-r")
    with listening(port, "-V", version, "-t", "tools/retained/#", "-C", "1", "-F", "got %r %p") as process:
        publish(port, version, topic, "live")
        assert got(process) == ["got 0 live"]


@VERSIONS
def test_a_will(port: int, version: str) -> None:
    topic = f"tools/gone/{version}"
    last = ["--will-topic", topic, "--will-payload", "bye", "--will-qos", "1", "--will-retain"]
    with listening(port, "-V", version, "-t", topic, "-q", "1", "-C", "1", "-F", "got %t %p") as watcher:
        with listening(port, "-V", version, "-t", "x", *last) as dying:
            dying.send_signal(signal.SIGKILL)
        assert got(watcher) == [f"got {topic} bye"]
    assert mosquitto("sub", port, "-t", topic, "-C", "1").stdout == "bye\n"
    publish(port, version, topic, "", "-r")


@VERSIONS
def test_a_shared_subscription(port: int, version: str) -> None:
    filters = ["-V", version, "-q", "1", "-t", f"$share/tools/tools/shared/{version}/#", "-C", "10", "-F", "got %p"]
    with listening(port, *filters) as one, listening(port, *filters) as other:
        for number in range(20):
            publish(port, version, f"tools/shared/{version}/x", f"{number}")
        lines = got(one) + got(other)
    assert sorted(lines) == sorted(f"got {number}" for number in range(20))


@VERSIONS
def test_a_client_id_is_taken_over(port: int, version: str) -> None:
    """Of version 5 mosquitto_sub is told why, and ends. Of 3.1.1 it connects and subscribes again."""
    name, topic = f"tools-same-{version}", f"tools/same/{version}"
    with listening(port, "-V", version, "-i", name, "-t", topic, "-C", "1", "-F", "got %p") as process:
        publish(port, version, topic, "by the newer one", "-i", name)
        if version == "5":
            until(process, "Received DISCONNECT (142)")
            assert process.wait(PATIENCE) == 0
            return
        until(process, "Subscribed")
        publish(port, version, topic, "x")
        assert got(process) == ["got x"]


def test_user_properties_and_aliases(port: int) -> None:
    given = ["user-property", "Kind", "so2"], ["user-property", "Kind", "co2"], ["content-type", "text/plain"]
    options = [word for each in (*given, ["topic-alias", "3"]) for word in ("-D", "publish", *each)]
    shown = "got %t %p %P %C"
    with listening(port, "-V", "5", "-q", "1", "-t", "tools/+", "-C", "2", "-F", shown) as process:
        publish(port, "5", "tools/alias", "x", *options, "--repeat", "2")  # the second by the alias alone
        assert got(process) == ["got tools/alias x Kind:so2 Kind:co2 text/plain"] * 2


@VERSIONS
def test_a_request(port: int, version: str) -> None:
    """mosquitto_rr asks. In 3.1.1 the topic of the answer is agreed on."""
    with Raw(port, f"answers {version}") as answerer:
        answerer.subscribe(f"tools/ask/{version}")
        options = ["-t", f"tools/ask/{version}", "-e", f"tools/answer/{version}", "-m", "?", "-W", "10"]
        command = ["mosquitto_rr", "-V", version, "-p", str(port), *options]
        if version == "5":
            command += ["-D", "publish", "correlation-data", "7"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            question = answerer.hear()
            assert isinstance(question, Publish)
            assert question.payload == b"?"
            if version == "5":
                given = question.properties
                answer = given[Property.RESPONSE_TOPIC], given[Property.CORRELATION_DATA]
                assert answer == ("tools/answer/5", b"7")
            answerer.publish(f"tools/answer/{version}", b"21.5")
            assert process.communicate(timeout=PATIENCE)[0].strip() == "21.5"


@VERSIONS
def test_a_restart(tmp_path: Path, version: str) -> None:
    """mosquitto_sub connects again by itself, and subscribes again. A DISCONNECT of version 5 would end it."""
    config = f'[doors]\nmqtt = ["127.0.0.1:{free_port()}"]\n'
    broker = RunningBroker(tmp_path, config)
    port = port_of(broker)
    with listening(port, "-V", version, "-q", "1", "-t", "again", "-C", "1", "-F", "got %p") as process:
        broker.kill()
        broker = RunningBroker(tmp_path, config)
        try:
            until(process, "Subscribed")
            publish(port, version, "again", "x")
            assert got(process) == ["got x"]
        finally:
            broker.stop()
