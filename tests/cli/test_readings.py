"""`sub --where`, `producers`, `producer forget`, `query explain`."""

import asyncio
import json
import os
import pty

import pytest

import fumarole
from tests.cli.commands import CommandLine

ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
TWO = "7b0d3c1e-51aa-4f0b-8c2d-9e6f10a4b5c7"
SUBSCRIPTIONS = 3
"""Of `sub --where`: its inbox, the readings, the changes."""


def publish(command_line: CommandLine, identity: str, value: str, metadata: str = "{}", topic: str = "") -> None:
    headers = ("-H", f"Producer: {identity}", "-H", f"Metadata: {metadata}")
    ended = command_line.run_here("pub", topic or f"readings.{identity}", *headers, "--", value)
    assert (ended.code, ended.err) == (0, "")


def test_readings_and_changes_as_text(command_line: CommandLine) -> None:
    publish(command_line, ONE, "1", '{"Kind": "a"}')
    sub = command_line.start("sub", "--where", "Kind = 'a'", "--count", "3")
    command_line.wait_for_consumers(SUBSCRIPTIONS)
    publish(command_line, ONE, "-2.5")
    publish(command_line, TWO, "3", '{"Kind": "a", "Floor": 4}', "volcanoes.atka")
    publish(command_line, ONE, "4", '{"Kind": null}')
    publish(command_line, TWO, "5")
    ended = command_line.end(sub)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines == [
        f"+ {ONE}",
        f"{ONE}  -2.5",
        f"+ {TWO}",
        f"{TWO}  3",
        "    topic: volcanoes.atka",
        '    Kind = "a"',
        "    Floor = 4",
        f"- {ONE}",
        f"{TWO}  5",
    ]


def test_tests_on_messages(command_line: CommandLine) -> None:
    """F6."""
    sub = command_line.start("sub", "--where", "Kind = 'a' and $value > 80", "--count", "1")
    command_line.wait_for_consumers(SUBSCRIPTIONS)
    publish(command_line, ONE, "80", '{"Kind": "a"}')
    publish(command_line, ONE, "80.5")
    assert command_line.end(sub).lines == [f"+ {ONE}", f"{ONE}  80.5"]


def test_last_readings_have_their_age(command_line: CommandLine) -> None:
    """F3: a reading that was known before is told from one that comes now."""
    publish(command_line, ONE, "93", '{"Kind": "a"}')
    asked = ("sub", "--where", "Kind = 'a'", "--last", "--count")
    new, reading, age, *known = command_line.run(*asked, "1").lines
    assert (new, reading, age.split()[0]) == (f"+ {ONE}", f"{ONE}  93", "Last:")
    assert float(age.split()[1]) >= 0
    assert '    Kind = "a"' in known
    _, last = [json.loads(line) for line in command_line.run(*asked, "1", "--json").lines]
    assert (last["value"], last["age"] >= 0) == (93, True)


def test_readings_as_json_with_pattern_and_group(command_line: CommandLine) -> None:
    arguments = ("sub", "volcanoes.>", "--where", "has Kind", "--group", "g", "--count", "1")
    sub = command_line.start(*arguments, "--json")
    command_line.wait_for_consumers(SUBSCRIPTIONS)
    publish(command_line, ONE, "1", '{"Kind": "ä"}')
    publish(command_line, ONE, "2", "{}", "volcanoes.atka")
    assert [json.loads(line) for line in command_line.end(sub).lines] == [
        {"New": [ONE], "Del": []},
        {"id": ONE, "metadata": {}, "value": 2, "topic": "volcanoes.atka"},
    ]


def test_values_only(command_line: CommandLine) -> None:
    sub = command_line.start("sub", "--where", "has Kind", "--raw", "--count", "1")
    command_line.wait_for_consumers(SUBSCRIPTIONS)
    publish(command_line, ONE, "21.5", '{"Kind": "a"}')
    assert command_line.end(sub).lines == ["21.5"]


def test_what_producers_say_does_not_steer_a_terminal(command_line: CommandLine) -> None:
    ours, theirs = pty.openpty()
    sub = command_line.start("sub", "--where", "has Kind", "--count", "1", stdout=theirs, NO_COLOR="1")
    command_line.wait_for_consumers(SUBSCRIPTIONS)
    publish(command_line, ONE, "\x1b[2J", '{"Kind": "a"}')
    assert command_line.end(sub).code == 0
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert shown.decode().splitlines() == [f"+ {ONE}", rf"{ONE}  \x1b[2J", '    Kind = "a"']


def test_fewer_readings_than_wanted(command_line: CommandLine) -> None:
    ended = command_line.run("sub", "--where", "has Kind", "--count", "2", "--timeout", "0.01")
    assert (ended.code, ended.out, ended.err) == (1, b"", "0 readings of 2, then none for 0.01 s\n")


def test_producers(command_line: CommandLine) -> None:
    assert command_line.run_here("producers").err == "no producer\n"
    publish(command_line, ONE, "21.5", '{"Room": "410", "Kind": "[bold]"}')
    publish(command_line, TWO, "7", '{"Room": "\\u001b[2J"}')
    head, first, second = command_line.run("producers").lines
    assert head.split("  ")[0] == "id"
    assert [column for column in ("metadata", "last reading", "age") if column not in head] == []
    assert first.startswith(f'{ONE}  Kind = "[bold]", Room = "410"')
    assert first.split()[-3] == "21.5"
    assert first.endswith(" s")
    assert second.startswith(rf'{TWO}  Room = "\u001b[2J"')
    ended = command_line.run_here("producers", "--where", "Room = '410'", "--json")
    (only,) = map(json.loads, ended.lines)
    assert only.pop("age") >= 0
    assert isinstance(only["metadata"].pop("_online"), bool)
    assert only == {"id": ONE, "metadata": {"Room": "410", "Kind": "[bold]"}, "value": 21.5}
    nobody = command_line.run_here("producers", "--where", "Room = '1'")
    assert (nobody.code, nobody.out, nobody.err) == (0, b"", "no producer that this query selects\n")


def test_more_producers_than_are_shown(command_line: CommandLine) -> None:
    ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(1_001)]

    async def speak(identities: list[str]) -> None:
        async with fumarole.connect(command_line.url) as client:
            for identity in identities:
                await client.producer(identity=identity).publish(1)

    for some, hint in ((ids[:1_000], ""), (ids[1_000:], "the first 1,000, there are more\n")):
        asyncio.run(speak(some))
        ended = command_line.run_here("producers", "--json")
        assert [json.loads(line)["id"] for line in ended.lines] == ids[:1_000]
        assert ended.err == hint


def test_forget(command_line: CommandLine) -> None:
    publish(command_line, ONE, "1", '{"Kind": "a"}')
    for code, err in ((0, ""), (1, f"there is no producer {ONE}\n")):
        ended = command_line.run_here("producer", "forget", ONE.upper())
        assert (ended.code, ended.out, ended.err) == (code, b"", err)
    assert command_line.run_here("producers", "--json").lines == []
    ended = command_line.run_here("producer", "forget", "me")
    assert (ended.code, ended.err) == (2, "a producer is named by a UUID of version 4, not 'me'\n")


def test_a_query_explained(command_line: CommandLine) -> None:
    query = "Kind = 'temperature' and not (Room like '4%' or has `a b`)"
    ended = command_line.run_here("query", "explain", query, FUMAROLE_SERVERS="nats://127.0.0.1:1")
    assert ended.lines == [
        "AND",
        "├─ Kind = 'temperature'",
        "└─ NOT",
        "   └─ OR",
        "      ├─ Room LIKE '4%'",
        "      └─ HAS `a b`",
        "",
        "keys: Kind, Room, `a b`",
    ]


@pytest.mark.parametrize("arguments", [("sub", "--where"), ("producers", "--where"), ("query", "explain")])
def test_a_wrong_query(command_line: CommandLine, arguments: tuple[str, ...]) -> None:
    ended = command_line.run(*arguments, "Kind = = 1")
    assert (ended.code, ended.out) == (2, b"")
    query, caret, sentence = ended.err.splitlines()
    assert (query, caret) == ("Kind = = 1", "       ^")
    assert sentence.startswith("found `=`, expected a value")
