"""`[[rules]]` in a file: mistakes at their lines."""

from pathlib import Path

import pytest

from fumarole.config.mistakes import ConfigurationError
from fumarole.config.rules import load_rules
from tests.pipeline.commands import run_command

RULES = """[[rules]]
name = "hot"
where = "$value > 80"
publish = "alarms.hot"

[[rules]]
name = "silent"
silence = "5 x habit"
publish = "alarms.silent"
"""


def test_rules_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    assert [rule.name for rule in load_rules(file).declared] == ["hot", "silent"]
    assert run_command("config", "check", str(file))[0] == f"{file}: no mistakes\n"


def test_a_mistake_is_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES.replace("5 x habit", "often").replace("$value > 80", "$value > "))
    with pytest.raises(ConfigurationError) as error:
        load_rules(file)
    where, silence = error.value.mistakes
    assert (where.line, where.key) == (3, "rules[0].where")
    assert (silence.line, silence.key, silence.found) == (8, "rules[1].silence", "'often'")
    assert f"{file}:8: rules[1].silence: found 'often'" in run_command("config", "check", str(file), code=2)[1]


def test_a_file_without_rules(tmp_path: Path) -> None:
    file = tmp_path / "fumarole.toml"
    file.write_text("")
    assert load_rules(file).declared == ()
