"""docs/reference/glossary.md: every word names the module that defines it."""

import re

import pytest

from tests.docs.test_docs import DOCS, ROOT

ROWS = re.findall(r"(?m)^\| ([a-z, ]+) \| (.+) \| `([\w/.]+)` \|$", (DOCS / "reference" / "glossary.md").read_text())
WORDS = {word for words, _, _ in ROWS for word in words.split(", ")}


def test_the_words_that_need_an_explanation_are_there() -> None:
    contract = {"namespace", "exchange", "topic", "pattern", "consumer", "group", "entity", "producer", "reading"}
    ours = {"heir", "courier", "seal", "lane", "pulse", "plan", "stamp", "outbox", "standing query", "door", "node"}
    assert contract | ours <= WORDS


@pytest.mark.parametrize(("words", "path"), [(words, path) for words, _, path in ROWS])
def test_the_module_is_there_and_uses_the_word(words: str, path: str) -> None:
    text = (ROOT / "src" / "fumarole" / path).read_text().lower()
    assert any(part in text for word in words.split(", ") for part in word.split())
