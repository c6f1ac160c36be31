"""What MQTT clients publish is recorded like all else: topics, values, and what they say of themselves (Q4, P1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fumarole.pipeline.archive.verifying import verify
from fumarole.protocols.mqtt_fields import Property
from fumarole.sessions.mqtt_speaker import identity_of
from tests.integration.mqtt.raw_mqtt import Raw
from tests.integration.running import RunningBroker
from tests.pipeline.recordings import Recording, rows

ATKA = identity_of("default", "", "atka-7")


def test_mqtt_clients_are_recorded(tmp_path: Path, record: Callable[..., Recording]) -> None:
    broker = RunningBroker(tmp_path, '[doors]\nmqtt = ["127.0.0.1:0"]\n')
    (door,) = (line for line in broker.log if "MQTT door open on " in line)
    port = int(door.partition("MQTT door open on ")[2].split()[0].rsplit(":", 1)[1])
    archive = tmp_path / "archive"
    recording = record(broker.url, archive, "--topic", "volcanoes.>")
    with (
        Raw(port, "atka-7", given={Property.USER: [("Kind", "so2"), ("Room", "410")]}) as sensor,
        Raw(port, "plain") as other,
    ):
        for number in range(3):  # the session takes the first reading, the compiled path the others
            sensor.publish("volcanoes/usa/atka", b"%d.5" % number)
        sensor.publish("volcanoes/usa/atka", b"7", given={Property.USER: [("Room", "411")]})
        sensor.settle()
        other.publish("volcanoes/plant 4/v1.2", b"hello", given={Property.CONTENT_TYPE: "text/plain"})
        other.settle()
        recording.wait_until(lambda: recording.messages == 5)
    assert recording.stop() == 0
    broker.release()
    found = rows(archive)
    assert [(row["topic"], row["value"], row["producer"]) for row in found] == [
        *(("volcanoes.usa.atka", value, ATKA) for value in (0.5, 1.5, 2.5, 7.0)),
        ("volcanoes.plant%204.v1%2E2", None, None),
    ]
    assert [(each["key"], each["text"] or each["number"]) for each in found[3]["changes"]] == [("Room", 411.0)]
    assert ("Content-Type", ["text/plain"]) in found[4]["headers"]
    assert verify(archive, "default") == []
