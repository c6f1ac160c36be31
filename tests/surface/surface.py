"""What others see of Fumarole, gathered into one tree: commands, options, settings, topics, headers, public names.

`python -m tests.surface.surface` writes it to surface.json. Do that only for a change that users are meant to see.
"""

import json
import re
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

import fumarole
from fumarole import pipeline
from fumarole.cli.main import app
from fumarole.config.schema import FLAGS, VARIABLES

FILE = Path(__file__).parent / "surface.json"
SOURCES = Path(fumarole.__file__).parent
OWN_TOPIC = re.compile(
    r"""["'](\$(?:FUM|EMPTY|SRV|SYS)[\w./]*|_(?:FORGOTTEN|INBOX|WHERE|COMMANDS_|QUERIES_)[\w.]*)["']"""
)
HEADER = re.compile(
    r"""["'](Producer|Metadata|Value|Exit-Code|Status|Fumarole-[A-Za-z-]+|Mqtt-[A-Za-z-]+|Nats-[A-Za-z-]+)["':]"""
)


def options(command: Any) -> list[str]:
    """The spellings of all options, and the names of arguments."""
    spellings = (opt for each in command.params for opt in (*each.opts, *each.secondary_opts))
    return sorted(set(spellings) - {"--help"})


def commands(command: Any, name: str = "fumarole") -> dict[str, Any]:
    """Each command with its options, however deep."""
    found: dict[str, Any] = {name: options(command)}
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for each in command.list_commands(context):
            _, below, _ = command.resolve_command(context, [each])
            assert below is not None
            found |= commands(below, f"{name} {each}")
    return found


def written(pattern: re.Pattern[str]) -> list[str]:
    """All that the sources write of this form."""
    texts = (path.read_text() for path in SOURCES.rglob("*.py"))
    return sorted({found for text in texts for found in pattern.findall(text)})


def surface() -> dict[str, Any]:
    """All of it that needs no broker."""
    return {
        "commands": commands(get_command(app)),
        "settings": {flag: ".".join(map(str, path)) for flag, path in FLAGS.items()},
        "variables": sorted(VARIABLES),
        "topics": written(OWN_TOPIC),
        "headers": written(HEADER),
        "fumarole": sorted(fumarole.__all__),
        "fumarole.pipeline": sorted(pipeline.__all__),
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(surface(), indent=1, sort_keys=True) + "\n")
