"""Shared by all commands: how they run and end, and how they print.

Results go to stdout, everything else to stderr. Colours are for terminals only, and never where NO_COLOR is set.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

import typer

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
# Control characters, and those that turn the direction of writing or end a line: the rest would pass for another's.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def fail(text: str, code: int = FAILED) -> NoReturn:
    """Prints the reason on stderr, and ends the command."""
    # The reason may contain the answer of another program.
    say(paint(printable(text), RED, sys.stderr))
    raise typer.Exit(code)


def say(text: str) -> None:
    """A line for the person at the terminal, apart from the command's results."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def run(work: Coroutine[Any, Any, None], interrupted: int = INTERRUPTED) -> None:
    """Runs a command to its end: errors become one line, Ctrl-C and a closed pipe end it quietly."""
    import asyncio

    from fumarole.core.errors import FumaroleError

    try:
        asyncio.run(work)
        sys.stdout.flush()
    except FumaroleError as error:
        fail(str(error))
    except ExceptionGroup as group:
        for each in _errors(group):
            if isinstance(each, BrokenPipeError):
                _seen_enough()
            if isinstance(each, OSError):
                raise each from None
        ours, others = group.split(FumaroleError)
        if ours is None or others is not None:
            raise
        fail("; ".join(dict.fromkeys(map(str, _errors(ours)))))
    except KeyboardInterrupt:
        raise typer.Exit(interrupted) from None
    except BrokenPipeError:
        _seen_enough()


def _seen_enough() -> NoReturn:
    """The reader of the output has closed the pipe."""
    abandon_stdout()
    raise typer.Exit from None


@contextmanager
def standard_streams() -> Iterator[None]:
    """Prepares stdin, stdout and stderr: closed ones read as empty, and a failed write ends with a sentence."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the lowest free descriptor, so that no connection is ever taken for the stream.
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
        raise SystemExit(0) from None
    except OSError as error:
        # An error without a name is stdout's, which still has the bytes that it could not write.
        full = error.filename is None and error.errno in _FULL
        what = f"stdout: {error.strerror}" if full else trouble_text(error)
        if full:
            abandon_stdout()
        say(paint(printable(what), RED, sys.stderr))
        raise SystemExit(FAILED) from None


def abandon_stdout() -> None:
    """Replaces a broken stream, so that the interpreter does not fail on it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_credentials(as_json: bool, client_key: str, broker_key: str, client_text: str, broker_text: str) -> None:
    """Prints the secret of a client, and its counterpart for the configuration."""
    if as_json:
        typer.echo(json.dumps({client_key: client_text, broker_key: broker_text}))
    else:
        typer.echo(f"for the client         {client_text}\nfor the configuration  {broker_text}")


def finite(value: float | None) -> float | None:
    """A finite number, for options: Python also reads `nan` and `inf`."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"expected a number, not {value}")
    return value


def period(value: str | None) -> str | None:
    """For options: 500ms, 1s, 5m, or seconds as a number."""
    from fumarole.core.periods import PeriodError, parse_every

    if value is not None:
        try:
            parse_every(value)
        except PeriodError as error:
            raise typer.BadParameter(str(error)) from None
    return value


def _errors(group: ExceptionGroup[Any]) -> Iterator[Exception]:
    """Each error in it, however deep."""
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _errors(error)
        else:
            yield error


CYAN, GREEN, YELLOW, RED, DIM, BOLD = "36", "32", "33", "31", "2", "1"


def coloured(stream: TextIO) -> bool:
    """True when the stream may have colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO) -> str:
    """The text in a colour, where the stream may have colours."""
    return f"\x1b[{colour}m{text}\x1b[0m" if coloured(stream) else text


def printable(text: str) -> str:
    """A text of unknown origin, safe for a terminal: control characters are shown, not obeyed."""
    return _UNPRINTABLE.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_text(value: object) -> str:
    """JSON with letters as they are. Control characters are escaped, and a JSON parser reads the same text."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def count_text(count: int, noun: str) -> str:
    """`1 message`, `12,000 messages`"""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def trouble_text(error: OSError) -> str:
    """`archive/default: Permission denied`"""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def duration_text(seconds: float) -> str:
    """`12.5 s`, `3 h`"""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s"
