"""What commands have in common: how they run and end, and how they print.

Results go to stdout, everything else to stderr. Colours are for terminals only, and never where NO_COLOR is set.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, NoReturn, TextIO

import typer

FAILED = 1
MISUSED = 2
INTERRUPTED = 130

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def fail(text: str, code: int = FAILED) -> NoReturn:
    """Says why on stderr, and ends the command."""
    # Much of it may be what somebody else's program answered.
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
        ours, others = group.split(FumaroleError)
        if ours is None or others is not None:
            raise
        fail("; ".join(dict.fromkeys(_texts(ours))))
    except KeyboardInterrupt:
        raise typer.Exit(interrupted) from None
    except BrokenPipeError:
        # Whoever read our output has seen enough. The interpreter must not find that out again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


def _texts(group: ExceptionGroup[Any]) -> Iterator[str]:
    """What each error in it says."""
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _texts(error)
        else:
            yield str(error)


CYAN, GREEN, YELLOW, RED, DIM, BOLD = "36", "32", "33", "31", "2", "1"


def coloured(stream: TextIO) -> bool:
    """May this stream have colours?"""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO) -> str:
    """The text in a colour, where the stream may have colours."""
    return f"\x1b[{colour}m{text}\x1b[0m" if coloured(stream) else text


def printable(text: str) -> str:
    """A text of unknown origin, safe for a terminal: control characters are shown, not obeyed."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def json_text(value: object) -> str:
    """As JSON, letters as they are. What a terminal might obey is escaped: the same text to whoever parses it."""
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
