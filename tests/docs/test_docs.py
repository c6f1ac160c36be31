"""The documents' tables and dialogues, run."""

import re
from pathlib import Path

import pytest

from fumarole.core.topic import matches, parse_pattern, split
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions import nats_forms, services
from tests.conformance.tables import RECEIVED, RECEIVERS
from tests.desk import Client, Desk

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def rows(document: str, first_heading: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    text = (DOCS / document).read_text()
    table = re.search(rf"^\| {re.escape(first_heading)} \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"no table {first_heading!r} in {document}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


@pytest.mark.parametrize("row", rows("reference/topics.md", "pattern"), ids=lambda row: row[0])
def test_patterns(row: list[str]) -> None:
    pattern, matching, others = (re.findall("`([^`]+)`", cell) for cell in row)
    assert matching
    assert all(matches(parse_pattern(pattern[0]), split(topic)) for topic in matching)
    assert not any(matches(parse_pattern(pattern[0]), split(topic)) for topic in others)


def test_the_eight_receivers_are_those_of_the_contract() -> None:
    assert {row[0]: (row[1].strip("`"), row[2]) for row in rows("reference/delivery.md", "receiver")} == RECEIVERS
    written = {row[0].strip("`"): row[1] for row in rows("reference/delivery.md", "message on")}
    assert written == {
        topic: ", ".join(f"one of {one.replace('|', ' and ')}" if "|" in one else one for one in names.split())
        for topic, names in RECEIVED.items()
    }


DIALOGUES = re.findall(r"```dialogue\n(.*?)```", (DOCS / "reference" / "nats.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda text: text.splitlines()[1])
def test_dialogues(hot_path: HotPath, dialogue: str) -> None:
    client = Client(Desk(hot_path))
    client.hears()
    turns = re.findall(r"((?:^C.*\n)+)((?:^S.*\n)*)", dialogue, re.MULTILINE)
    assert turns
    for says, hears in turns:
        said = client.asks(re.sub(r"^C ?(.*)\n", "\\1\r\n", says, flags=re.MULTILINE))
        assert said.decode() == re.sub(r"^S ?(.*)\n", "\\1\r\n", hears, flags=re.MULTILINE)


def test_every_error_is_in_the_table() -> None:
    """Each text that the sources can send is documented, and nothing else is."""
    documented = {re.sub(r'[:"…].*', "", row[0].strip("`")).strip() for row in rows("reference/nats.md", "`-ERR`")}
    sources = "".join(
        (ROOT / "src/fumarole" / path).read_text()
        for path in (
            *("protocols/nats.py", "sessions/nats.py", "sessions/stream.py"),
            *("doors/stream.py", "doors/slow_consumers.py"),
        )
    )
    before = r"(?:Fault\(|\.fail\(|_refuse\(|nats\.error\(|UNKNOWN_OPERATION = |LINE_TOO_LONG = |TOO_MANY = |TOO_MUCH_WAITS = )"
    sent = set(re.findall(before + r"f?[\"']([A-Za-z ]+)", sources))
    assert {text.strip() for text in sent} == documented


def test_the_servers_own_topics_are_documented() -> None:
    page = (DOCS / "reference" / "nats.md").read_text()
    assert all(f"`{topic}`" in page for topic in (nats_forms.EMPTY, *services.SERVICES))
