"""What others see keeps its names. surface.json is the record; surface.py says how it is renewed, and when."""

import json
from collections.abc import Iterator

import pytest

from fumarole.pipeline.archive import sealed, write_rows
from fumarole.pipeline.jobs.spark import session
from tests.cli.commands import CommandLine
from tests.client.brokers import BrokerProcess
from tests.surface.surface import FILE, surface

RECORD = json.loads(FILE.read_text())
PRODUCER = "6a1f0f3c-8a70-4d0e-9c43-2f3a1b5c7d90"
COUNTERS = (
    "conflated connections consumers delivered dropped forwarded last left_out namespace node producers quotas received received_bytes"
    " strayed"
)
JSON_KEYS = {
    "stats": f"{COUNTERS} version",
    "stats --consumers": f"{COUNTERS} version worst_consumers",
    "cluster status": "cluster node peers version",
    "token": "digest token",
    "sub surface.topic --count 1": "headers payload reply topic",
    "bench --duration 0.2": "consumers latency_microseconds lost lost_share publishers size topics",
}


@pytest.mark.parametrize("part", sorted(RECORD))
def test_names_that_others_see_stay(part: str) -> None:
    assert json.loads(json.dumps(surface()[part])) == RECORD[part]


def test_the_names_of_the_pipeline_that_are_no_attributes_of_it() -> None:
    assert all(map(callable, (sealed, write_rows, session)))


@pytest.fixture(scope="module")
def command_line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"))
    commands = CommandLine(broker.url, "surface")
    yield commands
    commands.close()
    assert broker.stop() == 0


@pytest.mark.parametrize("command", [each for each in JSON_KEYS if not each.startswith("sub")])
def test_the_keys_of_json(command_line: CommandLine, command: str) -> None:
    ended = command_line.run_here(*command.split(), "--json")
    assert sorted(json.loads(ended.lines[0])) == JSON_KEYS[command].split()


def test_the_keys_of_a_message_in_json(command_line: CommandLine) -> None:
    (command,) = (each for each in JSON_KEYS if each.startswith("sub"))
    listening = command_line.start(*command.split(), "--json")
    command_line.wait_for_consumers(1)
    command_line.run_here("pub", "surface.topic", "21.5", "--header", "Unit: celsius", "--reply", "surface.reply")
    assert sorted(json.loads(command_line.end(listening).lines[0])) == JSON_KEYS[command].split()


def test_the_keys_of_a_producer_in_json(command_line: CommandLine) -> None:
    reading = ["--header", f"Producer: {PRODUCER}", "--header", 'Metadata: {"Kind": "gas"}']
    command_line.run_here("pub", f"readings.{PRODUCER}", "21.5", *reading)
    (producer,) = map(json.loads, command_line.run_here("producers", "--json").lines)
    assert sorted(producer) == ["age", "id", "metadata", "value"]
