import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.config.key_lines import key_lines
from fumarole.config.mistakes import KeyPath


def paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The path of every table, key and item, as tomllib sees them."""
    yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


CASES: dict[str, tuple[str, dict[KeyPath, int]]] = {
    "nothing": ("", {}),
    "only comments": ("# a = 1\n\n# [b]", {}),
    "a key": ("a = 1", {("a",): 1}),
    "blank lines and comments before": ("\n# x = 1\n\n  a = 1", {("a",): 4}),
    "lines end with CR LF": ("a = 1\r\nb = 2\r\n", {("a",): 1, ("b",): 2}),
    "a table": ("\n[t]\na = 1", {("t",): 2, ("t", "a"): 3}),
    "spaces in a header": ("[ t . u ]\na = 1", {("t", "u"): 1, ("t", "u", "a"): 2}),
    "a comment after a header": ("[t] # [x]\na = 1", {("t",): 1, ("t", "a"): 2}),
    "a table named by a deeper one first": ("[t.u]\n[t]\na = 1", {("t", "u"): 1, ("t",): 2, ("t", "a"): 3}),
    "dotted keys": ("a.b . c = 1\na.d = 2", {("a",): 1, ("a", "b", "c"): 1, ("a", "d"): 2}),
    "quoted keys": ('"a.b" = 1\n\'c]\' = 2\n"" = 3', {("a.b",): 1, ("c]",): 2, ("",): 3}),
    "escapes in a key": ('"\\u0061\\"=" = 1', {('a"=',): 1}),
    "a key that looks like a number": ("1.2 = 3", {("1", "2"): 1}),
    "a list on lines": ("a = [\n  1, # ]\n\n  2\n]\nb = 1", {("a", 0): 2, ("a", 1): 4, ("b",): 6}),
    "lists in lists": ("a = [[1],\n[2, [3]],]", {("a", 0, 0): 1, ("a", 1): 2, ("a", 1, 1, 0): 2}),
    "an empty list": ("a = []\nb = [ # c\n]\nc = 1", {("a",): 1, ("b",): 2, ("c",): 4}),
    "an inline table": ("a = {b = 1, c.d = 2}\ne = {}", {("a", "b"): 1, ("a", "c", "d"): 1, ("e",): 2}),
    "inline tables in a list": ("a = [{b = 1},\n{b = 2}]", {("a", 0, "b"): 1, ("a", 1, "b"): 2}),
    "text with brackets": ('a = \']}#,\'\nb = "]}#\\""\nc = 1', {("b",): 2, ("c",): 3}),
    "text on lines": ('a = """\n[x]\nb = 1\n"""\nc = 1', {("a",): 1, ("c",): 5}),
    "literal text on lines": ("a = '''\n\\\n[x]'''\nc = 1", {("a",): 1, ("c",): 4}),
    "quotes at the end of text": ('a = """x"""""\nb = 1', {("a",): 1, ("b",): 2}),
    "quotes at the end of literal text": ("a = '''x'''''\nb = 1", {("a",): 1, ("b",): 2}),
    "quotes inside literal text": ("a = '''it's ''\nb = 1'''\nc = 1", {("a",): 1, ("c",): 3}),
    "quotes and escapes inside": ('a = """"" \\""" """\nb = 1', {("a",): 1, ("b",): 2}),
    "empty text": ('a = ""\nb = \'\'\nc = """"""\nd = 1', {("c",): 3, ("d",): 4}),
    "dates with a space": ("a = [1979-05-27 07:32:00,\n2000-01-01]", {("a", 0): 1, ("a", 1): 2}),
    "lists of tables": ("[[t]]\na = 1\n[[t]]\na = 2", {("t",): 1, ("t", 0, "a"): 2, ("t", 1): 3, ("t", 1, "a"): 4}),
    "tables within lists of tables": (
        "[[t]]\n[t.u]\na = 1\n[[t.v]]\n[[t.v]]\n[[t]]\n[[t.v]]\nb = 1",
        {("t", 0, "u", "a"): 3, ("t", 0, "v", 1): 5, ("t", 1): 6, ("t", 1, "v", 0, "b"): 8},
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES.keys())
def test_lines(text: str, expected: dict[KeyPath, int]) -> None:
    lines = key_lines(text)
    assert set(lines) == set(paths(tomllib.loads(text)))
    assert {path: lines[path] for path in expected} == expected


class Writer:
    """Writes TOML in which every key and every value is a word of its own, so that each is on one line only."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.words = 0
        self.where: dict[KeyPath, str] = {}

    def choose(self, *choices: str) -> str:
        return self.data.draw(st.sampled_from(choices))

    def word(self) -> str:
        self.words += 1
        return f"w{self.words}w"

    def key(self) -> tuple[str, str]:
        """A key, and how it is written."""
        word = self.word()
        forms = [
            (word, word),
            (word, f'"{word}"'),
            (word, f"'{word}'"),
            (f'[.=#{word}"', f'"[.=#{word}\\""'),
            (f"#{word}]", f"'#{word}]'"),
        ]
        return self.data.draw(st.sampled_from(forms))

    def blank(self) -> str:
        return self.choose("", " ", "\n", "\r\n\t", " # ] } , = ' \"\n", "\n#'''\n")

    def value(self, path: KeyPath, depth: int = 0) -> str:
        shape = self.choose("text", "text", "list", "table") if depth < 3 else "text"
        if shape == "list":
            items = [
                self.blank() + self.value((*path, index), depth + 1) + self.blank()
                for index in range(self.data.draw(st.integers(0, 3)))
            ]
            trailing = self.choose("", ",") if items else ""
            return "[" + ",".join(items) + trailing + self.blank() + "]"
        if shape == "table":
            pairs = [self.pair(path, depth + 1) for _ in range(self.data.draw(st.integers(0, 3)))]
            return "{ " + ", ".join(pairs) + " }"
        word = self.word()
        self.where.setdefault(path, word)
        return self.choose(f"'{word}'", f'"{word}\\"]"', f'"""{word}\n[decoy]\n""\\"""""', f"'''{word}\n]}},'''''")

    def pair(self, table: KeyPath, depth: int = 0) -> str:
        key, written = self.key()
        path = (*table, key)
        self.where[path] = written
        if self.choose("plain", "plain", "dotted") == "dotted":
            key, deeper = self.key()
            written += self.choose(".", " . ") + deeper
            path = (*path, key)
            self.where[path] = deeper
        return written + self.choose("=", " = ") + self.value(path, depth)

    def document(self) -> str:
        text = ""
        table: KeyPath = ()
        lists: dict[str, int] = {}
        for _ in range(self.data.draw(st.integers(0, 8))):
            match self.choose("pair", "pair", "table", "list", "again"):
                case "pair":
                    text += self.choose("", "  ") + self.pair(table)
                case "table":
                    key, written = self.key()
                    table = (key,)
                    self.where[table] = written
                    text += f"[{written}]"
                case "list":
                    word = self.word()
                    lists[word] = 0
                    table = (word, 0)
                    self.where[table] = self.where[word,] = f"[[{word}]] # 0"
                    text += f"[[{word}]] # 0"
                case _ if lists:
                    word = self.choose(*lists)
                    lists[word] += 1
                    table = (word, lists[word])
                    self.where[table] = f"[[ {word} ]] # {lists[word]}."
                    text += self.where[table]
            text += self.choose("", " # comment = 1") + self.choose("\n", "\r\n", "\n\n")
        return text


@given(st.data())
def test_lines_of_any_document(data: st.DataObject) -> None:
    writer = Writer(data)
    text = writer.document()
    lines = key_lines(text)
    assert set(lines) == set(paths(tomllib.loads(text)))
    by_number = text.replace("\r\n", "\n").split("\n")
    for path, word in writer.where.items():
        assert word in by_number[lines[path] - 1]
