"""On which line of a TOML file each value stands, which `tomllib` does not say.

A scanner over text that `tomllib` has accepted already: so it checks nothing, and only has to know where keys, values
and tables begin and end.

    [doors]                      # ("doors",): 1
    nats = [                     # ("doors", "nats"): 2
        "127.0.0.1:4222",        # ("doors", "nats", 0): 3
    ]
    [[users]]                    # ("users",) and ("users", 0): 5
    publish.deny = ["a", "b"]    # ("users", 0, "publish"), (…, "deny"), (…, 0) and (…, 1): 6

Tables are at their header, keys where the key is, items of lists where the item begins.
"""

import re
import tomllib
from bisect import bisect_left
from typing import Final

from fumarole.config.mistakes import KeyPath

_SPACE: Final = re.compile(r"[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*+")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]++|"(?:[^"\\]|\\.)*+"|'[^']*+'""")
# The quotes that end a string of several lines may follow up to two that belong to it.
_TEXT: Final = re.compile(
    r'''
      """ (?: [^"\\] | \\. | "{1,2}(?!") )*+ "{3,5}
    | \'\'\' (?: [^'] | '{1,2}(?!') )*+ '{3,5}
    | " (?: [^"\\] | \\. )*+ "
    | ' [^']*+ '
    ''',
    re.VERBOSE | re.DOTALL,
)
# Numbers, dates (which may have a space inside) and booleans.
_OTHER_VALUE: Final = re.compile(r"[^,\]}\n#]++")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, counted from 1, of each table, key and item of a valid TOML text."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {(): 1}
        self.table: KeyPath = ()
        self.array_lengths: dict[KeyPath, int] = {}
        self.line_ends = [match.start() for match in re.finditer("\n", text)]

    def document(self) -> None:
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                self.header()
            else:
                self.pair(self.table)
            self.skip(_BLANK)

    def header(self) -> None:
        line = self.line()
        brackets = 2 if self.text.startswith("[[", self.at) else 1
        self.at += brackets
        keys = self.keys()
        self.at += brackets
        path: KeyPath = ()
        for number, key in enumerate(keys, 1):
            path += (key,)
            self.lines.setdefault(path, line)
            if brackets == 2 and number == len(keys):
                self.array_lengths[path] = self.array_lengths.get(path, 0) + 1
            if path in self.array_lengths:
                path += (self.array_lengths[path] - 1,)
                self.lines.setdefault(path, line)
        # A table may have been named by a deeper one before its own header.
        self.lines[path] = line
        self.table = path

    def pair(self, table: KeyPath) -> None:
        line = self.line()
        path = table
        for key in self.keys():
            path += (key,)
            self.lines.setdefault(path, line)
        self.at += len("=")
        self.skip(_SPACE)
        self.value(path)

    def keys(self) -> list[str]:
        keys: list[str] = []
        while True:
            self.skip(_SPACE)
            keys.append(_unquoted(self.take(_KEY)))
            self.skip(_SPACE)
            if self.text[self.at] != ".":
                return keys
            self.at += len(".")

    def value(self, path: KeyPath) -> None:
        first = self.text[self.at]
        if first == "[":
            self.array(path)
        elif first == "{":
            self.inline_table(path)
        elif first in "\"'":
            self.take(_TEXT)
        else:
            self.take(_OTHER_VALUE)

    def array(self, path: KeyPath) -> None:
        self.at += len("[")
        index = 0
        while not self.closes("]"):
            self.lines[(*path, index)] = self.line()
            self.value((*path, index))
            index += 1

    def inline_table(self, path: KeyPath) -> None:
        self.at += len("{")
        while not self.closes("}"):
            self.pair(path)

    def closes(self, bracket: str) -> bool:
        """Goes to the next item, past a comma if there is one; or past the closing bracket, and says so."""
        self.skip(_BLANK)
        if self.text[self.at] == ",":
            self.at += len(",")
            self.skip(_BLANK)
        if self.text[self.at] != bracket:
            return False
        self.at += len(bracket)
        return True

    def line(self) -> int:
        return bisect_left(self.line_ends, self.at) + 1

    def skip(self, blank: re.Pattern[str]) -> None:
        match = blank.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def take(self, token: re.Pattern[str]) -> str:
        match = token.match(self.text, self.at)
        if match is None:
            raise AssertionError(f"a text that tomllib accepts has no {token.pattern!r} on line {self.line()}")
        self.at = match.end()
        return match.group()


def _unquoted(key: str) -> str:
    if key[0] == '"' and "\\" in key:
        return next(iter(tomllib.loads(f"{key} = 0")))
    return key[1:-1] if key[0] in "\"'" else key
