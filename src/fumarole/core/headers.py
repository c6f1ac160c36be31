"""Header blocks: a status line, then `Name: value` lines, ended by an empty line.

    NATS/1.0
    Producer: 2f1c…
    Unit: celsius

The form is that of the NATS protocol, because most headers arrive and leave that way; other doors use `build` and
`parse` to translate theirs.
"""

from collections.abc import Iterable

VERSION = b"NATS/1.0"
LINE_END = b"\r\n"


def build(pairs: Iterable[tuple[str, str]], status: str = "") -> bytes:
    """A block from names and values. One that would break out of its line is refused."""
    lines = [VERSION + (b" " + status.encode() if status else b"")]
    for name, value in pairs:
        if not name or any(c in name for c in ":\r\n\0 ") or any(c in value for c in "\r\n\0"):
            raise ValueError(f"{name!r} cannot be a header: no line ends, and no colon or space in its name")
        lines.append(f"{name}: {value}".encode())
    return LINE_END.join(lines) + LINE_END + LINE_END


def parse(block: bytes, most: int = -1) -> list[tuple[str, str]]:
    """The names and values of a block, in order. Lines without a colon are passed over, odd bytes replaced.

    A name is the text before the colon, spaces included: `Producer ` is not `Producer`. Only as many lines are read as
    are needed.
    """
    pairs = []
    lines = block.split(LINE_END) if most < 0 else block.split(LINE_END, most + 1)[: most + 1]
    for line in lines[1:]:
        name, colon, value = line.decode("utf-8", "replace").partition(":")
        if colon and name:
            pairs.append((name, value.strip()))
    return pairs


def last(block: bytes, name: str) -> str | None:
    """The last value that `parse` would find under this name; None: there is none. Other lines are not looked at."""
    before = LINE_END + name.encode() + b":"
    at = block.rfind(before)
    if at < 0:
        return None
    value, _, _ = block[at + len(before) :].partition(LINE_END)
    return value.decode("utf-8", "replace").strip()


def added(block: bytes, name: str, value: str) -> bytes:
    """The block with one more line, in place of any of that name; an empty block begins with it."""
    line = f"{name}: {value}".encode() + LINE_END
    if not block:
        return VERSION + LINE_END + line + LINE_END
    return without(block, name)[: -len(LINE_END)] + line + LINE_END


def without(block: bytes, name: str) -> bytes:
    """The block without the lines of this name."""
    before = LINE_END + name.encode() + b":"
    while (at := block.find(before)) >= 0:
        block = block[:at] + block[block.find(LINE_END, at + len(before)) :]
    return block


def status(block: bytes) -> str:
    """The text after the version in the first line: `503` without a responder, empty in an ordinary message."""
    first = block.split(LINE_END, 1)[0]
    return first[len(VERSION) :].decode("ascii", "replace").strip() if first.startswith(VERSION) else ""
