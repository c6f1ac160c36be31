"""A command of the tree: its name, its place in the help, its examples, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from fumarole.cli.shared_options import shared_options

ARGUMENTS: Final[ContextVar[tuple[str, ...] | None]] = ContextVar("ARGUMENTS", default=None)
"""The arguments of this process when it runs one command, so that another process can run the same command."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. Its name has a word for each level of the tree: `pipeline rollup`."""

    name: str
    panel: str
    examples: str
    run: Callable[..., None]

    @property
    def help(self) -> str:
        return self.run.__doc__ or ""

    @property
    def epilog(self) -> str:
        """The examples, at the end of the help."""
        lines = [line.strip() for line in self.examples.strip().splitlines()]
        # `\\b` keeps the lines as they are; brackets would be taken for markup.
        return "Examples\n\n\b\n" + "\n".join(f"  {line}" for line in lines).replace("[", "\\[")


def command(name: str, panel: str, examples: str) -> Callable[[Callable[..., Any]], Command]:
    """Makes a function a command. A parameter that is a class of options stands for its fields (`shared_options`)."""
    return lambda function: Command(name, panel, examples, shared_options(function))
