"""Every command with its arguments and options, from the tree that the command line itself is made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup
from typer.main import get_command

from fumarole.cli.main import app

SECTION = re.compile(r"^## fumarole (?P<name>[a-z ]+)$", re.MULTILINE)

VALUES = {
    "text": "TEXT",
    "integer": "N",
    "integer range": "N",
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "float range": "NUMBER",
    "path": "PATH",
}
"""What stands for a value, by its type, where the option itself does not say."""


def all_commands() -> dict[str, Any]:
    """By name: `pub`, `pipeline rollup`. Groups that do nothing by themselves are not among them."""
    return dict(_below(get_command(app), ""))


def _below(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    context = typer.Context(group)
    for word in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [word])
        name = f"{prefix}{word}"
        if not isinstance(command, TyperGroup) or command.invoke_without_command:
            yield name, command
        if isinstance(command, TyperGroup):
            yield from _below(command, f"{name} ")


def complete(page: str) -> str:
    """The page with a table of options at the end of each command's section. Raises ValueError where one is missing."""
    commands = all_commands()
    found = [match["name"] for match in SECTION.finditer(page)]
    if sorted(found) != sorted(commands):
        different = sorted(set(found) ^ set(commands))
        raise ValueError(f"docs/reference/command-line.md and the command line differ: {', '.join(different)}")
    before, *sections = re.split(r"(?m)^(?=## fumarole )", page)
    return before + "".join(_completed(section, commands) for section in sections)


def _completed(section: str, commands: dict[str, Any]) -> str:
    heading = SECTION.match(section)
    assert heading
    name = heading["name"]
    text, rest = _own_part(section)
    return f"{text.rstrip()}\n\n{usage(name, commands[name])}\n{table(commands[name])}\n{rest}"


def _own_part(section: str) -> tuple[str, str]:
    """A section about a command, and what follows it under a heading that is no command's."""
    other = re.search(r"^## (?!fumarole )", section, re.MULTILINE)
    return (section, "") if other is None else (section[: other.start()], "\n" + section[other.start() :])


def usage(name: str, command: Any) -> str:
    """How it is called, in one line, as a block."""
    arguments = [_argument(each) for each in command.params if isinstance(each, TyperArgument)]
    return f"```text\nfumarole {' '.join([name, *arguments])} [OPTIONS]\n```\n"


def table(command: Any) -> str:
    """Arguments and options, one per row."""
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    return "\n".join(["| argument or option | default | meaning |", "|---|---|---|", *rows, ""])


def _row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in _names(parameter))
    meaning = " ".join((parameter.help or "").split())
    if parameter.envvar:
        meaning += f" Variable: `{parameter.envvar}`."
    return f"| {names} | {_default(parameter)} | {_escaped(meaning)} |"


def _names(parameter: Any) -> list[str]:
    if isinstance(parameter, TyperArgument):
        return [_argument(parameter)]
    value = "" if parameter.is_flag else f" {parameter.metavar or VALUES[parameter.type.name]}"
    return [f"{name}{value}" for name in (*parameter.opts, *parameter.secondary_opts)]


def _argument(parameter: Any) -> str:
    name = f"{parameter.metavar or parameter.name.upper()}{'…' if parameter.nargs == -1 else ''}"
    return name if parameter.required else f"[{name}]"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return f"`{_escaped(parameter.show_default)}`"
    default = parameter.default
    if callable(default) or default is None or default in {"", False} or default == []:
        return ""
    if default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{_escaped(str(default))}`"


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
