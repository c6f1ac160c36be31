"""Which payloads are JSON objects of which fields may be asked (F6), letter by letter: slow, and meant to be read."""

import re
from typing import Any

DEEPEST, LONGEST, LONGEST_NUMBER, EXACT_DIGITS = 64, 32 * 1024, 400, 38
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
LETTERS = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class NotJson(Exception):
    pass


def json_object(payload: bytes) -> dict[str, Any] | None:
    if len(payload) > LONGEST:
        return None
    try:
        reader = Reader(payload.decode())
        value = reader.value(0)
        reader.skip_space()
        reader.expect(reader.at == len(reader.text))
    except (UnicodeDecodeError, NotJson):
        return None
    return value if isinstance(value, dict) else None


def number(text: str) -> int | float:
    whole, _, decimals = text.partition(".")
    digits = re.sub("[^0-9]", "", text)
    if "e" not in text.lower() and not decimals.strip("0") and len(digits) <= EXACT_DIGITS:
        exact = int(whole)
        if -(2**63) <= exact < 2**64:
            return exact
    return float(text)


class Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def expect(self, truth: bool) -> None:
        if not truth:
            raise NotJson

    def skip_space(self) -> None:
        while self.text[self.at : self.at + 1] in (" ", "\t", "\n", "\r") and self.at < len(self.text):
            self.at += 1

    def takes(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def value(self, depth: int) -> Any:
        self.skip_space()
        for text, constant in (("true", True), ("false", False), ("null", None)):
            if self.takes(text):
                return constant
        if self.takes('"'):
            return self.string()
        if self.takes("{"):
            self.expect(depth < DEEPEST)
            return self.object(depth + 1)
        if self.takes("["):
            self.expect(depth < DEEPEST)
            return self.array(depth + 1)
        found = NUMBER.match(self.text, self.at)
        self.expect(found is not None and len(found[0]) <= LONGEST_NUMBER)
        assert found is not None
        self.at = found.end()
        return number(found[0])

    def object(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self.skip_space()
        if self.takes("}"):
            return made
        while True:
            self.skip_space()
            self.expect(self.takes('"'))
            key = self.string()
            self.expect(key not in made)
            self.skip_space()
            self.expect(self.takes(":"))
            made[key] = self.value(depth)
            self.skip_space()
            if self.takes("}"):
                return made
            self.expect(self.takes(","))

    def array(self, depth: int) -> list[Any]:
        made: list[Any] = []
        self.skip_space()
        if self.takes("]"):
            return made
        while True:
            made.append(self.value(depth))
            self.skip_space()
            if self.takes("]"):
                return made
            self.expect(self.takes(","))

    def string(self) -> str:
        units: list[str] = []
        while not self.takes('"'):
            self.expect(self.at < len(self.text))
            letter = self.text[self.at]
            self.at += 1
            if letter == "\\":
                units.append(self.escape())
            else:
                self.expect(letter >= " ")
                units.append(letter)
        text = "".join(units)
        # Two escapes may be a pair; what is left of them alone is no character.
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        self.expect(not any("\ud800" <= letter <= "\udfff" for letter in whole))
        return whole

    def escape(self) -> str:
        self.expect(self.at < len(self.text))
        letter = self.text[self.at]
        self.at += 1
        if letter != "u":
            self.expect(letter in LETTERS)
            return LETTERS[letter]
        code = self.text[self.at : self.at + 4]
        self.expect(re.fullmatch("[0-9a-fA-F]{4}", code) is not None)
        self.at += 4
        return chr(int(code, 16))
