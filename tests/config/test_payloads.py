"""`[[payloads]]` in a configuration file (P6): mistakes at their lines, and no concern of a broker."""

from pathlib import Path

import pytest

from fumarole.config.load import ConfigurationError, load
from fumarole.config.payloads import load_payloads
from tests.cli.commands import run_here

RIGHT = """[[payloads]]
topic = "volcanoes.*.weather"
format = "json"
fields = {temperature = "double", pressure = {type = "double", path = "$.air.pressure"}}
value = "temperature"
"""
WRONG = """[[payloads]]
topic = "a"
format = "json"
fields = {a = "double"}
value = "b"

[[payloads]]
topic = "a.>.b"
format = "jsn"
[payloads.fields]
x = "dubble"
"""


def test_declarations_beside_settings(tmp_path: Path) -> None:
    file = tmp_path / "fumarole.toml"
    file.write_text(
        RIGHT + "[[rules]]\nname = 'x'\nwhere = 'a = 1'\npublish = 'alarms.x'\n[doors]\nnats = ['127.0.0.1:0']\n"
    )
    assert list(load_payloads(file).types) == ["temperature", "pressure"]
    load(file, {}, {})
    ended = run_here("config", "check", str(file))
    assert (ended.code, ended.out.decode().strip()) == (0, f"{file}: no mistakes")


def test_mistakes_are_at_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "payloads.toml"
    file.write_text(WRONG)
    with pytest.raises(ConfigurationError) as error:
        load_payloads(file)
    assert str(error.value).splitlines() == [
        f"{file}:5: payloads[0].value: found 'b', expected a field that is a number: a",
        f"{file}:8: payloads[1].topic: found 'a.>.b', expected a topic pattern "
        "(`>` must be the last word, at position 2)",
        f"{file}:9: payloads[1].format: found 'jsn', expected one of json, csv, msgpack, float32, float64, text, sparkplug",
    ]
    load(file, {}, {})  # a broker ignores them
    ended = run_here("config", "check", str(file))
    assert (ended.code, len(ended.err.splitlines())) == (2, 3)
    file.write_text("x = 1\n" + WRONG)
    assert len(run_here("config", "check", str(file)).err.splitlines()) == 4
